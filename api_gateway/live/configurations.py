"""Cached profiles, experiments and request rates of tenants, so that no query waits for MySQL."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import structlog

from api_gateway.live.stale_cache import StaleCache
from pipeline.administration.manage_tenants import own_requests_per_minute
from pipeline.errors import Unavailable
from pipeline.query.configuration import Configuration, built_in_configuration
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.request_buckets import Rate

log = structlog.get_logger(__name__)

_RATE_FRESH_S = 30.0
FRESH_S = 2.0  # a changed profile applies everywhere after this long


class Configurations:
    """Configurations of tenants, re-read when older than `FRESH_S`."""

    def __init__(
        self,
        read: Callable[[TenantId], Awaitable[Configuration]],
        *,
        away: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._cached: StaleCache[TenantId, Configuration] = StaleCache(
            "configuration", fresh_s=FRESH_S, away=away, clock=clock
        )

    async def of(self, tenant_id: TenantId) -> Configuration:
        """Return the tenant's configuration.

        While MySQL is away, return the one of the last minutes, else the built-in one, so that plain queries continue.
        A custom profile is then reported as unknown to its sender.
        """
        try:
            return await self._cached.of(tenant_id, lambda: self._read(tenant_id))
        except Unavailable as error:
            log.warning("configuration_not_read", tenant_id=tenant_id, code=error.code)
            return replace(built_in_configuration(), is_known=False)

    def forget(self, tenant_id: TenantId) -> None:
        """Drop the cached value after a change; other processes notice within `FRESH_S`."""
        self._cached.forget(lambda cached_id: cached_id == tenant_id)


class OwnRates:
    """Rates of all tenants. ``run`` calls a blocking function in a thread."""

    def __init__(
        self, run: Callable[..., Awaitable[Any]], use: Resources, *, away: Callable[[], bool] = lambda: False
    ) -> None:
        self._run = run
        self._use = use
        self._default = Rate(per_minute=use.settings.quota_requests_per_minute, burst=use.settings.quota_requests_burst)
        self._cached: StaleCache[TenantId, Rate] = StaleCache("rate", fresh_s=_RATE_FRESH_S, away=away)

    async def of(self, tenant_id: TenantId) -> Rate | None:
        """Return the tenant's rate, None for no limit. While MySQL is away, return the last known rate, or the setting."""
        try:
            rate = await self._cached.of(tenant_id, lambda: self._run(self._read, tenant_id))
        except Unavailable as error:
            log.info("rate_not_read", code=error.code)
            rate = self._default
        return rate if rate.per_minute else None

    def _read(self, tenant_id: TenantId) -> Rate:
        own = own_requests_per_minute(tenant_id, self._use)
        return self._default if own is None else self._default.scaled_to(own)
