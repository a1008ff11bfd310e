"""Faults of any request: body, key, query, id, parameter, method. Never a 500."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest

from pipeline.database.unit_of_work import unit_of_work
from pipeline.tenants.tenant_store import ApiKeys, hashed, key_id_of
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, pointers, problem, send

NOTHING = "b7e23ec2-9af2-4f0e-8c5e-0d5b4a6f7c11"  # the id of a thing that is nowhere


@pytest.fixture(scope="module")
def client(use):
    """One for the file: what is refused leaves nothing behind."""
    _, key = make_tenant(use)
    with gateway(key) as found:
        yield found


@pytest.fixture
def other_client(use):
    """The gateway with the key of another tenant than ``client``'s."""
    _, key = make_tenant(use)
    with gateway(key) as found:
        yield found


@pytest.fixture
def revoked_key(use):
    """A key that was good once."""
    tenant_id, key = make_tenant(use)
    with unit_of_work(use.mysql) as work:
        assert ApiKeys(work.connection, tenant_id).revoke(key_id_of(hashed(key)))
    return key


class DescribeAnUnreadableBody:
    @pytest.mark.parametrize(
        ("content", "status", "code"),
        [
            (b"", 400, "invalid_json"),
            (b"{", 400, "invalid_json"),
            (b'{"a": NaN}', 400, "invalid_json"),
            (b'{"a": "\\ud800"', 400, "invalid_json"),
            (b"[" * 5000, 400, "invalid_json"),
            (b'{"b": "\\ud800", "a": ' + b"[" * 100_000, 400, "invalid_json"),
            (b'{"b": "\\ud800", "a": ' + b"9" * 5000 + b"}", 400, "invalid_json"),
            (b'{"namespace": "\xff"}', 400, "invalid_encoding"),
            ('{"namespace": "é"}'.encode("utf-16"), 400, "invalid_encoding"),
            (b"[]", 422, "invalid_request"),
            (b'"text"', 422, "invalid_request"),
        ],
    )
    @pytest.mark.parametrize("path", ["/v1/documents", "/v1/queries", "/v1/rag/query", "/v1/verify"])
    def it_is_refused(self, client, path, content, status, code):
        problem(client.post(path, content=content, headers={"Content-Type": "application/json"}), status, code)

    @pytest.mark.parametrize(
        "media_type",
        ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "multipart/form-data"],
    )
    def it_is_refused_with_the_wrong_media_type(self, client, media_type):
        response = client.post("/v1/documents", content=b"{}", headers={"Content-Type": media_type})
        problem(response, 415, "unsupported_media_type")

    def it_is_refused_without_a_media_type(self, client):
        problem(client.post("/v1/documents", content=b"{}"), 415, "unsupported_media_type")

    def it_is_refused_when_compressed(self, client):
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        problem(client.post("/v1/documents", content=b"{}", headers=headers), 415, "unsupported_media_type")

    @pytest.mark.parametrize("chunked", [False, True])
    def it_is_refused_when_too_large(self, client, chunked):
        piece = b'{"query_text": "' + b"x" * 1_100_000 + b'"}'
        content = (piece[start : start + 65536] for start in range(0, len(piece), 65536)) if chunked else piece
        headers = {"Content-Type": "application/json"}
        problem(client.post("/v1/queries", content=content, headers=headers), 413, "body_too_large")


class DescribeABadKey:
    @pytest.mark.parametrize(
        ("header", "code"),
        [
            (None, "missing_api_key"),
            ("", "missing_api_key"),
            ("Bearer", "malformed_authorization"),
            ("Basic dXNlcjpwYXNz", "malformed_authorization"),
            ("Bearer nonsense", "invalid_api_key"),
            ("Bearer cw_nobody_" + "0" * 48, "invalid_api_key"),
            ("Bearer cw_no body_" + "é" * 4, "invalid_api_key"),
        ],
    )
    @pytest.mark.parametrize("path", ["/v1/jobs", "/v1/documents", "/v1/namespaces", f"/v1/queries/{NOTHING}"])
    def it_is_answered_with_401(self, client, path, header, code):
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        response = httpx.get(f"{client.base_url}".rstrip("/") + path, headers=headers, trust_env=False)
        problem(response, 401, code)
        assert response.headers["www-authenticate"] == "Bearer"

    def it_is_answered_with_401_when_revoked(self, client, revoked_key):
        headers = {"Authorization": f"Bearer {revoked_key}"}
        problem(client.get("/v1/jobs", headers=headers), 401, "invalid_api_key")


class DescribeABadQuery:
    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"query_text": ""}, "/query_text"),
            ({"query_text": " \u3000"}, "/query_text"),
            ({"query_text": "x" * 8001}, "/query_text"),
            ({"query_text": 5}, "/query_text"),
            ({"query_text": "a\0"}, "/query_text"),
            ({"query_text": "\ud800"}, "/query_text"),
            ({"top_k": 0}, "/top_k"),
            ({"top_k": 1001}, "/top_k"),
            ({"top_k": 5.0}, "/top_k"),
            ({"top_k": "10"}, "/top_k"),
            ({"top_k": True}, "/top_k"),
            ({"namespaces": []}, "/namespaces"),
            ({"namespaces": "kb"}, "/namespaces"),
            ({"namespaces": ["ok", "not ok"]}, "/namespaces/1"),
            ({"namespaces": ["kb"] * 33}, "/namespaces"),
            ({"unknown": 1}, "/unknown"),
            ({"filters": {"tag": "a"}}, "/filters/tag"),
            ({"filters": {"start": "yesterday"}}, "/filters/start"),
            ({"filters": {"start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}}, "/filters/end"),
            ({"filters": {"metadata": []}}, "/filters/metadata"),
            ({"enable_rerank": "yes"}, "/enable_rerank"),
            ({"retrieve": {"method": "magic"}}, "/retrieve/method"),
            ({"retrieve": {"score_threshold": -0.1}}, "/retrieve/score_threshold"),
            ({"retrieve": {"fusion": {"strategy": "custom"}}}, "/retrieve/fusion/strategy"),
            ({"retrieve": {"fusion": {"strategy": "custom", "plugin": "nowhere"}}}, "/retrieve/fusion/plugin"),
            ({"retrieve": {"fusion": {"k": -1}}}, "/retrieve/fusion/k"),
            ({"retrieve": {"channels": {"keyword": {"weight": -1}}}}, "/retrieve/channels/keyword/weight"),
            ({"retrieve": {"channels": {"keyword": {"weight": 101}}}}, "/retrieve/channels/keyword/weight"),
            (
                {"retrieve": {"channels": {"semantic": {"score_threshold": 1.1}}}},
                "/retrieve/channels/semantic/score_threshold",
            ),
            (
                {"retrieve": {"channels": {"semantic": {"per_namespace": 0}}}},
                "/retrieve/channels/semantic/per_namespace",
            ),
            ({"retrieve": {"channels": {"graph": {"weight": 1}}}}, "/retrieve/channels/graph"),
            ({"retrieve": {"channels": {"fallback": {}}}}, "/retrieve/channels/fallback"),
            ({"retrieve": {"channels": {"faq": {"options": {"kind": "x"}}}}}, "/retrieve/channels/faq/options/kind"),
            ({"retrieve": {"channels": {"api": {"options": {"source": ""}}}}}, "/retrieve/channels/api/options/source"),
            ({"retrieve": {"method": "full_text", "channels": {"keyword": {"weight": 0}}}}, "/retrieve/channels"),
            ({"retrieve": {"second": {"min_hits": 3}}}, "/retrieve/second"),
            ({"retrieve": {"second": {"pool": 300}}}, "/retrieve/second"),
            ({"retrieve": {"second": {}}}, "/retrieve/second"),
            ({"retrieve": {"ladder": {"thresholds": [0.6, 0.7]}}}, "/retrieve/ladder/thresholds"),
            ({"retrieve": {"ladder": {"thresholds": [0.6, 0.6]}}}, "/retrieve/ladder/thresholds"),
            ({"retrieve": {"time_decay": {"by": "story_time"}}}, "/retrieve/time_decay/shape"),
            ({"retrieve": {"time_decay": {"half_life_days": 0}}}, "/retrieve/time_decay/half_life_days"),
            ({"retrieve": {"selection": {"quality": {"grades": ["A", "A"]}}}}, "/retrieve/selection/quality/grades"),
            ({"retrieve": {"allocation": "some"}}, "/retrieve/allocation"),
            ({"context": {"max_tokens": 0}}, "/context/max_tokens"),
            ({"context": {"max_tokens": 32_001}}, "/context/max_tokens"),
            ({"context": {"format": "xml"}}, "/context/format"),
            ({"context": True}, "/context"),
            ({"highlight": {}}, "/highlight"),
            ({"story_time": 1.5}, "/story_time"),
            ({"story_time": 2**63}, "/story_time"),
            ({"session_id": ""}, "/session_id"),
        ],
    )
    def it_is_refused_with_its_place(self, client, namespace, change, pointer):
        body = {"query_text": "pump", "namespaces": [namespace], **change}
        response = client.post("/v1/queries", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert pointers(problem(response, 422, "invalid_request")) == [pointer]

    def it_is_refused_for_a_namespace_that_does_not_exist(self, client, namespace):
        body = {"query_text": "pump", "namespaces": [namespace]}
        found = problem(client.post("/v1/queries", json=body), 404, "namespace_not_found")
        assert namespace in found["detail"]
        assert pointers(found) == ["/namespaces/0"]

    def it_is_refused_for_another_tenant(self, client, namespace):
        body = {"query_text": "pump", "namespaces": [namespace], "tenant_id": "somebody-else"}
        problem(client.post("/v1/rag/query", json=body), 403, "tenant_mismatch")


class DescribeAnUnknownThing:
    @pytest.mark.parametrize(
        ("method", "path", "code"),
        [
            ("GET", f"/v1/queries/{NOTHING}", "query_not_found"),
            ("GET", "/v1/queries/nonsense", "query_not_found"),
            ("DELETE", f"/v1/queries/{NOTHING}", "query_not_found"),
            ("GET", f"/v1/jobs/{NOTHING}?wait=5", "job_not_found"),
            ("GET", "/v1/jobs/%C3%A9", "job_not_found"),
            ("GET", f"/v1/jobs/{NOTHING}/items", "job_not_found"),
            ("GET", "/v1/documents/none?namespace=kb", "document_not_found"),
            ("GET", "/v1/documents/%00?namespace=kb", "document_not_found"),
            ("DELETE", "/v1/documents/none?namespace=kb", "document_not_found"),
            ("GET", "/v1/documents/none/chunks?namespace=kb", "document_not_found"),
            ("GET", "/v1/nothing", "route_not_found"),
            ("GET", "/nothing", "route_not_found"),
            ("GET", "/v1/jobs/", "route_not_found"),
        ],
    )
    def it_is_answered_with_404(self, client, method, path, code):
        response = client.request(method, path)
        assert response.json()["code"] == code
        assert response.status_code == 404

    def it_hides_jobs_queries_and_documents_of_other_tenants(self, client, other_client, namespace):
        submitted = send(client, namespace, VALID)
        ended(client, submitted)
        asked = client.post("/v1/queries", json={"query_text": "pump", "namespaces": [namespace]})
        problem(other_client.get(submitted.headers["location"]), 404, "job_not_found")
        problem(other_client.get(asked.headers["location"]), 404, "query_not_found")
        problem(other_client.delete(asked.headers["location"]), 404, "query_not_found")
        where = {"namespace": namespace}
        assert other_client.get("/v1/documents/good", params=where).json()["code"] == "document_not_found"
        assert other_client.delete("/v1/documents/good", params=where).json()["code"] == "document_not_found"
        body = {"query_text": "pump", "namespaces": [namespace]}
        problem(other_client.post("/v1/queries", json=body), 404, "namespace_not_found")
        assert client.get("/v1/documents/good", params=where).status_code == 200


class DescribeABadParameter:
    @pytest.mark.parametrize(
        ("path", "pointer"),
        [
            ("/v1/jobs?limit=0", "/limit"),
            ("/v1/jobs?limit=201", "/limit"),
            ("/v1/jobs?limit=many", "/limit"),
            (f"/v1/jobs/{NOTHING}?wait=61", "/wait"),
            (f"/v1/jobs/{NOTHING}?wait=nan", "/wait"),
            (f"/v1/queries/{NOTHING}?wait=-1", "/wait"),
            (f"/v1/jobs/{NOTHING}/items?status=broken", "/status"),
            ("/v1/documents/d1", "/namespace"),
            ("/v1/documents?namespace=not%20one", "/namespace"),
        ],
    )
    def it_is_refused_with_its_name(self, client, path, pointer):
        response = client.get(path)
        assert response.status_code == 422
        assert response.json()["code"] == "invalid_request"
        assert response.json()["errors"][0] | {"detail": ""} == {"pointer": pointer, "in": "query", "detail": ""}

    @pytest.mark.parametrize("cursor", ["x", "%00", "WyJqb2JzIl0", "WyJkb2N1bWVudHMiLCJhIiwiYiJd", "===="])
    @pytest.mark.parametrize("path", ["/v1/jobs", "/v1/namespaces"])
    def it_refuses_an_unknown_cursor(self, client, path, cursor):
        response = client.get(f"{path}?cursor={cursor}")
        assert (response.status_code, response.json()["code"]) == (422, "invalid_cursor")


class DescribeAWrongMethod:
    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/v1/jobs", "GET"),
            ("POST", "/v1/documents/d1", "DELETE, GET"),
            ("PUT", "/v1/documents", "DELETE, GET, PATCH, POST"),
            ("GET", "/v1/rag/query", "POST"),
            ("DELETE", "/healthz", "GET"),
        ],
    )
    def it_is_answered_with_405_and_the_allowed_methods(self, client, method, path, allowed):
        response = client.request(method, path)
        problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allowed


class DescribeTheRequestId:
    @pytest.mark.parametrize("given", ["mine-1", "x" * 128, "!~"])
    def it_is_taken_from_the_request(self, client, given):
        assert client.get("/v1/nothing", headers={"X-Request-ID": given}).headers["x-request-id"] == given

    @pytest.mark.parametrize("given", ["", "x" * 129, "a b", "é"])
    def it_is_generated_for_an_unusable_one(self, client, given):
        response = client.get("/healthz", headers={"X-Request-ID": given.encode("latin-1")})
        assert uuid.UUID(response.headers["x-request-id"])
