"""The official MCP client, on either way to the running stack and in either era of the protocol."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import jsonschema
import orjson
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

Way = Literal["http", "stdio"]
Era = Literal["auto", "legacy"]
ERAS: list[Era] = ["auto", "legacy"]
CHORDWISE = str(Path(sys.executable).with_name("chordwise"))


@asynccontextmanager
async def agent(
    key: str, way: Way = "http", era: Era = "auto", *, url: str | None = None, **headers: str
) -> AsyncIterator[Client]:
    """A connected client with this key; of the stack's gateway unless ``url`` names another."""
    url = url or os.environ["CHORDWISE_URL"]
    if way == "stdio":
        environment = {
            "CHORDWISE_URL": url,
            "CHORDWISE_API_KEY": key,
            "PATH": os.environ["PATH"],
        }
        server = StdioServerParameters(command=CHORDWISE, args=["mcp"], env=environment)
        async with Client(stdio_client(server), mode=era, cache=None) as client:
            yield client
        return
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}", **headers}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=era, cache=None) as client,
    ):
        yield client


async def given(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool gives, after checking what every result of a tool has to be."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result.content
    [text] = result.content
    found: dict[str, Any] = orjson.loads(text.text)
    assert found == result.structured_content
    described = {each.name: each for each in (await client.list_tools()).tools}
    jsonschema.validate(found, described[tool].output_schema)
    return found


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    """The sentence with which a tool fails."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    assert result.structured_content is None
    [text] = result.content
    return str(text.text)
