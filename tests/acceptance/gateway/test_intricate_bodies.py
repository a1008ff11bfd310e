"""Bodies whose structure costs more than their bytes, through every interface that reads JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import orjson
import pytest

from pipeline.outbound.json_limits import MOST_MEMBERS, MOST_VALUES
from tests.support.clients.gateway_client import VALID, ended, problem, send

NAMES = orjson.dumps({f"name{number}": 1 for number in range(300_000)})[1:-1]  # 4.4 MB; was 50 s
PROMPT_S = 3.0  # of which nearly all is the machine's other work
JSON = {"Content-Type": "application/json"}


def posted(path: str, body: bytes) -> Callable[[httpx.Client], httpx.Response]:
    return lambda client: client.post(path, content=body, headers=JSON)


DOORS: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "documents": posted("/v1/documents", b'{"namespace": "kb", "documents": [{"text": "a"}], ' + NAMES + b"}"),
    "a document": posted("/v1/documents", b'{"namespace": "kb", "documents": [{"text": "a", ' + NAMES + b"}]}"),
    "chunking": posted(
        "/v1/documents", b'{"namespace": "kb", "documents": [{"text": "a"}], "chunking": {' + NAMES + b"}}"
    ),
    "examples": posted("/v1/examples", b'{"namespace": "kb", "examples": {' + NAMES + b"}}"),
    "a dictionary": lambda client: client.put("/v1/dictionary", content=b"{" + NAMES + b"}", headers=JSON),
    "preview": posted("/v1/chunks/preview", b'{"document": {"text": "a"}, ' + NAMES + b"}"),
    "mcp": lambda client: client.post(
        "/mcp",
        content=b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {' + NAMES + b"}}",
        headers={**JSON, "Accept": "application/json, text/event-stream"},
    ),
}


class DescribeManyNames:
    @pytest.mark.parametrize(
        "door",
        [name if name in ("documents", "mcp") else pytest.param(name, marks=pytest.mark.thorough) for name in DOORS],
    )
    def it_is_refused_promptly_and_says_why(self, client, door):
        began = time.monotonic()
        found = DOORS[door](client)
        assert time.monotonic() - began < PROMPT_S
        assert found.status_code == 413
        body: dict[str, Any] = found.json()
        assert "body_too_complex" in (body.get("code"), body.get("error", {}).get("code"))
        if "limit" in body:
            assert body["limit"] == {"name": "json_members", "limit": MOST_MEMBERS}

    @pytest.mark.parametrize("path", ["/v1/queries", "/dify/retrieval", "/openai/v1/vector_stores"])
    def it_is_too_many_bytes_for_a_small_request(self, client, path):
        assert posted(path, b"{" + NAMES + b"}")(client).status_code == 413

    def it_is_one_fault_below_the_limit(self, client):
        names = {f"name{number}": 1 for number in range(5000)}
        found = client.post("/v1/documents", json={"namespace": "kb", "documents": [VALID], **names})
        body = problem(found, 422, "invalid_request")
        assert [place["pointer"] for place in body["errors"]] == [""]

    def it_costs_a_document_its_own_place_only(self, client, namespace):
        names = {f"name{number}": 1 for number in range(5000)}
        job = ended(client, send(client, namespace, VALID, {**VALID, "document_id": "bad", **names}))
        assert (job["succeeded"], job["failed"]) == (1, 1)
        assert "names" in job["errors"][0]["detail"]


class DescribeManyValues:
    def it_is_refused_by_the_number_before_it_is_parsed(self, client):
        body = b'{"namespace": "kb", "documents": [' + b"0," * MOST_VALUES + b"0]}"
        found = problem(posted("/v1/documents", body)(client), 413, "body_too_complex")
        assert found["limit"] == {"name": "json_values", "limit": MOST_VALUES}

    def it_counts_in_a_field_of_a_form(self, client):
        fields = {"namespace": "kb", "metadata": "{" + ",".join(f'"{n}":1' for n in range(MOST_MEMBERS + 1)) + "}"}
        found = client.post("/v1/files", files=[("file", ("a.txt", b"A pump.", "text/plain"))], data=fields)
        assert "metadata" in problem(found, 413, "body_too_complex")["detail"]

    def it_costs_a_file_of_lines_that_line(self, client, namespace):
        lines = b'{"document_id": "good", "text": "A pump."}\n{"document_id": "bad", ' + NAMES + b"}\n"
        files = [("file", ("a.jsonl", lines, "application/jsonl"))]
        job = ended(client, client.post("/v1/files", files=files, data={"namespace": namespace}))
        assert (job["succeeded"], job["failed"]) == (1, 1)
        assert "line 2" in job["errors"][0]["detail"]

    def it_lets_large_batches_through(self, client, namespace):
        documents = [
            {"document_id": f"d{number}", "text": "A pump, a valve.", "tags": ["a", "b"], "metadata": {"k": number}}
            for number in range(2000)
        ]
        assert send(client, namespace, *documents).status_code == 202


class DescribeAMultipartBody:
    def it_has_a_limit_on_the_head_of_a_part(self, client):
        part = (
            b'--b\r\nContent-Disposition: form-data; name="namespace"\r\nX: '
            + b"a" * 2_000_000
            + b"\r\n\r\nkb\r\n--b--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        problem(client.post("/v1/files", content=part, headers=headers), 400, "invalid_multipart")

    def it_has_a_limit_on_its_fields(self, client):
        part = b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n'
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        found = problem(
            client.post("/v1/files", content=part * 1001 + b"--b--\r\n", headers=headers), 400, "invalid_multipart"
        )
        assert "1000" in found["detail"]
