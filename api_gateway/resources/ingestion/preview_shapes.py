"""Previews: the request, and the chunks a document would have."""

from __future__ import annotations

from typing import Any

from api_gateway.http.fields import Title, Wire
from api_gateway.resources.ingestion.chunking_options import ChunkingIn
from api_gateway.resources.ingestion.content import Charset, ParserHint
from api_gateway.resources.ingestion.uploads import DocumentIn
from api_gateway.resources.shapes import Shape


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
    charset: Charset | None = None
    chunking: ChunkingIn | None = None


class PreviewChunk(Shape):
    """A chunk that would be made. `parent`: the ordinal of its parent. `embedding_text`: what would be embedded, null
    for parents."""

    ordinal: int
    parent: int | None
    text: str
    heading_path: list[str]
    page: int | None
    page_start: int | None
    page_end: int | None
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


class PreviewEncoding(Shape):
    """The character encoding in which the bytes were read, and the probability that the text is right (0 to 1)."""

    name: str
    probability: float
    warning: str | None


class PreviewAnswer(Shape):
    """The chunks a document would have, and the parents they would be part of. Nothing was stored. `encoding` is null for
    formats that are no text."""

    title: str | None
    encoding: PreviewEncoding | None
    chunking: dict[str, Any]
    chunks: list[PreviewChunk]
    parents: list[PreviewChunk]
