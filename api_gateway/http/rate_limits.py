"""Rate limits by tenant, on every interface: 429 beyond the limit, and headers that state what is left.

The headers follow the IETF draft on rate limit fields: `RateLimit-Policy` states the limit, `RateLimit` the
remainder. The limit applies to a tenant, not to an address; `auth` limits the wrong keys of an address.
"""

import math
from collections.abc import Mapping
from contextlib import AsyncExitStack

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.gateway import Gateway
from api_gateway.http.auth import api_key_of, is_admin_key
from api_gateway.http.early_refusal import is_query
from api_gateway.http.metrics import LIMITED
from api_gateway.http.problems import Problem
from pipeline.errors import Unavailable
from pipeline.outages import OutagePause
from pipeline.records import TenantId
from pipeline.tenants.request_buckets import BucketReply, Rate

log = structlog.get_logger(__name__)

POLICY = "requests"
_WITHOUT_REDIS_S = 2.0  # pause before asking Redis again after it did not answer
_FREE = ("/healthz", "/readyz", "/openapi.json", "/docs", "/console", "/v1/metrics")


class RateLimits:
    """Apply rate limits to every request of a tenant. Plain ASGI. While Redis is away no limit applies, and a warning
    is logged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._redis_pause = OutagePause(_WITHOUT_REDIS_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with 429 beyond the tenant's rate."""
        if scope["type"] != "http" or scope["path"].startswith(_FREE):
            await self._app(scope, receive, send)
            return
        gateway: Gateway = scope["app"].state.gateway
        tenant_id, refusal = await _tenant_of(scope, Headers(scope=scope), gateway)
        if refusal is not None:
            await refusal.response(scope)(scope, receive, send)
            return
        if tenant_id is None or not is_query(scope):
            await self._limited(tenant_id, scope, receive, send)
            return
        async with AsyncExitStack() as inside:
            try:
                await inside.enter_async_context(gateway.admission.counted(tenant_id))
            except Problem as problem:
                await problem.response(scope)(scope, receive, send)
                return
            await self._limited(tenant_id, scope, receive, send)

    async def _limited(self, tenant_id: TenantId | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a tenant, with 429 beyond its rate."""
        gateway: Gateway = scope["app"].state.gateway
        rate = None if tenant_id is None else await gateway.own_rates.of(tenant_id)
        allowance = None if tenant_id is None or rate is None else await self._take(tenant_id, rate, gateway)
        if rate is None or allowance is None:
            await self._app(scope, receive, send)
            return
        limit_headers = headers_of(rate, allowance)

        async def send_with_limits(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in limit_headers.items():  # a full queue has added its own
                    headers[name] = f"{headers[name]}, {value}" if name in headers else value
            await send(message)

        if allowance.admitted:
            await self._app(scope, receive, send_with_limits)
            return
        LIMITED.inc()
        log.info("request_limited", tenant_id=tenant_id)
        await gateway.admission.hold_back()
        await _refusal(rate, allowance).response(scope)(scope, receive, send_with_limits)

    async def _take(self, tenant_id: TenantId, rate: Rate, gateway: Gateway) -> BucketReply | None:
        if self._redis_pause.is_over:
            with self._redis_pause.after_outage(log.warning, "requests_not_limited"):
                return await gateway.request_rates.take(tenant_id, rate)
        return None


async def _tenant_of(
    scope: Scope, headers: Mapping[str, str], gateway: Gateway
) -> tuple[TenantId | None, Problem | None]:
    """Return the key's tenant, None if the route will refuse it, and the Problem of an address with many wrong keys."""
    try:
        key = api_key_of(headers)
        turn = gateway.wrong_keys.turn(scope, headers)
        if turn is None or gateway.keys.verified_tenant(key) is not None:
            principal = await gateway.keys.principal(key)
        else:
            async with turn:
                principal = await gateway.keys.principal(key)
    except (Problem, Unavailable):
        return None, None
    if principal is not None:
        return principal.tenant_id, None
    if is_admin_key(key, gateway.settings):
        return None, None
    return None, await gateway.wrong_keys.refusal(gateway.wrong_keys.address_of(scope, headers))


def headers_of(rate: Rate, allowance: BucketReply) -> dict[str, str]:
    """Return the headers that state the limit and the remainder."""
    refill_s = 60 * (rate.burst - allowance.left) / rate.per_minute
    reset_s = math.ceil(refill_s if allowance.left else allowance.wait_s)
    return {
        "RateLimit-Policy": f'"{POLICY}";q={rate.burst};w={rate.window_s}',
        "RateLimit": f'"{POLICY}";r={allowance.left};t={reset_s}',
    }


def _refusal(rate: Rate, allowance: BucketReply) -> Problem:
    wait_s = max(1, math.ceil(allowance.wait_s))
    detail = f"The tenant may send {rate.per_minute} requests a minute, and {rate.burst} at once; try again later."
    quota: dict[str, str | int] = {"name": "requests_per_minute", "limit": rate.per_minute, "used": rate.per_minute}
    return Problem(429, "too_many_requests", detail, headers={"Retry-After": str(wait_s)}, extensions={"quota": quota})
