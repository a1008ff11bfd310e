"""Previews: what is asked, and the chunks a document would have."""

from __future__ import annotations

from typing import Any

from api_gateway.wire.chunking import ChunkingIn
from api_gateway.wire.chunks import passage
from api_gateway.wire.documents import DocumentIn
from api_gateway.wire.fields import Title, Wire
from api_gateway.wire.shapes import Shape
from api_gateway.wire.sources import ParserHint
from pipeline.flows.preview import Preview


class PreviewRequest(Wire):
    """One document as in `POST /v1/documents`, and how it is to be cut."""

    tenant_id: str | None = None
    document: DocumentIn
    chunking: ChunkingIn | None = None


class PreviewForm(Wire):
    """The fields beside the one `file` of a preview."""

    tenant_id: str | None = None
    title: Title | None = None
    parser_hint: ParserHint | None = None
    chunking: ChunkingIn | None = None


class PreviewChunk(Shape):
    """A chunk that would be made. `parent`: the ordinal of its parent. `embedding_text`: what would be embedded, null
    for parents."""

    ordinal: int
    parent: int | None
    text: str
    heading_path: list[str]
    page: int | None
    start: int
    end: int
    token_count: int
    chunk_type: str
    chunk_index: int
    chapter_id: str | None
    story_time: int | None
    entity_names: list[str]
    summary: str | None
    attributes: dict[str, str]
    embedding_text: str | None


class PreviewAnswer(Shape):
    """The chunks a document would have, and the parents they would be part of. Nothing was stored."""

    title: str | None
    chunking: dict[str, Any]
    chunks: list[PreviewChunk]
    parents: list[PreviewChunk]


def answer(found: Preview) -> dict[str, Any]:
    """A preview as it is sent."""
    chunking = found.chunking
    return {
        "title": found.title,
        "chunking": {
            "strategy": chunking.strategy,
            "max_tokens": chunking.max_tokens,
            "overlap": chunking.overlap,
            **chunking.options,
        },
        "chunks": [
            {"ordinal": ordinal, "parent": each.parent, **passage(each), "embedding_text": embedded}
            for ordinal, (each, embedded) in enumerate(zip(found.passages, found.embedded, strict=True))
        ],
        "parents": [
            {"ordinal": ordinal, "parent": None, **passage(each), "embedding_text": None}
            for ordinal, each in enumerate(found.parents)
        ],
    }
