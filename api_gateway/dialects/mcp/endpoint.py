"""The HTTP endpoint of the MCP server: authentication as everywhere, and a check of the calling web page's origin."""

from __future__ import annotations

import asyncio
import importlib
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Scope, Send

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.bodies import read_json_body, require_bounded
from api_gateway.http.caller import Caller, Reader
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import answers

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class McpOpening:
    """The session manager: opened once, closed with the gateway, and always closed by the task that opened it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ended = asyncio.Event()
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._task: asyncio.Task[None] | None = None

    async def manager(self) -> StreamableHTTPSessionManager:
        """Return the ASGI application for requests. Raises Problem(503) while the gateway shuts down."""
        if self._ended.is_set():
            raise Problem(503, "not_started", "The gateway is about to end.", headers={"Retry-After": "1"})
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._serve(self._ready))
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Accept no more requests, and end."""
        self._ended.set()
        if self._task is not None:
            await self._task

    async def _serve(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            module = await to_thread.run_sync(importlib.import_module, "api_gateway.dialects.mcp.server")
            async with module.serving(self._gateway) as manager:
                ready.set_result(manager)
                await self._ended.wait()
        except Exception as error:
            if ready.done():
                raise
            self._ready = None  # the next request tries again
            ready.set_exception(error)


MOST_BODY_BYTES: Final = 8 * 1024 * 1024  # larger documents go through /v1/documents
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
    """Return the web page's origin, or None without one; a dependency.

    Raises Problem(403) for an origin that the settings do not name: a page that a user visits must not reach a gateway
    on the user's machine.
    """
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
        **answers(200, None, "The answer as JSON-RPC; it also reports a tool's failure.", 401, 403, 413, 415, 503),
        200: {"description": "The answer, as JSON-RPC.", "content": {"application/json": _ANY_OBJECT}},
        202: {"description": "The notification was accepted."},
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
async def talk(origin: Origin, caller: Reader) -> Response:
    """Serve Streamable HTTP without sessions, for protocol versions 2024-11-05 to 2026-07-28. The key's scopes decide
    which tools and resources are available."""
    opening: McpOpening = caller.request.app.state.mcp
    limit = min(MOST_BODY_BYTES, caller.gateway.settings.max_body_bytes)
    body = await read_json_body(caller.request, limit)
    require_bounded(body)
    caller.request.state.caller = caller
    handed = _Handed(await opening.manager(), body, origin)
    if (call_id := _id_of_search(body)) is None:
        return handed
    return _Counted(handed, caller, call_id)


@router.options("/mcp", include_in_schema=False)
async def allow(origin: Origin) -> Response:
    """Answer a browser's preflight request for a page of an allowed origin."""
    return Response(status_code=204, headers={**_CORS_HEADERS, **_cors(origin)})


def _cors(origin: str | None) -> dict[str, str]:
    return {} if origin is None else {"Access-Control-Allow-Origin": origin, "Vary": "Origin"}


def _id_of_search(body: bytes) -> int | str | None:
    """Return the id of the call of a tool that sends a query; None for any other message."""
    with suppress(orjson.JSONDecodeError, KeyError, TypeError):
        message = orjson.loads(body)
        if message["method"] == "tools/call" and message["params"]["name"] == "search":
            call_id = message["id"]
            return call_id if isinstance(call_id, int | str) else None
    return None


class _Counted(Response):
    """The response to a search, counted among its tenant's queries. A crowd's is refused before the official package reads
    it, which costs more than all that the gateway does for a refusal."""

    def __init__(self, handed: _Handed, caller: Caller, call_id: int | str) -> None:
        super().__init__()
        self._handed, self._caller, self._call_id = handed, caller, call_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Response = self._handed
        async with AsyncExitStack() as inside:
            try:
                await inside.enter_async_context(self._caller.gateway.admission.counted(self._caller.tenant_id))
            except Problem as problem:
                answer = json_response(
                    {"jsonrpc": "2.0", "id": self._call_id, "result": failed_result(problem)},
                    headers=_cors(self._handed.origin),
                )
            await answer(scope, receive, send)


def failed_result(problem: Problem) -> dict[str, Any]:
    """Return the result of a tool that failed, for the model to read."""
    return {"content": [{"type": "text", "text": f"{problem.detail} ({problem.code})"}], "isError": True}


class _Handed(Response):
    """A response written by the official package from a body that was read here."""

    def __init__(self, manager: StreamableHTTPSessionManager, body: bytes, origin: str | None) -> None:
        super().__init__()
        self._manager, self._sent, self.origin = manager, body, origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_sent = False

        async def receive_body() -> Message:
            nonlocal is_sent
            if is_sent:
                return await receive()
            is_sent = True
            return {"type": "http.request", "body": self._sent, "more_body": False}

        async def send_at_once(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Accel-Buffering"] = "no"
                headers.update(_cors(self.origin))
            await send(message)

        await self._manager.handle_request(scope, receive_body, send_at_once)
