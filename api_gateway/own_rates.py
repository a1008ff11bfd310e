"""How often each tenant may ask: what its own row says, else the installation's setting; kept for a moment."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from pipeline.core.buckets import Rate
from pipeline.errors import Unavailable
from pipeline.flows.resources import Resources
from pipeline.records import TenantId
from pipeline.stores.quotas import own_requests_per_minute
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)

_FRESH_S = 30.0
_MOST_TENANTS = 10_000


class OwnRates:
    """Every tenant's rate. ``run`` calls something that blocks, in a thread."""

    def __init__(self, run: Callable[..., Awaitable[Any]], use: Resources) -> None:
        self._run = run
        self._use = use
        self._default = Rate(per_minute=use.settings.quota_requests_per_minute, burst=use.settings.quota_requests_burst)
        self._known: dict[TenantId, tuple[Rate | None, float]] = {}

    async def of(self, tenant_id: TenantId) -> Rate | None:
        """None for no limit. While MySQL is away, what was known last holds, or the setting."""
        rate, until = self._known.get(tenant_id, (self._limited(self._default), 0.0))
        if time.monotonic() < until:
            return rate
        # Whoever comes while one looks goes on with what was known, and does not look as well.
        self._known[tenant_id] = rate, time.monotonic() + _FRESH_S
        if len(self._known) > _MOST_TENANTS:
            self._known.clear()
        try:
            own = await self._run(self._read, tenant_id)
        except Unavailable as error:
            log.info("rate_not_read", code=error.code)
            return rate
        rate = self._limited(self._default if own is None else self._default.scaled_to(own))
        self._known[tenant_id] = rate, time.monotonic() + _FRESH_S
        return rate

    def _read(self, tenant_id: TenantId) -> int | None:
        with unit_of_work(self._use.mysql) as work:
            return own_requests_per_minute(work.connection, tenant_id)

    def _limited(self, rate: Rate) -> Rate | None:
        return rate if rate.per_minute else None
