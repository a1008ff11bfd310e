"""Documents on the wire: what is taken, what is refused and where, and what becomes of it."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from api_gateway.dialects.mcp.tool_shapes import IngestIn
from api_gateway.http.fields import Moment, NamespaceName, tidy_document_id
from api_gateway.http.problems import Problem
from api_gateway.resources.dictionaries import RuleIn
from api_gateway.resources.entities import EntitiesRequest, EntityIn
from api_gateway.resources.ingestion.content import SourceIn
from api_gateway.resources.ingestion.examples import ExamplesForm
from api_gateway.resources.ingestion.files import FilesForm
from api_gateway.resources.ingestion.stored_documents import DocumentsDeleteRequest
from api_gateway.resources.ingestion.uploads import DocumentIn, DocumentsRequest, batch_of
from chordwise.contract.job import JobError
from pipeline.records import Chunking, DocumentFields, TenantId, Upload
from pipeline.settings import load
from pipeline.tenants.accounts import Principal

SETTINGS = load({"max_document_bytes": 1000, "chunk_max_tokens": 300, "chunk_overlap": 0.1})
ACME = Principal(tenant_id=TenantId("acme"), scopes=frozenset({"write"}))


def batch(*documents, **more):
    body = {"namespace": "kb", "documents": list(documents), **more}
    return batch_of(json.dumps(body).encode(), ACME, "r-1", SETTINGS)


def entry(**fields):
    """Return the outcome of one document beside a valid one."""
    return batch({"document_id": "good", "text": "fine"}, fields).entries[1]


def refused(*documents, **more):
    with pytest.raises(Problem) as problem:
        batch(*documents, **more)
    return problem.value


class DescribeAnUpload:
    def it_carries_everything_the_document_says(self):
        found = entry(
            document_id="d1",
            text="Größe",
            title="T",
            author="A",
            type="manual",
            tags=["a", "b"],
            published_at="2026-01-02T01:00:00+01:00",
            story_time=-5,
            metadata={"k": [1, {"x": None}]},
            source={"uri": "file:a.md", "media_type": "text/markdown"},
        )
        assert found == Upload(
            document_id="d1",
            fields=DocumentFields(
                title="T",
                author="A",
                type="manual",
                tags=("a", "b"),
                published_at=datetime(2026, 1, 2, tzinfo=UTC),
                story_time=-5,
                metadata={"k": [1, {"x": None}]},
            ),
            body="Größe".encode(),
            media_type="text/markdown",
            source_uri="file:a.md",
            chunking=Chunking(max_tokens=300, overlap=0.1),
        )

    def it_needs_nothing_but_text(self):
        found = entry(text="t")
        assert isinstance(found, Upload)
        assert len(found.document_id) == 36
        assert (found.media_type, found.fields) == ("text/plain", DocumentFields())

    @pytest.mark.parametrize(("asked", "given"), [(None, None), ("bulk", "bulk"), ("interactive", "interactive")])
    def it_belongs_to_a_batch_with_a_priority(self, asked, given):
        assert batch({"text": "t"}, priority=asked).priority == given
        assert refused({"text": "t"}, priority="soon").errors[0]["pointer"] == "/priority"

    def it_takes_null_for_absent(self):
        names = ("document_id", "title", "author", "type", "tags", "published_at", "story_time", "metadata", "source")
        assert isinstance(entry(text="t", **dict.fromkeys(names)), Upload)

    @pytest.mark.parametrize("media_type", ["text/html", "TEXT/HTML", "text/html; charset=gb2312"])
    def it_forgets_the_character_set_of_text_that_is_decoded(self, media_type):
        assert entry(text="<p>t</p>", source={"media_type": media_type}).media_type == "text/html"

    @pytest.mark.parametrize(
        ("asked", "given"),
        [
            (None, Chunking(max_tokens=300, overlap=0.1)),
            ({}, Chunking(max_tokens=300, overlap=0.1)),
            ({"max_tokens": 64}, Chunking(max_tokens=64, overlap=0.1)),
            ({"strategy": "sentences", "overlap": 0}, Chunking(max_tokens=300, overlap=0.0)),
        ],
    )
    def it_is_cut_as_asked(self, asked, given):
        assert batch({"text": "t"}, chunking=asked).entries[0].chunking == given


def b64(body: bytes) -> str:
    return base64.b64encode(body).decode()


class DescribeASource:
    def it_may_be_a_text(self):
        found = entry(source={"text": "# Head", "filename": "a.md", "mime_type": "text/markdown"})
        assert (found.body, found.media_type, found.source_uri) == (b"# Head", "text/markdown", "a.md")
        assert found.document_id == "a.md"

    @pytest.mark.parametrize(
        ("source", "media_type"),
        [
            ({"filename": "a.pdf"}, "application/pdf"),
            ({"filename": "a.csv", "media_type": "text/plain"}, "text/csv"),
            ({"filename": "a.txt", "parser_hint": "md"}, "text/markdown"),
            ({"mime_type": "text/csv; charset=gbk"}, "text/csv; charset=gbk"),
            ({"media_type": "application/json"}, "application/json"),
        ],
    )
    def it_may_be_bytes_or_a_file(self, source, media_type):
        found = entry(source={"bytes": b64(b"some bytes"), **source})
        assert (found.body, found.media_type) == (b"some bytes", media_type)
        assert not found.to_fetch

    @pytest.mark.parametrize(
        ("body", "media_type"),
        [(b"%PDF-1.7", "application/pdf"), (b"<!DOCTYPE html><p>x", "text/html"), (b"plain", "text/plain")],
    )
    def it_finds_out_what_bytes_are_that_nobody_described(self, body, media_type):
        assert entry(source={"bytes": b64(body)}).media_type == media_type

    def it_may_be_at_an_address(self):
        found = entry(source={"uri": "https://Example.com:443/docs/a%20b.html?x=1#part"})
        assert (found.to_fetch, found.body, found.media_type) == (True, b"", "application/octet-stream")
        assert found.source_uri == "https://Example.com:443/docs/a%20b.html?x=1#part"
        assert found.document_id == "example.com/docs/a%20b.html?x=1"
        assert entry(source={"uri": "https://example.com/a", "parser_hint": ".md"}).media_type == "text/markdown"

    def it_is_only_told_where_a_text_came_from(self):
        found = entry(text="t", source={"uri": "https://example.com/a"})
        assert (found.to_fetch, found.body, found.source_uri) == (False, b"t", "https://example.com/a")
        assert len(found.document_id) == 36

    def it_adds_its_tags_and_metadata(self):
        source = {"text": "t", "tags": ["b", "a"], "metadata": {"k": 1, "m": 2}}
        found = entry(tags=["a"], metadata={"k": 0}, source=source)
        assert (found.fields.tags, found.fields.metadata) == (("a", "b"), {"k": 0, "m": 2})

    @pytest.mark.parametrize(
        ("fields", "code", "pointer"),
        [
            ({"text": "t", "source": {"text": "t"}}, "invalid_document", "/source/text"),
            ({"text": "t", "source": {"bytes": "dA=="}}, "invalid_document", "/source/bytes"),
            ({"source": {"bytes": "not base64!"}}, "invalid_document", "/source/bytes"),
            ({"source": {"bytes": ""}}, "empty_document", "/source/bytes"),
            ({"source": {"bytes": b64(b"x" * 1001)}}, "document_too_large", "/source/bytes"),
            ({"source": {"bytes": b64(b"MZ\0"), "filename": "a.exe"}}, "unsupported_media_type", "/source/media_type"),
            ({"source": {"bytes": b64(b"\x89PNG")}}, "unsupported_media_type", "/source/media_type"),
            ({"source": {"bytes": b64(b"{}"), "filename": "a.jsonl"}}, "unsupported_media_type", "/source/media_type"),
            ({"source": {"text": "t", "mime_type": "image/png"}}, "invalid_document", "/source/mime_type"),
            (
                {"source": {"text": "t", "media_type": "a/b", "mime_type": "c/d"}},
                "invalid_document",
                "/source/mime_type",
            ),
            ({"source": {"bytes": "dA==", "parser_hint": "exe"}}, "invalid_document", "/source/parser_hint"),
            ({"source": {}}, "invalid_document", "/text"),
            ({"source": {"uri": "file:///etc/passwd"}}, "fetch_refused", "/source/uri"),
            ({"source": {"uri": "https://user:secret@example.com/"}}, "fetch_refused", "/source/uri"),
            ({"source": {"uri": "a.md"}}, "fetch_refused", "/source/uri"),
            (
                {"source": {"uri": "https://example.com/", "media_type": "image/png"}},
                "unsupported_media_type",
                "/source/media_type",
            ),
        ],
    )
    def it_is_refused_with_its_place(self, fields, code, pointer):
        found = entry(**fields)
        assert isinstance(found, JobError)
        assert (found.code, found.pointer) == (code, f"/documents/1{pointer}")
        assert "secret" not in found.detail


class DescribeARefusal:
    @pytest.mark.parametrize("document_id", ["x" * 65, "", " x", "x\n", "a\x7fb", "\ud800", 5, None, "a\u2028b"])
    def it_has_no_id_if_the_id_is_what_is_wrong(self, document_id):
        found = entry(document_id=document_id, text="")
        assert isinstance(found, JobError)
        assert found.document_id is None or len(found.document_id) == 36

    def it_leaves_two_with_one_id_to_whoever_accepts_them(self):
        first, second, third = batch(
            {"document_id": "d", "text": ""}, {"document_id": "d", "text": "a"}, {"document_id": "d", "text": "b"}
        ).entries
        assert (first.code, second.body, third.body) == ("empty_document", b"a", b"b")

    def it_refuses_metadata_that_no_database_can_nest(self):
        deep: dict[str, object] = {}
        for _ in range(16):
            deep = {"k": deep}
        assert entry(text="t", metadata=deep).pointer == "/documents/1/metadata"
        assert isinstance(entry(text="t", metadata=deep["k"]), Upload)


class DescribeABatch:
    def it_is_in_the_order_it_was_sent(self):
        found = batch({"document_id": "b", "text": "1"}, {"document_id": "a", "text": "2"})
        assert [entry.document_id for entry in found.entries] == ["b", "a"]
        assert (found.tenant_id, found.namespace, found.request_id, found.on_conflict) == (
            "acme",
            "kb",
            "r-1",
            "replace",
        )

    def it_takes_the_tenant_of_the_key_and_no_other(self):
        assert batch({"text": "t"}, tenant_id="acme").tenant_id == "acme"
        assert refused({"text": "t"}, tenant_id="other").status == 403


class DescribeFields:
    @pytest.mark.parametrize("name", ["kb", "a.b-c_d", "知识库", "Größe", "हिन्दी", "1", "x" * 64])
    def it_takes_namespaces_in_any_script(self, name):
        assert TypeAdapter(NamespaceName).validate_python(name) == name

    @pytest.mark.parametrize(
        "name", ["", " ", "a b", "a/b", "a\n", "x" * 65, "a:b", "%", "a\u200bb", "\ud800", 5, None]
    )
    def it_refuses_other_namespaces(self, name):
        with pytest.raises(ValidationError):
            TypeAdapter(NamespaceName).validate_python(name)

    @pytest.mark.parametrize("name", [".", ".."])
    @pytest.mark.parametrize(
        ("shape", "body"),
        [
            (DocumentsRequest, {"namespace": "{}", "documents": [{"text": "t"}]}),
            (DocumentIn, {"document_id": "{}", "text": "t"}),
            (SourceIn, {"source_id": "{}"}),
            (FilesForm, {"namespace": "{}"}),
            (ExamplesForm, {"namespace": "{}"}),
            (EntityIn, {"entity_id": "{}", "name": "n"}),
            (EntitiesRequest, {"namespace": "{}", "entities": [{"entity_id": "e", "name": "n"}]}),
            (IngestIn, {"namespace": "{}", "documents": [{"text": "t"}]}),
            (RuleIn, {"when": "a word", "document_id": "{}"}),
        ],
    )
    def it_refuses_new_names_that_an_address_cannot_hold(self, shape, body, name):
        shape.model_validate({key: "a" if value == "{}" else value for key, value in body.items()})
        with pytest.raises(ValidationError, match=r"must not be '\.' or '\.\.'"):
            shape.model_validate({key: name if value == "{}" else value for key, value in body.items()})

    @pytest.mark.parametrize("name", [".", ".."])
    def it_still_names_what_an_earlier_version_has_accepted(self, name):
        body = {"namespace": name, "document_ids": [name]}
        assert DocumentsDeleteRequest.model_validate(body).document_ids == [name]

    def it_gives_one_namespace_for_two_ways_of_writing_it(self):
        assert TypeAdapter(NamespaceName).validate_python("Gro\u0308ße") == "Größe"

    @settings(max_examples=30)
    @given(name=st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=64))
    def it_takes_any_printable_id_unchanged(self, name):
        if name == name.strip():
            assert tidy_document_id(name) == name

    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("2026-01-02T00:00:00Z", datetime(2026, 1, 2, tzinfo=UTC)),
            ("2026-01-02t00:00:00z", datetime(2026, 1, 2, tzinfo=UTC)),
            ("2026-01-02 08:00:00+08:00", datetime(2026, 1, 2, tzinfo=UTC)),
            ("2026-01-02T00:00:00.1234567Z", datetime(2026, 1, 2, microsecond=123456, tzinfo=UTC)),
            ("1999-12-31T23:59:59-00:00", datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ],
    )
    def it_reads_times(self, text, moment):
        assert TypeAdapter(Moment).validate_python(text) == moment

    @pytest.mark.parametrize(
        "text",
        [
            "2026-01-02", "2026-01-02T00:00:00", "2026-02-30T00:00:00Z", "2026-01-02T25:00:00Z", "0001-01-01T00:00:00+14:00",
            "0999-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "now", "", "２０２６-01-02T00:00:00Z", 0, 1.5, True,
            "2026-01-02T00:00:00+99:99", "2026-W01-1T00:00:00Z",
        ],
    )  # fmt: skip
    def it_refuses_other_times(self, text):
        with pytest.raises(ValidationError):
            TypeAdapter(Moment).validate_python(text)
