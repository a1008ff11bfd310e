"""What comes to /mcp that is no well-behaved agent: other origins, no key, garbage, floods."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.clients.gateway_figures import resident_bytes

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
MODERN = "2026-07-28"
MEGABYTE = 1024 * 1024


def call(method: str = "tools/list", version: str | None = None, **params) -> dict:
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, **({"_meta": meta} if version else {})}}


@pytest.fixture(scope="module")
def door(use) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {make_tenant(use)[1]}", **ACCEPT}
    with httpx.Client(base_url=os.environ["CHORDWISE_URL"], headers=headers, timeout=60) as client:
        yield client


def post(door: httpx.Client, content, **headers: str) -> httpx.Response:
    sent = content if isinstance(content, bytes) else json.dumps(content).encode()
    return door.post("/mcp", content=sent, headers=headers)


class DescribeWhoMayComeIn:
    @pytest.mark.parametrize("origin", ["https://evil.example.com", "null", "http://127.0.0.1:8080", ""])
    def it_refuses_web_pages_whose_origin_is_not_allowed_before_it_looks_at_their_key(self, door, origin):
        problem(post(door, call(), Origin=origin), 403, "origin_not_allowed")
        problem(post(door, call(), Origin=origin, Authorization="Bearer wrong"), 403, "origin_not_allowed")
        assert door.request("OPTIONS", "/mcp", headers={"Origin": origin}).status_code == 403

    @pytest.mark.parametrize(
        ("authorization", "code"),
        [("", "missing_api_key"), ("Basic x", "malformed_authorization"), ("Bearer cw_demo_x", "invalid_api_key")],
    )
    def it_needs_a_key_as_everything_does(self, door, authorization, code):
        refused = post(door, call(), Authorization=authorization)
        problem(refused, 401, code)
        assert refused.headers["www-authenticate"] == "Bearer"

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
    def it_keeps_no_sessions_and_no_streams(self, door, method):
        refused = door.request(method, "/mcp")
        problem(refused, 405, "method_not_allowed")
        assert refused.headers["allow"] == "POST"

    def it_lets_no_proxy_hold_answers_back(self, door):
        assert post(door, call()).headers["x-accel-buffering"] == "no"


class DescribeBothEras:
    @pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
    def it_shakes_hands_in_every_version_of_the_older_one(self, door, version):
        client = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = post(door, call("initialize", **client))
        assert answer.json()["result"]["protocolVersion"] == version
        assert "mcp-session-id" not in answer.headers
        listed = post(door, call(), **{"MCP-Protocol-Version": version}).json()["result"]["tools"]
        assert listed[0]["name"] == "search"

    def it_is_discovered_in_the_newer_one(self, door):
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"}
        found = post(door, call("server/discover", MODERN), **headers).json()["result"]
        assert MODERN in found["supportedVersions"]
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
        listed = post(door, call(version=MODERN), **headers).json()["result"]
        assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 60_000, "private")

    @pytest.mark.parametrize(
        ("method", "version", "headers", "status", "code"),
        [
            ("tools/list", MODERN, {"Mcp-Method": "tools/call"}, 400, -32020),
            ("tools/list", "2099-01-01", {"MCP-Protocol-Version": "2099-01-01"}, 400, -32022),
            ("no/such", MODERN, {"Mcp-Method": "no/such"}, 404, -32601),
        ],
    )
    def it_says_what_the_protocol_says_to_a_wrong_request(self, door, method, version, headers, status, code):
        answer = post(door, call(method, version), **{"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **headers})
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


class DescribeGarbage:
    @pytest.mark.parametrize("headers", [{}, {"MCP-Protocol-Version": MODERN}], ids=["older", "newer"])
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"\xff\xfe\x00",
            b"null",
            b"7",
            b"[]",
            b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]',
            b"[" * 200_000,
            b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
            b'{"jsonrpc":"2.0","id":1' + b"0" * 5000 + b',"method":"ping"}',
            b'{"jsonrpc":"2.0","id":1}',
            b'{"jsonrpc":"1.0","id":1,"method":"tools/list"}',
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"all"}',
        ],
        ids=range(13),
    )
    def it_is_refused_with_an_error_of_the_protocol(self, door, content, headers):
        answer = post(door, content, **headers)
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["code"] in (-32700, -32600, -32602)
        assert 0 < len(error["message"]) < 5000

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ({}, "query is required"),
            ({"query": ""}, "query is empty"),
            ({"query": " \t"}, "white space"),
            ({"query": "a\0b"}, "NUL"),
            ({"query": "x" * 8001}, "8000 characters"),
            ({"query": "x", "top_k": float("nan")}, "top_k"),
            ({"query": "x", "top_k": 10**400}, "top_k"),
            ({"query": "x", "namespaces": ["../etc"]}, "namespaces/0"),
            ({"query": "x", "filters": {"metadata": {"a": [[[[[]]]]] * 5000}}}, "metadata"),
        ],
    )
    def it_is_answered_by_the_tool_in_a_sentence(self, door, arguments, sentence):
        answer = post(door, call("tools/call", name="search", arguments=arguments))
        assert answer.status_code in (200, 400), answer.text
        told = answer.json()
        if answer.status_code == 400:  # a number that no JSON parser takes does not reach the tool
            assert told["error"]["code"] == -32700
        else:
            assert told["result"]["isError"] is True
            assert sentence in told["result"]["content"][0]["text"]

    @pytest.mark.parametrize(
        "uri", ["", "x", "file:///etc/passwd", "chordwise://namespaces/%00%ff", "chordwise://jobs/1"]
    )
    def it_finds_no_resource_behind_odd_addresses(self, door, uri):
        error = post(door, call("resources/read", uri=uri)).json()["error"]
        assert error["code"] in (-32002, -32602)

    @pytest.mark.parametrize("cursor", ["", "x" * 10_000, "\u0001", "日本"])
    def it_takes_any_cursor_for_a_name(self, door, cursor):
        assert post(door, call("resources/list", cursor=cursor)).json()["result"]["resources"] == []

    def it_takes_no_more_than_it_says(self, door):
        problem(post(door, b'"' + b"x" * (8 * MEGABYTE) + b'"'), 413, "body_too_large")

        def endless() -> Iterator[bytes]:
            yield from [b" " * MEGABYTE] * 9

        problem(door.post("/mcp", content=endless()), 413, "body_too_large")
        problem(post(door, call(), **{"Content-Type": "text/plain"}), 415, "unsupported_media_type")

    def it_costs_bounded_memory(self, door):
        deep = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * MEGABYTE
        for _ in range(5):
            post(door, deep)
        before = resident_bytes(door.get("/v1/metrics").text)
        for _ in range(40):
            post(door, deep)
            post(door, call("tools/call", name="x" * MEGABYTE))
        assert resident_bytes(door.get("/v1/metrics").text) - before < 64 * MEGABYTE
