"""Edits of chunks and their results."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.documents.document_views import OwnedChunk
from pipeline.documents.edited_chunk import TokenBound
from pipeline.records import ChunkId


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The edit of one chunk; None leaves a field as it is. ``etag``: the state in which the edit applies."""

    chunk_id: ChunkId
    text: str | None = None
    enabled: bool | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """The result: ``updated``, ``unchanged``, ``deleted``, or ``failed`` with a code and a sentence.
    ``replacement_pending``: a newer upload will replace this chunk. ``repeated_in``: overlapping chunks that still hold
    removed words."""

    chunk_id: ChunkId
    status: str
    etag: str | None = None
    code: str | None = None
    detail: str | None = None
    replacement_pending: bool = False
    repeated_in: tuple[ChunkId, ...] = ()


def done(chunk: OwnedChunk, status: str) -> Edited:
    """Return the result of an edit with the chunk's present state."""
    pending = chunk.latest > chunk.generation.number
    return Edited(chunk_id=chunk.chunk_id, status=status, etag=chunk.etag, replacement_pending=pending)


def failed(chunk_id: ChunkId, code: str, detail: str) -> Edited:
    """Return a failure with a code and a sentence."""
    return Edited(chunk_id=chunk_id, status="failed", code=code, detail=detail)


def not_found(chunk_id: ChunkId) -> Edited:
    """Return the failure of a chunk that is not published or another tenant's."""
    return failed(chunk_id, "chunk_not_found", "there is no such chunk in what is published")


def changed(chunk: OwnedChunk) -> Edited:
    """Return the failure of an edit with an outdated etag."""
    detail = "the chunk is not the one the etag stands for; read it again"
    return Edited(chunk_id=chunk.chunk_id, status="failed", etag=chunk.etag, code="precondition_failed", detail=detail)


def overtaken(before: OwnedChunk, current: OwnedChunk | None) -> Edited:
    """Return the failure of an edit that lost against a concurrent change."""
    if current is None:
        detail = "the document was replaced or deleted meanwhile; nothing was changed"
        return failed(before.chunk_id, "document_replaced", detail)
    return failed(before.chunk_id, "chunk_changed", "the chunk was changed by someone else at the same moment")


def empty(chunk_id: ChunkId) -> Edited:
    """Return the failure of a text that is empty once it is cleaned."""
    return failed(chunk_id, "empty_chunk", "the text holds nothing but white space and invisible characters")


def too_long(before: OwnedChunk, tokens: int, bound: TokenBound) -> Edited:
    """Return the failure of a text with more tokens than the document's chunking allows."""
    what = "chunk" if before.searched else "parent"
    detail = (
        f"the text has {tokens} tokens, and a {what} of document {before.generation.document_id} at most {bound.tokens}:"
        f" {bound.option} of its chunking ({before.chunking.strategy}, see chunking of the document); shorten the text,"
        f" or upload the document again with a larger {bound.option}"
    )
    return failed(before.chunk_id, "chunk_too_long", detail)
