"""MCP over standard input and output: pass every message to the gateway's MCP server with the user's key."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import httpx2
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp_types import INTERNAL_ERROR

from chordwise.errors import ConnectionFailed, UnexpectedAnswer
from chordwise.transport import CLIENT_VERSION, client_arguments

_CONNECT_S = 10.0
_READ_S = 90.0  # longer than any call of the gateway takes

Context = ServerRequestContext[Any, Any]
T = TypeVar("T")


async def serve_stdio(url: str | None, api_key: str | None) -> None:
    """Serve until standard input ends. Raises NotConfigured, ConnectionFailed, or UnexpectedAnswer if the key is refused."""
    arguments = client_arguments(url, api_key)
    base = arguments["base_url"]
    headers = {name: arguments["headers"][name] for name in ("Authorization", "User-Agent")}
    timeout = httpx2.Timeout(_READ_S, connect=_CONNECT_S)
    async with httpx2.AsyncClient(
        headers=headers, timeout=timeout, verify=arguments["verify"], trust_env=arguments["trust_env"]
    ) as http:
        await _require_entry(http, f"{base}/mcp", base)
        async with Client(streamable_http_client(f"{base}/mcp", http_client=http), cache=None) as gateway:
            server = make_bridge(gateway)
            async with stdio_server() as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())


def make_bridge(gateway: Client) -> Server[Any]:
    """Return a server that passes every request on to the gateway."""

    async def list_tools(_: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return await _forward(gateway.list_tools(cursor=_cursor(params)))

    async def call_tool(_: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        return await _forward(gateway.call_tool(params.name, params.arguments or {}))

    async def list_resources(_: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        return await _forward(gateway.list_resources(cursor=_cursor(params)))

    async def list_templates(
        _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return await _forward(gateway.list_resource_templates(cursor=_cursor(params)))

    async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await _forward(gateway.read_resource(str(params.uri)))

    return Server(
        "chordwise",
        version=CLIENT_VERSION,
        title="Chordwise",
        instructions=gateway.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def _require_entry(http: httpx2.AsyncClient, endpoint: str, url: str) -> None:
    """Raise ConnectionFailed or UnexpectedAnswer if the gateway does not accept the key, before an agent waits for it."""
    ping = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    try:
        answer = await http.post(endpoint, json=ping, headers=accept)
    except httpx2.HTTPError as error:
        raise ConnectionFailed(f"there is no answer from {url}: {type(error).__name__}") from None
    if answer.status_code != 200:
        raise UnexpectedAnswer(f"{url} refuses the connection: {_detail(answer)}")


def _detail(answer: httpx2.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    detail = body.get("detail") if isinstance(body, dict) else None
    return str(detail or f"status {answer.status_code}")


def _cursor(params: types.PaginatedRequestParams | None) -> str | None:
    return params.cursor if params is not None else None


async def _forward(answer: Awaitable[T]) -> T:
    """Await the gateway's answer; turn errors of the connection into an MCPError."""
    try:
        return await answer
    except (httpx2.HTTPError, TimeoutError, OSError) as error:
        raise MCPError(INTERNAL_ERROR, f"The gateway does not answer: {type(error).__name__}.") from None
