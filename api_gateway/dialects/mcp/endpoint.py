"""The door of the MCP server: who may come in is decided as everywhere, and from which web pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from api_gateway.dialects.mcp.lazy_server import McpOpening
from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Reader
from api_gateway.http.bodies import read_json_body, require_bounded
from api_gateway.http.descriptions import answers
from api_gateway.http.problems import Problem

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

MOST_BODY_BYTES: Final = 8 * 1024 * 1024  # documents larger than that go through /v1/documents
_ANY_OBJECT: dict[str, Any] = {"schema": {"type": "object"}}
_BODY = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {"type": "object", "description": "A JSON-RPC 2.0 request or notification."},
            "example": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        }
    },
}
_CORS_HEADERS = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name",
    "Access-Control-Max-Age": "600",
}


async def from_an_allowed_origin(request: Request) -> str | None:
    """A dependency: the web page's origin, None for what is none. Raises Problem 403 for one that the settings do not name:
    a page that somebody happens to visit must not reach a gateway on his own machine."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in gateway_of(request).settings.mcp_allowed_origins:
        detail = "Web pages of this origin may not use MCP here."
        raise Problem(403, "origin_not_allowed", detail, title="The origin is not allowed")
    return origin


router = APIRouter(tags=["mcp"], dependencies=[Depends(from_an_allowed_origin)])

Origin = Annotated[str | None, Depends(from_an_allowed_origin)]


@router.post(
    "/mcp",
    responses={
        **answers(200, None, "The answer, as JSON-RPC; a tool that failed says so in it.", 401, 403, 413, 415, 503),
        200: {"description": "The answer, as JSON-RPC.", "content": {"application/json": _ANY_OBJECT}},
        202: {"description": "A notification was taken."},
        **{
            status: {"description": meaning, "content": {"application/json": _ANY_OBJECT}}
            for status, meaning in {
                400: "No JSON-RPC, or headers that the protocol does not allow; the error says which.",
                404: "The method does not exist.",
                406: "`Accept` must allow `application/json` and `text/event-stream`.",
            }.items()
        },
    },
    openapi_extra={"requestBody": _BODY},
    summary="Model Context Protocol",
)
async def talk(request: Request, origin: Origin, principal: Reader) -> Response:
    """Streamable HTTP without sessions, for the protocol's versions from 2024-11-05 to 2026-07-28. Tools and resources are
    those that the key may use."""
    opening: McpOpening = request.app.state.mcp
    limit = min(MOST_BODY_BYTES, gateway_of(request).settings.max_body_bytes)
    body = await read_json_body(request, limit)
    require_bounded(body)
    request.state.principal = principal
    return _Handed(await opening.manager(), body, origin)


@router.options("/mcp", include_in_schema=False)
async def allow(origin: Origin) -> Response:
    """What a browser asks before it lets a page of an allowed origin send anything."""
    return Response(status_code=204, headers={**_CORS_HEADERS, **_cors(origin)})


def _cors(origin: str | None) -> dict[str, str]:
    return {} if origin is None else {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


class _Handed(Response):
    """A response that the official package writes, from a body that was read here."""

    def __init__(self, manager: StreamableHTTPSessionManager, body: bytes, origin: str | None) -> None:
        super().__init__()
        self._manager, self._sent, self._origin = manager, body, origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": self._sent, "more_body": False}

        async def send_at_once(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Accel-Buffering"] = "no"
                headers.update(_cors(self._origin))
            await send(message)

        await self._manager.handle_request(scope, again, send_at_once)
