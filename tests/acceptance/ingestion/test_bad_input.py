"""Faults of uploads: the right status, code and pointer, and no valid document is lost."""

from __future__ import annotations

import pytest

from tests.support.clients.gateway_client import VALID, ended, pointers, problem, send

PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="%s.txt"\r\n\r\nA pump.'
WHOLE_FORM = b'--b\r\nContent-Disposition: form-data; name="namespace"\r\n\r\nkb\r\n%s\r\n%s\r\n--b--\r\n' % (
    PART % b"a",
    PART % b"b",
)
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
        {"document_id": "bad", "text": "t", "source": {"media_type": "image/png"}}, 422, "invalid_document",
        "/source/media_type", id="media type",
    ),
    pytest.param("not an object", 422, "invalid_document", "", id="a string"),
    *(
        pytest.param({"document_id": "bad", "text": "t", name: value}, 422, "invalid_document", pointer, id=of)
        for name, value, pointer, of in (
            ("title", "x" * 1025, "/title", "title of 1025"),
            ("tags", ["x"] * 65, "/tags", "65 tags"),
            ("tags", ["x" * 129], "/tags/0", "tag of 129"),
            ("type", "", "/type", "no type"),
            ("story_time", 1.0, "/story_time", "story time 1.0"),
            ("story_time", True, "/story_time", "story time true"),
            ("metadata", [], "/metadata", "metadata in a list"),
            ("metadata", {"k": "x" * 17_000}, "/metadata", "large metadata"),
            ("metadata", {"k": ["\0"]}, "/metadata/k/0", "NUL in metadata"),
            ("published_at", 1767312000, "/published_at", "time is a number"),
            ("source", {"url": "x"}, "/source/url", "unknown field of the source"),
            ("source", {"media_type": "application/json"}, "/source/media_type", "JSON as text"),
        )
    ),
]  # fmt: skip
LARGE = pytest.param({"document_id": "bad", "text": "x" * 34_000_000}, 413, "document_too_large", "/text", id="34 MB")


class DescribeABadDocument:
    @pytest.mark.parametrize(("document", "status", "code", "pointer"), [*BAD_DOCUMENTS, LARGE])
    def it_is_refused_with_its_place(self, client, namespace, document, status, code, pointer):
        body = problem(send(client, namespace, document), status, code)
        assert pointers(body) == [f"/documents/0{pointer}"]

    def it_does_not_harm_its_neighbours(self, client, namespace):
        bad = [each.values for each in BAD_DOCUMENTS]
        job = ended(client, send(client, namespace, VALID, *(document for document, *_ in bad)))
        assert (job["status"], job["succeeded"], job["failed"]) == ("partly_failed", 1, len(bad))
        assert [(error["code"], error["pointer"]) for error in job["errors"]] == [
            (code, f"/documents/{place}{pointer}") for place, (_, _, code, pointer) in enumerate(bad, start=1)
        ]
        assert client.get("/v1/documents/good", params={"namespace": namespace}).status_code == 200

    def it_names_every_bad_document_when_none_is_good(self, client, namespace):
        body = problem(send(client, namespace, {"text": ""}, {"text": 5}), 422, "no_valid_document")
        assert pointers(body) == ["/documents/0/text", "/documents/1/text"]
        assert client.get("/v1/documents", params={"namespace": namespace}).json()["data"] == []

    def it_is_superseded_by_a_later_one_of_the_same_id(self, client, namespace):
        job = ended(client, send(client, namespace, VALID, VALID | {"text": "Another text."}))
        assert (job["status"], job["outcomes"]) == ("succeeded", {"superseded": 1, "created": 1})
        first, _ = client.get(f"/v1/jobs/{job['job_id']}/items").json()["data"]
        assert (first["status"], first["code"]) == ("succeeded", None)
        assert "stands later in this request" in first["detail"]
        chunks = client.get("/v1/documents/good/chunks", params={"namespace": namespace}).json()["data"]
        assert [chunk["text"] for chunk in chunks] == ["Another text."]


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
            ({"documents": "text"}, "/documents"),
            ({"namespaces": "kb"}, "/namespaces"),
            ({"on_conflict": "merge"}, "/on_conflict"),
            ({"chunking": {"max_tokens": 0}}, "/chunking/max_tokens"),
            ({"chunking": {"max_tokens": 400.5}}, "/chunking/max_tokens"),
            ({"chunking": {"overlap": 0.51}}, "/chunking/overlap"),
            ({"chunking": {"strategy": "pages"}}, "/chunking/strategy"),
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


class DescribeBadFiles:
    def it_refuses_what_no_parser_reads(self, client, namespace):
        files = [("file", ("scan.png", b"\x89PNG\r\n", "image/png"))]
        body = problem(
            client.post("/v1/files", files=files, data={"namespace": namespace}), 415, "unsupported_media_type"
        )
        assert pointers(body) == ["/file/0"]

    def it_keeps_the_good_ones(self, client, namespace):
        files = [
            ("file", ("note.txt", b"The pump starts.", "text/plain")),
            ("file", ("scan.png", b"\x89PNG\r\n", "image/png")),
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

    def it_stores_a_number_that_is_too_large_for_an_integer(self, client, namespace):
        lines = b'{"id": "l1", "text": "A pump.", "order": 123456789012345678901234567890}\n{"id": "l2", "text": 1e999}'
        files = [("file", ("lines.jsonl", lines, None))]
        job = ended(client, client.post("/v1/files", files=files, data={"namespace": namespace}))
        assert [(error["pointer"], error["code"]) for error in job["errors"]] == [("/file/0/2", "malformed_document")]
        [listed] = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert listed["metadata"] == {"order": 123456789012345678901234567890.0}
        answer = client.post("/v1/rag/query", json={"query_text": "pump", "namespaces": [namespace]}).json()
        assert [chunk["document_id"] for chunk in answer["chunks"]] == ["l1"]

    @pytest.mark.parametrize(
        ("data", "pointer"),
        [
            ({}, "/namespace"),
            ({"namespace": "kb", "metadata": "{"}, "/metadata"),
            ({"namespace": "kb", "metadata": "[]"}, "/metadata"),
            ({"namespace": "kb", "metadata": "5"}, "/metadata"),
            ({"namespace": "kb", "tags": '["a", 5]'}, "/tags/1"),
            ({"namespace": "kb", "tags": "["}, "/tags"),
            ({"namespace": "kb", "chunking": '{"max_tokens": 1}'}, "/chunking/max_tokens"),
            ({"namespace": "kb", "chunking": "[]"}, "/chunking"),
            ({"namespace": "kb", "document_id": "x"}, "/document_id"),
            ({"namespace": "kb", "type": "a\0"}, "/type"),
            ({"namespace": ["kb", "other"]}, "/namespace"),
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
            ("multipart/form-data; boundary=b; charset=undefined", WHOLE_FORM, 400, "invalid_multipart"),
            ("multipart/form-data; boundary=b", WHOLE_FORM.removesuffix(b"\r\n--b--\r\n"), 400, "invalid_multipart"),
        ],
    )
    def it_needs_a_multipart_body(self, client, media_type, content, status, code):
        problem(client.post("/v1/files", content=content, headers={"Content-Type": media_type}), status, code)
