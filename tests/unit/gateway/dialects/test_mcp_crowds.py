"""Searches through MCP count among the tenant's queries, and a crowd's are refused before the official package reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from starlette.responses import Response

from api_gateway.dialects.mcp.endpoint import _Counted, _id_of_search
from api_gateway.http.problems import Problem


def call(tool: str, **more: Any) -> bytes:
    return orjson.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": {}}, **more}
    )


class Handed(Response):
    """The answer of the official package."""

    origin = "https://page.example"

    def __init__(self) -> None:
        super().__init__(b"answered")
        self.is_read = False

    async def __call__(self, *arguments: Any) -> None:
        self.is_read = True
        await super().__call__(*arguments)


async def answered(*, full: bool) -> tuple[bytes, Handed, list[str]]:
    inside: list[str] = []

    @asynccontextmanager
    async def counted(tenant_id: str) -> AsyncIterator[None]:
        if full:
            raise Problem(503, "overloaded", "More is asked than can be answered; send this again in 1 s.")
        inside.append(tenant_id)
        yield

    caller: Any = SimpleNamespace(tenant_id="a", gateway=SimpleNamespace(admission=SimpleNamespace(counted=counted)))
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    handed: Any = Handed()
    await _Counted(handed, caller, 7)({"type": "http"}, lambda: None, send)  # type: ignore[arg-type, return-value]
    return b"".join(message.get("body", b"") for message in sent), handed, inside


class DescribeACrowdOfSearches:
    @pytest.mark.parametrize(
        ("message", "found"),
        [
            (call("search"), 7),
            (call("search", id="x"), "x"),
            (call("fetch"), None),
            (call("search", id=None), None),
            (call("search", method="tools/list"), None),
            (b"[]", None),
            (b"7", None),
            (b"{", None),
            (orjson.dumps({"method": "tools/call"}), None),
        ],
    )
    def it_is_known_by_the_message(self, message: bytes, found: int | str | None):
        assert _id_of_search(message) == found

    async def it_is_counted_while_it_is_answered(self):
        body, handed, inside = await answered(full=False)
        assert (body, handed.is_read, inside) == (b"answered", True, ["a"])

    async def it_is_refused_with_a_result_that_the_model_reads(self):
        body, handed, _ = await answered(full=True)
        assert not handed.is_read
        text = "More is asked than can be answered; send this again in 1 s. (overloaded)"
        result = {"content": [{"type": "text", "text": text}], "isError": True}
        assert orjson.loads(body) == {"jsonrpc": "2.0", "id": 7, "result": result}
