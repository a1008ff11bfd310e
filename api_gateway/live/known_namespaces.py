"""Cache existing namespaces: they are rarely deleted, so only missing ones are looked up often."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any

import structlog

from api_gateway.http.problems import Problem
from api_gateway.live.stale_cache import StaleCache
from pipeline.administration import edit_vector_stores, list_documents
from pipeline.errors import Unavailable
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_FRESH_S = 5.0


class KnownNamespaces:
    """The namespaces that requests name. Records their use: unused vector stores may expire. ``run`` calls in a thread."""

    def __init__(
        self,
        run: Callable[..., Awaitable[Any]],
        use: Resources,
        *,
        away: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._use = use
        self._missing: StaleCache[tuple[TenantId, tuple[Namespace, ...], tuple[str, ...]], tuple[Namespace, ...]] = (
            StaleCache("namespaces", fresh_s=_FRESH_S, away=away, clock=clock)
        )
        # Read each time, because a new one must be visible at once; the last read serves while MySQL is away.
        self._every: StaleCache[tuple[TenantId, int], tuple[Namespace, ...]] = StaleCache(
            "namespaces", fresh_s=0.0, away=away, clock=clock
        )

    async def require(
        self, tenant_id: TenantId, names: Sequence[Namespace], *, optional: Sequence[str] = ()
    ) -> tuple[Namespace, ...]:
        """Return the namespaces among ``optional`` that do not exist.

        Raises Problem(404) that names the first other one that does not exist, also if none of ``names`` exists, and
        Unavailable while MySQL is away, unless they were seen in the last minutes.
        """
        optional_names = tuple(name for name in names if name in optional)
        key = (tenant_id, tuple(names), optional_names)
        missing = await self._missing.of(key, lambda: self._run(self._read_missing, tenant_id, names, optional_names))
        if missing:  # it may be created at any moment and must be visible at once
            self._missing.forget(lambda cached_key: cached_key == key)
        return missing

    async def every(self, tenant_id: TenantId, *, limit: int) -> tuple[Namespace, ...]:
        """Return the tenant's first ``limit`` namespaces in the order of their names. Raises Unavailable while MySQL is
        away, unless they were read in the last minutes."""
        return await self._every.of((tenant_id, limit), lambda: self._run(self._read_first, tenant_id, limit))

    def forget(self, tenant_id: TenantId, name: Namespace) -> None:
        """Drop a deleted namespace from the cache; other processes notice within seconds."""
        self._missing.forget(lambda key: key[0] == tenant_id and name in key[1])

    def _read_first(self, tenant_id: TenantId, limit: int) -> tuple[Namespace, ...]:
        views = list_documents.list_namespaces(tenant_id, self._use, limit=limit)
        return tuple(Namespace(view.namespace) for view in views)

    def _read_missing(
        self, tenant_id: TenantId, names: Sequence[Namespace], optional: Collection[Namespace]
    ) -> tuple[Namespace, ...]:
        existing = list_documents.existing_namespaces(tenant_id, self._use, names)
        self._record_use(tenant_id, existing)
        missing = [(position, name) for position, name in enumerate(names) if name not in existing]
        needed = [(position, name) for position, name in missing if name not in optional] if existing else missing
        if needed:
            errors = [{"pointer": f"/namespaces/{position}", "detail": "does not exist"} for position, _ in needed]
            detail = f"There is no namespace {needed[0][1]}."
            raise Problem(404, "namespace_not_found", detail, errors=errors)
        return tuple(name for _, name in missing)

    def _record_use(self, tenant_id: TenantId, names: Collection[Namespace]) -> None:
        try:
            edit_vector_stores.note_use(tenant_id, self._use, names)
        except Unavailable as error:  # a failure to record the use must not fail the request
            log.warning("namespace_use_not_recorded", namespaces=len(names), code=error.code)
