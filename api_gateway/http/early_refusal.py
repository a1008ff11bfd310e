"""Refuse queries of a tenant that asks more than can be answered, before anything else is done for them. Plain ASGI."""

import re
import time
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api_gateway.gateway import Gateway
from api_gateway.http.auth import api_key_of
from api_gateway.http.problems import Problem
from api_gateway.http.request_context import STANDARD_HEADERS, observe, request_id_of
from pipeline.records import TenantId

# Routes that send a query; those of an MCP session are only known from its messages.
_ASKING: Final = re.compile(
    r"/v1/(queries|queries/[^/]+/replay|rag/query|rag/debug)|/internal/recall/test|/dify/retrieval"
    r"|/openai/v1/vector_stores/[^/]+/search"
)


def is_query(scope: Scope) -> bool:
    """Return whether a request sends a query."""
    return scope["method"] == "POST" and _ASKING.fullmatch(scope["path"]) is not None


class EarlyRefusal:
    """The outermost layer: under overload most requests end here, and each costs half of what it would cost inside.

    It knows the tenants of keys that this process has verified; `RateLimits` refuses the others of a crowd.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a crowd with 503, or pass it on."""
        if scope["type"] != "http" or not is_query(scope):
            await self._app(scope, receive, send)
            return
        gateway: Gateway = scope["app"].state.gateway
        tenant_id = _tenant_of(scope, gateway)
        started = time.perf_counter()
        try:
            if tenant_id is not None:
                await gateway.admission.refuse_crowd(tenant_id)
        except Problem as problem:
            request_id = request_id_of(scope)
            scope.setdefault("state", {}).update(request_id=request_id)

            async def send_with_headers(message: Message) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] += [(b"x-request-id", request_id.encode()), *STANDARD_HEADERS]
                await send(message)

            await problem.response(scope)(scope, receive, send_with_headers)
            seconds = time.perf_counter() - started
            observe(scope, problem.status, seconds, request_id=request_id, tenant_id=tenant_id)
            return
        await self._app(scope, receive, send)


def _tenant_of(scope: Scope, gateway: Gateway) -> TenantId | None:
    """Return the tenant of a key that was verified lately, else None."""
    try:
        return gateway.keys.verified_tenant(api_key_of(Headers(scope=scope)))
    except Problem:
        return None
