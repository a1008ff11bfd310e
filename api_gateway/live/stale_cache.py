"""Caches of values that requests need from MySQL, kept briefly, and longer while MySQL is away: keys, configurations,
rates, namespaces."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Hashable, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

import structlog
from cachetools import FIFOCache

from api_gateway.http.problems import Problem
from pipeline.administration import edit_vector_stores, list_documents
from pipeline.administration.manage_tenants import own_requests_per_minute
from pipeline.errors import StoreUnavailable, Unavailable
from pipeline.outages import tolerate_outage
from pipeline.query.configuration import Configuration, built_in_configuration
from pipeline.query.request import missing_namespaces
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.request_buckets import Rate

log = structlog.get_logger(__name__)

STALE_S: Final = 300.0  # lifetime of a cached value while MySQL is away
PATIENCE_S: Final = 0.25  # for values that a request can do without
FIRST_S: Final = 1.0  # for a value that was never read, so that a request that needs it is refused in time
_PROFILES_S: Final = 2.0  # a changed profile applies everywhere after this long
_RATES_S: Final = 30.0
_NAMESPACES_S: Final = 5.0
PAUSE_S: Final = 3.0  # after a failed or slow read, requests do not wait for this long; longer than a read may take

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Reading(Generic[V]):
    value: V
    at: float


class StaleCache(Generic[K, V]):
    """Values by key, read again before or when they are ``fresh_s`` old, by one reader of each key at a time.

    A value in the second half of that time is read again beside the caller, who gets it at once: on a busy host a read takes a
    tenth of a second. While an older one is read again, callers wait for the new one for ``patience_s``, and get the old
    one after that, or if the read fails; the old one holds for ``STALE_S``. After a failed read callers get the old value
    at once, and one read at a time goes on beside them until one succeeds, or until no caller has come for ``PAUSE_S``.
    None, which stands for a missing row, is never served after it is old.

    ``away`` returns whether MySQL is known to be unavailable.
    """

    def __init__(
        self,
        name: str,
        *,
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        away: Callable[[], bool] = lambda: False,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._mysql_is_away = away
        self._clock = clock
        self._cached: FIFOCache[K, _Reading[V]] = FIFOCache(most)
        self._tasks: dict[K, asyncio.Task[V]] = {}
        self._away_until = float("-inf")

    def __len__(self) -> int:
        return len(self._cached)

    def is_away(self) -> bool:
        """Return whether the last read timed out or failed."""
        return self._clock() < self._away_until

    def last(self, key: K) -> V | None:
        """Return the value that was read last, however old; None if none was ever read."""
        cached = self._cached.get(key)
        return None if cached is None else cached.value

    def holds_for(self, key: K, seconds: float) -> bool:
        """Return whether a value is cached that holds for so long if it cannot be read again."""
        cached = self._cached.get(key)
        return cached is not None and self._clock() - cached.at + seconds <= STALE_S

    async def of(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Return the key's value. Raises the errors of ``read``; Unavailable only if no usable value is cached."""
        cached = self._cached.get(key)
        age_s = float("inf") if cached is None else self._clock() - cached.at
        if cached is not None and age_s < self._fresh_s:
            if age_s >= self._fresh_s / 2 and key not in self._tasks and not (self.is_away() or self._mysql_is_away()):
                self._begin(key, read)
            return cached.value
        if cached is None or cached.value is None or age_s > STALE_S:
            return await self._read_first(key, read)
        if self.is_away() or self._mysql_is_away():
            if not self._tasks:
                self._begin(key, read)
            return cached.value
        task = self._tasks.get(key) or self._begin(key, read)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._patience_s)
        except (Unavailable, TimeoutError) as error:
            self._note_outage()
            log.warning("stale_value_served", cache=self._name, age_s=round(age_s, 1), error=type(error).__name__)
            return cached.value

    async def _read_first(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Read a value for which the cache holds nothing usable. Raises Unavailable if it cannot be read within
        FIRST_S, or, shortly after a failed read, within the patience."""
        task = self._tasks.get(key) or self._begin(key, read)
        patience_s = self._patience_s if self.is_away() or self._mysql_is_away() else FIRST_S
        try:
            return await asyncio.wait_for(asyncio.shield(task), patience_s)
        except TimeoutError:
            self._note_outage()
            raise StoreUnavailable(f"MySQL did not answer within {patience_s:g} s ({self._name})") from None

    def forget(self, is_forgotten: Callable[[K], bool]) -> None:
        """Drop these keys after a change; the next read is fresh."""
        mappings: tuple[MutableMapping[K, Any], ...] = (self._cached, self._tasks)
        for by_key in mappings:
            for key in filter(is_forgotten, list(by_key)):
                del by_key[key]

    def _begin(self, key: K, read: Callable[[], Awaitable[V]]) -> asyncio.Task[V]:
        task = self._tasks[key] = asyncio.ensure_future(self._read(key, read))
        task.add_done_callback(_retrieve_result)
        return task

    def _note_outage(self) -> None:
        self._away_until = self._clock() + PAUSE_S

    async def _read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        task = asyncio.current_task()
        try:
            value = await read()
        except Unavailable:
            self._note_outage()
            raise
        except Problem:  # the row no longer exists, whether or not anyone waited for the read
            if self._tasks.get(key) is task:
                self._cached.pop(key, None)
            raise
        finally:
            is_newest = self._tasks.get(key) is task
            if is_newest:
                del self._tasks[key]
        if is_newest:
            self._cached[key] = _Reading(value, self._clock())
            self._away_until = float("-inf")
        return value


def _retrieve_result(task: asyncio.Task[V]) -> None:
    """Retrieve the result of a read that nobody may have awaited, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


class Configurations:
    """Configurations of tenants, re-read when older than `_PROFILES_S`. ``away`` as of `StaleCache`."""

    def __init__(self, read: Callable[[TenantId], Awaitable[Configuration]], away: Callable[[], bool]) -> None:
        self._read = read
        self._cached: StaleCache[TenantId, Configuration] = StaleCache("configuration", fresh_s=_PROFILES_S, away=away)

    async def of(self, tenant_id: TenantId) -> Configuration:
        """Return the tenant's configuration.

        While MySQL is away, return the one of the last minutes, else the built-in one, so that plain queries continue.
        A custom profile is then reported as unknown to its sender.
        """
        with tolerate_outage(log.warning, "configuration_not_read", tenant_id=tenant_id):
            return await self._cached.of(tenant_id, lambda: self._read(tenant_id))
        return replace(built_in_configuration(), is_known=False)

    async def keep(self, tenant_id: TenantId) -> None:
        """Read the configuration of a tenant whose key was just verified, unless it holds for minutes: while MySQL is away, no
        query gets texts without the tenant's rules for personal data."""
        if not self._cached.holds_for(tenant_id, STALE_S / 2):
            await self.of(tenant_id)

    def forget(self, tenant_id: TenantId) -> None:
        """Drop the cached value after a change; other processes notice within `_PROFILES_S`."""
        self._cached.forget(lambda cached_id: cached_id == tenant_id)


class OwnRates:
    """Rates of all tenants. ``run`` calls a blocking function in a thread."""

    def __init__(self, run: Callable[..., Awaitable[Any]], use: Resources, away: Callable[[], bool]) -> None:
        self._run = run
        self._use = use
        self._default = Rate.of_tenant(use.settings.quota_requests_per_minute)
        self._cached: StaleCache[TenantId, Rate] = StaleCache("rate", fresh_s=_RATES_S, away=away)

    async def of(self, tenant_id: TenantId) -> Rate | None:
        """Return the tenant's rate, None for no limit. While MySQL is away, return the last known rate, or the setting."""
        rate = self._default
        with tolerate_outage(log.info, "rate_not_read"):
            rate = await self._cached.of(tenant_id, lambda: self._run(self._read, tenant_id))
        return rate if rate.per_minute else None

    def _read(self, tenant_id: TenantId) -> Rate:
        own = own_requests_per_minute(tenant_id, self._use)
        return self._default if own is None else Rate.of_tenant(own)


class KnownNamespaces:
    """The namespaces that requests name. Records their use: unused vector stores may expire. ``run`` calls in a thread."""

    def __init__(self, run: Callable[..., Awaitable[Any]], use: Resources, away: Callable[[], bool]) -> None:
        self._run = run
        self._use = use
        self._missing: StaleCache[tuple[TenantId, tuple[Namespace, ...], tuple[str, ...]], tuple[Namespace, ...]] = (
            StaleCache("namespaces", fresh_s=_NAMESPACES_S, away=away)
        )
        # Read each time, because a new one must be visible at once; the last read serves while MySQL is away.
        self._every: StaleCache[tuple[TenantId, int], tuple[Namespace, ...]] = StaleCache(
            "namespaces", fresh_s=0.0, away=away
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
        missing, needed = missing_namespaces(names, existing, optional=optional)
        if needed:
            pointers = [f"/namespaces/{position}" for position, name in enumerate(names) if name in needed]
            errors = [{"pointer": where, "detail": "does not exist"} for where in pointers]
            raise Problem(404, "namespace_not_found", f"There is no namespace {needed[0]}.", errors=errors)
        return missing

    def _record_use(self, tenant_id: TenantId, names: Collection[Namespace]) -> None:
        with tolerate_outage(log.warning, "namespace_use_not_recorded", namespaces=len(names)):
            edit_vector_stores.note_use(tenant_id, self._use, names)
