"""Chunks as their owner edits them: requests, answers, and the conversion between them and records."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from api_gateway.http.fields import Wire
from api_gateway.resources.shapes import Chunk, Shape, shown
from pipeline.administration.apply_edits import Edit, Edited
from pipeline.answer.passage_json import passage_as_json
from pipeline.documents.chunk_edit_store import OwnedChunk
from pipeline.records import ChunkId

MOST_CHUNKS = 500
_LONGEST_TEXT = 64_000


def _chunk_id(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise ValueError("is not a chunk id") from None


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("has no text; delete the chunk, or switch it off")
    return value


def _immutable(_: Any) -> Any:
    raise ValueError("belongs to the structure of the document and cannot be changed; upload the document again")


ChunkIdText = Annotated[str, AfterValidator(_chunk_id)]
Immutable = Annotated[None, BeforeValidator(_immutable)]


class ChunkEditIn(Wire):
    """What is to become of one chunk. `etag`: only if the chunk is still the one it stands for."""

    chunk_id: ChunkIdText
    text: Annotated[str, Field(max_length=_LONGEST_TEXT), AfterValidator(_not_blank)] | None = None
    enabled: bool | None = None
    etag: Annotated[str, Field(max_length=128)] | None = None
    namespace: Immutable = None
    document_id: Immutable = None
    generation: Immutable = None
    ordinal: Immutable = None
    parent_id: Immutable = None
    chunk_type: Immutable = None
    chunk_index: Immutable = None
    chapter_id: Immutable = None
    story_time: Immutable = None
    entity_names: Immutable = None
    summary: Immutable = None
    attributes: Immutable = None
    window: Immutable = None
    edited: Immutable = None
    searched: Immutable = None
    heading_path: Immutable = None
    page: Immutable = None
    page_start: Immutable = None
    page_end: Immutable = None
    start: Immutable = None
    end: Immutable = None
    token_count: Immutable = None
    metadata: Immutable = None
    source_id: Immutable = None


class ChunksEditRequest(Wire):
    """Edits of existing chunks, each carried out for itself."""

    tenant_id: str | None = None
    chunks: Annotated[list[ChunkEditIn], Field(min_length=1, max_length=MOST_CHUNKS)]


class ChunksDeleteRequest(Wire):
    """Exactly the chunks that are to go. An empty list is refused."""

    tenant_id: str | None = None
    chunk_ids: Annotated[list[ChunkIdText], Field(min_length=1, max_length=MOST_CHUNKS)]


class OwnedChunkShape(Chunk):
    """A chunk as its owner sees it, shown or switched off. `searched` is false for a parent, which is only read with
    its children. `metadata`, `source_id` and `source_uri` are its document's."""

    searched: bool
    metadata: dict[str, Any]
    source_id: str
    source_uri: str | None
    enabled: bool
    etag: str
    updated_at: datetime


class OwnedChunkPage(Shape):
    """One page of chunks."""

    data: list[OwnedChunkShape]
    next_cursor: str | None


class ChunkResult(Shape):
    """What became of one chunk. `replacement_pending`: a newer upload of its document will replace it. `repeated_in`: chunks
    that overlap it and still have words that the edit took out; edit them too."""

    chunk_id: str
    status: Literal["updated", "unchanged", "deleted", "failed"]
    etag: str | None
    code: str | None
    detail: str | None
    replacement_pending: bool
    repeated_in: list[str]


class ChunkResults(Shape):
    """What became of each chunk, in the order of the request."""

    data: list[ChunkResult]


def to_edits(sent: ChunksEditRequest, if_match: str | None) -> list[Edit]:
    """The edits as records; `If-Match` stands for the etag of the only chunk."""
    return [
        Edit(chunk_id=ChunkId(each.chunk_id), text=each.text, enabled=each.enabled, etag=each.etag or if_match)
        for each in sent.chunks
    ]


def owned(chunk: OwnedChunk, window: str | None) -> dict[str, Any]:
    """A chunk as its owner gets it."""
    return {
        **of_document(chunk, window),
        "searched": chunk.searched,
        "metadata": chunk.fields.metadata,
        "source_id": chunk.source_id,
        "source_uri": chunk.source_uri,
        "enabled": chunk.enabled,
        "etag": chunk.etag,
        "updated_at": chunk.updated_at,
    }


def of_document(chunk: OwnedChunk, window: str | None) -> dict[str, Any]:
    """A chunk as it is listed with its document."""
    segment = chunk.passage.segment
    return {
        "chunk_id": chunk.chunk_id,
        "namespace": chunk.generation.scope.namespace,
        "document_id": chunk.generation.document_id,
        "generation": chunk.generation.number,
        "ordinal": chunk.ordinal,
        **passage_as_json(chunk.passage),
        "parent_id": chunk.parent_id,
        "story_time": chunk.fields.story_time if segment is None or segment.story_time is None else segment.story_time,
        "window": window,
        "edited": chunk.passage.reworded,
    }


def results(found: Sequence[Edited]) -> dict[str, Any]:
    """What became of the chunks, as it is sent."""
    return {"data": [shown(ChunkResult, each) for each in found]}
