"""Records as they are sent."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import TypeAdapter

from api_gateway.resources.shapes import document_json
from chordwise.contract.document import Document
from pipeline.documents.document_views import DocumentView
from pipeline.records import Chunking, DocumentFields

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


def it_sends_every_field_of_a_document_and_no_other():
    view = DocumentView(
        namespace="kb",
        document_id="d",
        status="succeeded",
        generation=1,
        fields=DocumentFields(title="T", author="ada", tags=("a",)),
        media_type="text/plain",
        source_uri=None,
        chunk_count=3,
        encoding=None,
        chunking=Chunking(),
        duplicate_of=None,
        source_id="s",
        source_kind="text",
        page_start=None,
        page_end=None,
        body_bytes=9,
        content_hash=b"",
        created_at=MOMENT,
        updated_at=MOMENT,
    )
    sent = document_json(view, reads_as=None)
    assert (sent["title"], sent["author"], sent["chunks"], sent["source"]["kind"]) == ("T", "ada", 3, "text")
    described = TypeAdapter(Document).json_schema(mode="serialization")
    assert sent.keys() == set(described["required"])
    assert list(sent)[:4] == ["namespace", "document_id", "status", "generation"]
