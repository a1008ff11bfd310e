"""From examples to documents."""

from __future__ import annotations

from typing import Any

from pipeline.core.examples.records import Example
from pipeline.core.parsing import JSON, XLSX
from pipeline.core.tokens import count_tokens
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.records import Chunking, DocumentFields, Upload

_ONE_CHUNK = 512  # tokens, up to which a row is never cut
_WHOLE = Chunking(strategy="sentences", max_tokens=2 * _ONE_CHUNK, overlap=0.0)  # sentences are counted generously
_CUT = Chunking(strategy="sentences", max_tokens=_ONE_CHUNK, overlap=0.2)


def upload_of(example: Example, *, book: str | None) -> Upload:
    """Return the document of one row, both parts in its metadata too. It has no title or source, which would be
    embedded. ``book``: the file's name."""
    metadata: dict[str, Any] = {"user_input": example.user_input, "agent_response": example.agent_response}
    if example.quality_grade is not None:
        metadata["quality_grade"] = example.quality_grade
    metadata |= {"sheet": example.sheet, "row": example.row}
    if book:
        metadata["book"] = book
    text = example.text
    return Upload(
        document_id=example.document_id,
        fields=DocumentFields(type=example.category.value, tags=example.tags, metadata=metadata),
        body=text.encode(),
        media_type="text/plain",
        source=SourceRef(kind=SourceKind.SHEET, uri=book, media_type=_type_of(book)),
        chunking=_WHOLE if _fits(text) else _CUT,
    )


def _type_of(book: str | None) -> str | None:
    if book is None:
        return None
    return JSON if book.lower().endswith(".json") else XLSX


def _fits(text: str) -> bool:
    return len(text) <= _ONE_CHUNK or count_tokens(text) <= _ONE_CHUNK  # no token is shorter than a character
