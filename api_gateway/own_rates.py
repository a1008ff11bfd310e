"""How often each tenant may ask: what its own row says, else the installation's setting; kept for a moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from api_gateway.remembering import Remembered
from pipeline.core.buckets import Rate
from pipeline.errors import Unavailable
from pipeline.flows.resources import Resources
from pipeline.records import TenantId
from pipeline.stores.quotas import own_requests_per_minute
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)

_FRESH_S = 30.0


class OwnRates:
    """Every tenant's rate. ``run`` calls something that blocks, in a thread."""

    def __init__(
        self, run: Callable[..., Awaitable[Any]], use: Resources, *, away: Callable[[], bool] = lambda: False
    ) -> None:
        self._run = run
        self._use = use
        self._default = Rate(per_minute=use.settings.quota_requests_per_minute, burst=use.settings.quota_requests_burst)
        self._known: Remembered[TenantId, Rate] = Remembered("rate", fresh_s=_FRESH_S, away=away)

    async def of(self, tenant_id: TenantId) -> Rate | None:
        """None for no limit. While MySQL is away, what was known last holds, or the setting."""
        try:
            rate = await self._known.of(tenant_id, lambda: self._run(self._read, tenant_id))
        except Unavailable as error:
            log.info("rate_not_read", code=error.code)
            rate = self._default
        return rate if rate.per_minute else None

    def _read(self, tenant_id: TenantId) -> Rate:
        with unit_of_work(self._use.mysql) as work:
            own = own_requests_per_minute(work.connection, tenant_id)
        return self._default if own is None else self._default.scaled_to(own)
