"""Each tenant's profiles and experiments, as they were a moment ago: no query waits for MySQL to know how it is answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog

from api_gateway.remembering import Remembered
from pipeline.core.configuration import Configuration, built_in_configuration
from pipeline.errors import Unavailable
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

FRESH_S = 2.0  # a change of a profile holds everywhere after this long


class Configurations:
    """Configurations of tenants, read again when they are older than `FRESH_S`."""

    def __init__(
        self,
        read: Callable[[TenantId], Awaitable[Configuration]],
        *,
        away: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._known: Remembered[TenantId, Configuration] = Remembered(
            "configuration", fresh_s=FRESH_S, away=away, clock=clock
        )

    async def of(self, tenant_id: TenantId) -> Configuration:
        """The tenant's configuration. While MySQL is away, the one of the last minutes; else what is built in, so that
        plain queries go on. A profile that is not built in is then not known, which its sender is told."""
        try:
            return await self._known.of(tenant_id, lambda: self._read(tenant_id))
        except Unavailable as error:
            log.warning("configuration_not_read", tenant_id=tenant_id, code=error.code)
            return replace(built_in_configuration(), is_known=False)

    def forget(self, tenant_id: TenantId) -> None:
        """Something was changed here; other processes notice within `FRESH_S`."""
        self._known.forget(lambda known: known == tenant_id)
