"""Each tenant's profiles and experiments, as they were a moment ago: no query waits for MySQL to know how it is answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from pipeline.core.configuration import Configuration, built_in_configuration
from pipeline.errors import Unavailable
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

FRESH_S = 2.0  # a change of a profile holds everywhere after this long
_STALE_S = 300.0
_MOST_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class _Seen:
    configuration: Configuration
    at: float


class Configurations:
    """Configurations of tenants, read again when they are older than `FRESH_S`."""

    def __init__(
        self,
        read: Callable[[TenantId], Awaitable[Configuration]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._clock = clock
        self._seen: dict[TenantId, _Seen] = {}

    async def of(self, tenant_id: TenantId) -> Configuration:
        """The tenant's configuration. While MySQL is away, the one of the last minutes; else what is built in, so that
        plain queries go on. A profile that is not built in is then not known, which its sender is told."""
        known = self._seen.get(tenant_id)
        if known is not None and self._clock() - known.at < FRESH_S:
            return known.configuration
        try:
            found = await self._read(tenant_id)
        except Unavailable:
            log.warning("configuration_answered_from_cache", tenant_id=tenant_id)
            usable = known is not None and self._clock() - known.at < _STALE_S
            return known.configuration if known is not None and usable else built_in_configuration()
        if len(self._seen) >= _MOST_TENANTS:
            self._seen.clear()
        self._seen[tenant_id] = _Seen(found, self._clock())
        return found

    def forget(self, tenant_id: TenantId) -> None:
        """Something was changed here; other processes notice within `FRESH_S`."""
        self._seen.pop(tenant_id, None)
