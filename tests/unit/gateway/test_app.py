"""The application as a whole, without servers behind it: what it answers before it needs one."""

from __future__ import annotations

import dataclasses
import json
import re
import uuid

import httpx
import pytest
import structlog
from fastapi import FastAPI

from api_gateway.app import create_app
from api_gateway.console.page import docs_page, files
from api_gateway.http.auth import Keys
from api_gateway.live.wakes import Wakes
from api_gateway.resources.retrieval import queries as results
from pipeline.answer import result as records
from pipeline.errors import StoreUnavailable
from pipeline.records import TenantId
from pipeline.settings import load
from pipeline.tenants.accounts import Principal
from tests.support.repository import described_codes

pytestmark = pytest.mark.usefixtures("quiet")

KEYS = {f"cw_acme_{scope:0>48}": frozenset({scope}) for scope in ("read", "write")}
READ, WRITE = KEYS
_ONE_THING = (
    "/v1/tenants/{tenant_id}/",
    "/v1/profiles/{name}/",
    "/v1/jobs/{job_id}/",
    "/v1/query-batches/{batch_id}/",
    "/v1/dead-letters/{letter_id}/",
    "/v1/webhooks/{webhook_id}/",
    "/v1/sources/{source_id}/",
    "/v1/admin/embedding-migrations/{number}/",
    "/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/",
)


async def look_up(api_key):
    if api_key.startswith("cw_down_"):
        raise StoreUnavailable("MySQL: OperationalError 2003")
    scopes = KEYS.get(api_key)
    return None if scopes is None else Principal(tenant_id=TenantId("acme"), scopes=scopes)


@pytest.fixture(scope="module")
def app() -> FastAPI:
    made = create_app(load({"max_body_bytes": 2048, "redis_url": "redis://127.0.0.1:1/0"}))  # nobody there
    made.state.gateway.keys = Keys(look_up)

    @made.get("/broken")
    async def broken():
        raise RuntimeError("a secret")

    return made


@pytest.fixture
async def client(app):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as found:
        yield found


@pytest.fixture
def document():
    return described_codes.document()


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class DescribeEveryAnswer:
    @pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/jobs", "/broken", "/docs"])
    async def it_has_an_id_and_safe_headers(self, client, path):
        headers = (await client.get(path)).headers
        assert uuid.UUID(headers["x-request-id"])
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none'")

    @pytest.mark.parametrize(
        ("method", "path", "key", "status", "code"),
        [
            ("GET", "/healthz/", None, 404, "route_not_found"),
            ("GET", "/v1/jobs", WRITE, 403, "insufficient_scope"),
            ("POST", "/v1/documents", READ, 403, "insufficient_scope"),
            ("GET", "/v1/jobs", "cw_down_" + "0" * 48, 503, "store_unavailable"),
            ("GET", "/broken", None, 500, "internal_error"),
        ],
    )
    async def it_is_a_problem_if_it_is_an_error(self, client, method, path, key, status, code):
        response = await client.request(method, path, headers=bearer(key) if key else {})
        assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
        body = response.json()
        assert (body["status"], body["code"]) == (status, code)
        assert "secret" not in response.text

    async def it_says_when_to_come_back_while_a_dependency_is_away(self, client):
        response = await client.get("/v1/jobs", headers=bearer("cw_down_" + "0" * 48))
        assert int(response.headers["retry-after"]) >= 1


class DescribeACrowdThatWaits:
    async def it_keeps_out_nobody_who_does_not_wait(self, app, client, monkeypatch):
        """Redis answers such a request, and there is none here."""
        monkeypatch.setattr(app.state.gateway, "wakes", Wakes(most_waiters=0))
        path = f"/v1/queries/{uuid.uuid4()}"
        waiting = await client.get(f"{path}?wait=1", headers=bearer(READ))
        looking = await client.get(path, headers=bearer(READ))
        assert [response.json()["code"] for response in (waiting, looking)] == ["too_many_waiters", "store_unavailable"]


class DescribeTheLog:
    async def it_has_one_line_per_request_and_nothing_private(self, client):
        with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
            await client.get("/v1/jobs?cursor=private", headers=bearer(READ))
        [line] = [line for line in lines if line["event"] == "request"]
        assert line["latency_ms"] >= 0
        assert {name: line[name] for name in ("method", "route", "status", "tenant_id")} == {
            "method": "GET",
            "route": "/v1/jobs",
            "status": 422,
            "tenant_id": "acme",
        }
        assert "private" not in repr(lines)

    async def it_does_not_carry_one_requests_tenant_into_the_next(self, client):
        await client.get("/v1/jobs?limit=0", headers=bearer(READ))
        with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
            await client.get("/healthz")
        assert lines[-1]["tenant_id"] is None

    async def it_keeps_what_a_fault_of_ours_was(self, client):
        with structlog.testing.capture_logs([structlog.contextvars.merge_contextvars]) as lines:
            response = await client.get("/broken")
        [line] = [line for line in lines if line["event"] == "request_failed"]
        assert line["exc_info"]
        assert line["request_id"] == response.headers["x-request-id"]


# A dialect reports errors in its own form.
OTHER_DIALECTS = {
    "/dify/retrieval": {"application/json"},
    "/mcp": {"application/problem+json", "application/json"},
}


class DescribeTheDescription:
    def it_refers_to_nothing_that_is_not_there(self, document):
        references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
        assert references <= set(document["components"]["schemas"])

    def it_has_the_body_of_every_route_that_takes_one(self, document):
        posts = {path: found["post"] for path, found in document["paths"].items() if "post" in found}
        taking = {"/v1/documents", "/v1/files", "/v1/queries", "/v1/rag/query", "/v1/verify", "/v1/dead-letters/replay"}
        assert taking <= set(posts)
        # An action on one resource needs no body: the path names the resource.
        bare = {path for path, operation in posts.items() if "requestBody" not in operation}
        assert all(path.startswith(_ONE_THING) for path in bare)

    def it_describes_errors_as_problems(self, document):
        for path, operations in document["paths"].items():
            if path.startswith("/openai/"):
                continue  # has a form of its own: tests/unit/gateway/dialects/test_openai_shapes.py
            for operation in operations.values():
                errors = {int(status) for status in operation["responses"] if int(status) >= 400} - {503}
                told_as = {kind for status in errors for kind in operation["responses"][str(status)]["content"]}
                assert not errors or told_as == OTHER_DIALECTS.get(path, {"application/problem+json"}), path

    def it_is_shown_on_a_page_that_loads_files_of_the_console_alone(self, document):
        page = docs_page(document)
        assert not re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", page)
        assert set(re.findall(r'(?:src|href)="([^"]+)"', page)) - {"openapi.json"} <= {
            f"console/{name}" for name in files()
        }
        assert all(path in page for path in document["paths"])

    @pytest.mark.parametrize(
        ("shape", "record"),
        [
            (results.Answer, records.Answer),
        ],
    )
    def it_keeps_to_the_records_that_are_sent_as_they_are(self, shape, record):
        assert list(shape.model_fields) == [field.name for field in dataclasses.fields(record)]
