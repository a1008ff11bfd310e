"""Everything a sender can get wrong: the right status, code and pointer, never a 500, and nothing valid lost."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest

from pipeline.stores.tenants import Tenants
from pipeline.stores.work import unit_of_work
from tests.conftest import gateway, make_tenant

VALID = {"document_id": "good", "text": "The pump starts when the valve is open."}


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
        assert Tenants(work.connection, tenant_id).revoke_key(key)
    return key


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The body of a refusal, after checking what every refusal has."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    assert body["status"] == status
    assert all(body[name] for name in ("type", "title", "detail"))
    assert body["instance"] == response.request.url.path
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def pointers(body: dict[str, Any]) -> list[str]:
    return [error["pointer"] for error in body["errors"]]


def send(client: httpx.Client, namespace: str, *documents: Any, **more: Any) -> httpx.Response:
    body = {"namespace": namespace, "documents": list(documents), **more}
    return client.post("/v1/documents", content=json.dumps(body), headers={"Content-Type": "application/json"})


def ended(client: httpx.Client, response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 202, response.text
    job: dict[str, Any] = client.get(response.headers["location"], params={"wait": 30}).json()
    return job


BAD_DOCUMENTS = [
    pytest.param({"document_id": "bad", "text": ""}, 422, "empty_document", "/text", id="empty text"),
    pytest.param({"document_id": "bad", "text": " \n\t"}, 422, "empty_document", "/text", id="white space"),
    pytest.param({"document_id": "bad", "text": 5}, 422, "invalid_document", "/text", id="text is a number"),
    pytest.param({"document_id": "bad"}, 422, "invalid_document", "/text", id="no text"),
    pytest.param({"document_id": 7, "text": "t"}, 422, "invalid_document", "/document_id", id="id is a number"),
    pytest.param({"document_id": "x" * 65, "text": "t"}, 422, "invalid_document", "/document_id", id="id of 65"),
    pytest.param({"document_id": " x", "text": "t"}, 422, "invalid_document", "/document_id", id="id with a space"),
    pytest.param({"document_id": "a\nb", "text": "t"}, 422, "invalid_document", "/document_id", id="id with a line end"),
    pytest.param({"document_id": "bad", "text": "t", "txet": 1}, 422, "invalid_document", "/txet", id="unknown field"),
    pytest.param({"document_id": "bad", "text": "a\0b"}, 422, "invalid_document", "/text", id="NUL"),
    pytest.param({"document_id": "bad", "text": "a\ud800b"}, 422, "invalid_document", "/text", id="lone surrogate"),
    pytest.param(
        {"document_id": "bad", "text": "t", "metadata": {"k": "\udfff"}}, 422, "invalid_document", "/metadata/k",
        id="surrogate in metadata",
    ),
    pytest.param(
        {"document_id": "bad", "text": "t", "metadata": {"\udfff/k": 1}}, 422, "invalid_document", "/metadata/\ufffd~1k",
        id="surrogate in a name",
    ),
    pytest.param(
        {"document_id": "bad", "text": "t", "tags": ["a", 5]}, 422, "invalid_document", "/tags/1", id="tag is a number"
    ),
    pytest.param(
        {"document_id": "bad", "text": "t", "published_at": "2026-01-02T00:00:00"}, 422, "invalid_document",
        "/published_at", id="time without offset",
    ),
    pytest.param(
        {"document_id": "bad", "text": "t", "story_time": 2**63}, 422, "invalid_document", "/story_time", id="big number"
    ),
    pytest.param(
        {"document_id": "bad", "text": "t", "source": {"media_type": "application/pdf"}}, 422, "invalid_document",
        "/source/media_type", id="media type",
    ),
    pytest.param("not an object", 422, "invalid_document", "", id="a string"),
    pytest.param({"document_id": "bad", "text": "x" * 5_000_000}, 413, "document_too_large", "/text", id="5 MB"),
]  # fmt: skip


class DescribeABadDocument:
    @pytest.mark.parametrize(("document", "status", "code", "pointer"), BAD_DOCUMENTS)
    def it_is_refused_with_its_place(self, client, namespace, document, status, code, pointer):
        body = problem(send(client, namespace, document), status, code)
        assert pointers(body) == [f"/documents/0{pointer}"]

    @pytest.mark.parametrize(("document", "status", "code", "pointer"), BAD_DOCUMENTS)
    def it_does_not_harm_its_neighbours(self, client, namespace, document, status, code, pointer):
        job = ended(client, send(client, namespace, VALID, document))
        assert (job["status"], job["succeeded"], job["failed"]) == ("partly_failed", 1, 1)
        [error] = job["errors"]
        assert (error["code"], error["pointer"]) == (code, f"/documents/1{pointer}")
        assert client.get("/v1/documents/good", params={"namespace": namespace}).status_code == 200

    def it_is_told_once_for_every_bad_one_when_none_is_good(self, client, namespace):
        body = problem(send(client, namespace, {"text": ""}, {"text": 5}), 422, "no_valid_document")
        assert pointers(body) == ["/documents/0/text", "/documents/1/text"]
        assert client.get("/v1/documents", params={"namespace": namespace}).json()["data"] == []

    def it_may_be_the_second_of_a_name(self, client, namespace):
        job = ended(client, send(client, namespace, VALID, VALID | {"text": "Another text."}))
        assert [error["code"] for error in job["errors"]] == ["duplicate_document_id"]
        assert job["succeeded"] == 1


class DescribeABadEnvelope:
    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"namespace": ""}, "/namespace"),
            ({"namespace": "has space"}, "/namespace"),
            ({"namespace": "x" * 65}, "/namespace"),
            ({"namespace": None}, "/namespace"),
            ({"namespace": "\ud800"}, "/namespace"),
            ({"namespace": "a\0"}, "/namespace"),
            ({"documents": []}, "/documents"),
            ({"documents": {}}, "/documents"),
            ({"on_conflict": "merge"}, "/on_conflict"),
            ({"chunking": {"max_tokens": 0}}, "/chunking/max_tokens"),
            ({"chunking": {"overlap": 0.9}}, "/chunking/overlap"),
            ({"surprise": 1}, "/surprise"),
        ],
    )
    def it_is_refused_with_its_place(self, client, namespace, change, pointer):
        body = problem(send(client, namespace, VALID, **change) if "namespace" not in change else
                       send(client, change["namespace"], VALID), 422, "invalid_request")  # fmt: skip
        assert pointers(body) == [pointer]

    def it_has_at_most_ten_thousand_documents(self, client, namespace):
        documents = [{"document_id": f"d{number}", "text": "t"} for number in range(10_001)]
        body = problem(send(client, namespace, *documents), 422, "too_many_documents")
        assert "10000" in body["detail"]
        assert pointers(body) == ["/documents"]

    def it_may_not_name_another_tenant(self, client, namespace):
        body = problem(send(client, namespace, VALID, tenant_id="somebody-else"), 403, "tenant_mismatch")
        assert pointers(body) == ["/tenant_id"]


class DescribeAnUnreadableBody:
    @pytest.mark.parametrize(
        ("content", "status", "code"),
        [
            (b"", 400, "invalid_json"),
            (b"{", 400, "invalid_json"),
            (b'{"a": NaN}', 400, "invalid_json"),
            (b'{"a": "\\ud800"', 400, "invalid_json"),
            (b"[" * 5000, 400, "invalid_json"),
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
    def it_may_be_of_the_wrong_media_type(self, client, media_type):
        response = client.post("/v1/documents", content=b"{}", headers={"Content-Type": media_type})
        problem(response, 415, "unsupported_media_type")

    def it_may_have_no_media_type(self, client):
        problem(client.post("/v1/documents", content=b"{}"), 415, "unsupported_media_type")

    def it_may_be_compressed(self, client):
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        problem(client.post("/v1/documents", content=b"{}", headers=headers), 415, "unsupported_media_type")

    @pytest.mark.parametrize("chunked", [False, True])
    def it_may_be_too_large(self, client, chunked):
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
    @pytest.mark.parametrize("path", ["/v1/jobs", "/v1/documents", "/v1/namespaces", f"/v1/queries/{uuid.uuid4()}"])
    def it_is_401(self, client, path, header, code):
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        response = httpx.get(f"{client.base_url}".rstrip("/") + path, headers=headers, trust_env=False)
        problem(response, 401, code)
        assert response.headers["www-authenticate"] == "Bearer"

    def it_is_401_when_revoked(self, client, revoked_key):
        headers = {"Authorization": f"Bearer {revoked_key}"}
        problem(client.get("/v1/jobs", headers=headers), 401, "invalid_api_key")


class DescribeABadQuery:
    @pytest.mark.parametrize(
        ("change", "pointer"),
        [
            ({"query_text": ""}, "/query_text"),
            ({"query_text": "  "}, "/query_text"),
            ({"query_text": "x" * 10_000}, "/query_text"),
            ({"query_text": 5}, "/query_text"),
            ({"query_text": "a\0"}, "/query_text"),
            ({"query_text": "\ud800"}, "/query_text"),
            ({"top_k": 0}, "/top_k"),
            ({"top_k": 10_001}, "/top_k"),
            ({"top_k": "10"}, "/top_k"),
            ({"top_k": True}, "/top_k"),
            ({"namespaces": []}, "/namespaces"),
            ({"namespaces": "kb"}, "/namespaces"),
            ({"namespaces": ["ok", "not ok"]}, "/namespaces/1"),
            ({"unknown": 1}, "/unknown"),
            ({"filters": {"tag": "a"}}, "/filters/tag"),
            ({"filters": {"start": "yesterday"}}, "/filters/start"),
            ({"retrieve": {"method": "magic"}}, "/retrieve/method"),
            ({"retrieve": {"fusion": {"strategy": "custom"}}}, "/retrieve/fusion/strategy"),
            ({"retrieve": {"channels": {"keyword": {"weight": -1}}}}, "/retrieve/channels/keyword/weight"),
            ({"context": {"max_tokens": 0}}, "/context/max_tokens"),
            ({"story_time": 1.5}, "/story_time"),
        ],
    )
    def it_is_refused_with_its_place(self, client, namespace, change, pointer):
        body = {"query_text": "pump", "namespaces": [namespace], **change}
        response = client.post("/v1/queries", content=json.dumps(body), headers={"Content-Type": "application/json"})
        assert pointers(problem(response, 422, "invalid_request")) == [pointer]

    def it_may_name_a_namespace_that_does_not_exist(self, client, namespace):
        body = {"query_text": "pump", "namespaces": [namespace]}
        found = problem(client.post("/v1/queries", json=body), 404, "namespace_not_found")
        assert namespace in found["detail"]
        assert pointers(found) == ["/namespaces/0"]

    def it_may_name_another_tenant(self, client, namespace):
        body = {"query_text": "pump", "namespaces": [namespace], "tenant_id": "somebody-else"}
        problem(client.post("/v1/rag/query", json=body), 403, "tenant_mismatch")


class DescribeAnUnknownThing:
    @pytest.mark.parametrize(
        ("method", "path", "code"),
        [
            ("GET", f"/v1/queries/{uuid.uuid4()}", "query_not_found"),
            ("GET", "/v1/queries/nonsense", "query_not_found"),
            ("DELETE", f"/v1/queries/{uuid.uuid4()}", "query_not_found"),
            ("GET", f"/v1/jobs/{uuid.uuid4()}?wait=5", "job_not_found"),
            ("GET", "/v1/jobs/%C3%A9", "job_not_found"),
            ("GET", f"/v1/jobs/{uuid.uuid4()}/items", "job_not_found"),
            ("GET", "/v1/documents/none?namespace=kb", "document_not_found"),
            ("GET", "/v1/documents/%00?namespace=kb", "document_not_found"),
            ("DELETE", "/v1/documents/none?namespace=kb", "document_not_found"),
            ("GET", "/v1/documents/none/chunks?namespace=kb", "document_not_found"),
            ("GET", "/v1/nothing", "route_not_found"),
            ("GET", "/", "route_not_found"),
            ("GET", "/v1/jobs/", "route_not_found"),
        ],
    )
    def it_is_404(self, client, method, path, code):
        response = client.request(method, path)
        assert response.json()["code"] == code
        assert response.status_code == 404

    def it_may_be_another_tenants_job_query_or_document(self, client, other_client, namespace):
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
            (f"/v1/jobs/{uuid.uuid4()}?wait=61", "/wait"),
            (f"/v1/jobs/{uuid.uuid4()}?wait=nan", "/wait"),
            (f"/v1/queries/{uuid.uuid4()}?wait=-1", "/wait"),
            (f"/v1/jobs/{uuid.uuid4()}/items?status=broken", "/status"),
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
    def it_may_be_a_cursor_nobody_gave(self, client, path, cursor):
        response = client.get(f"{path}?cursor={cursor}")
        assert (response.status_code, response.json()["code"]) == (422, "invalid_cursor")


class DescribeAWrongMethod:
    @pytest.mark.parametrize(
        ("method", "path", "allowed"),
        [
            ("PUT", "/v1/jobs", "GET"),
            ("POST", "/v1/documents/d1", "DELETE, GET"),
            ("PATCH", "/v1/documents", "GET, POST"),
            ("GET", "/v1/rag/query", "POST"),
            ("DELETE", "/healthz", "GET"),
        ],
    )
    def it_is_405_and_says_what_is_allowed(self, client, method, path, allowed):
        response = client.request(method, path)
        problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allowed


class DescribeBadFiles:
    def it_refuses_what_no_parser_reads(self, client, namespace):
        files = [("file", ("scan.pdf", b"%PDF-1.7", "application/pdf"))]
        body = problem(
            client.post("/v1/files", files=files, data={"namespace": namespace}), 415, "unsupported_media_type"
        )
        assert pointers(body) == ["/file/0"]

    def it_keeps_the_good_ones(self, client, namespace):
        files = [
            ("file", ("note.txt", b"The pump starts.", "text/plain")),
            ("file", ("scan.pdf", b"%PDF-1.7", "application/pdf")),
            ("file", ("empty.md", b" \n", "text/markdown")),
            ("file", ("lines.jsonl", b'{"id": "l1", "text": "One."}\nnonsense\n{"id": "l3"}\n', None)),
        ]
        job = ended(client, client.post("/v1/files", files=files, data={"namespace": namespace}))
        assert (job["total"], job["succeeded"]) == (6, 2)
        codes = {error["pointer"]: error["code"] for error in job["errors"]}
        assert codes == {
            "/file/1": "unsupported_media_type",
            "/file/2": "empty_document",
            "/file/3/2": "malformed_document",
            "/file/3/3/text": "invalid_document",
        }

    @pytest.mark.parametrize(
        ("data", "pointer"),
        [
            ({}, "/namespace"),
            ({"namespace": "kb", "metadata": "{"}, "/metadata"),
            ({"namespace": "kb", "metadata": "[]"}, "/metadata"),
            ({"namespace": "kb", "tags": '["a", 5]'}, "/tags/1"),
            ({"namespace": "kb", "chunking": '{"max_tokens": 1}'}, "/chunking/max_tokens"),
            ({"namespace": "kb", "parser_hint": "exe"}, "/parser_hint"),
            ({"namespace": "kb", "surprise": "1"}, "/surprise"),
            ({"namespace": "a\0b"}, "/namespace"),
        ],
    )
    def it_refuses_a_bad_form(self, client, data, pointer):
        files = [("file", ("note.txt", b"text", "text/plain"))]
        body = problem(client.post("/v1/files", files=files, data=data), 422, "invalid_request")
        assert pointers(body) == [pointer]

    def it_needs_a_file(self, client, namespace):
        files = {"namespace": (None, namespace)}
        assert pointers(problem(client.post("/v1/files", files=files), 422, "invalid_request")) == ["/file"]

    @pytest.mark.parametrize(
        ("media_type", "content", "status", "code"),
        [
            ("application/json", b"{}", 415, "unsupported_media_type"),
            ("multipart/form-data", b"x", 400, "invalid_multipart"),
            ("multipart/form-data; boundary=b", b"nonsense", 400, "invalid_multipart"),
        ],
    )
    def it_needs_a_multipart_body(self, client, media_type, content, status, code):
        problem(client.post("/v1/files", content=content, headers={"Content-Type": media_type}), status, code)


class DescribeTheRequestId:
    @pytest.mark.parametrize("given", ["mine-1", "x" * 128, "!~"])
    def it_is_the_callers(self, client, given):
        assert client.get("/v1/nothing", headers={"X-Request-ID": given}).headers["x-request-id"] == given

    @pytest.mark.parametrize("given", ["", "x" * 129, "a b", "é"])
    def it_is_a_new_one_if_the_callers_is_not_fit(self, client, given):
        response = client.get("/healthz", headers={"X-Request-ID": given.encode("latin-1")})
        assert uuid.UUID(response.headers["x-request-id"])
