"""Documents, their generations, chunks and sources as their owner sees them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pipeline.records import ChunkId, Chunking, DocumentFields, DocumentId, Encoding, FieldTerms, Generation, Passage

DocumentStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ChunkOrder = Literal["document_id", "updated_at", "-updated_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentView:
    """One document as its owner sees it. ``status``: of its latest upload. ``generation``: the published one."""

    namespace: str
    document_id: str
    status: DocumentStatus
    generation: int | None
    fields: DocumentFields
    media_type: str
    source_uri: str | None
    chunk_count: int
    encoding: Encoding | None
    chunking: Chunking
    duplicate_of: DocumentId | None
    source_id: str
    source_kind: str
    page_start: int | None
    page_end: int | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationView:
    """A generation for its owner. ``state``: shown, previous, pending, failed, cancelled, or retired (replaced, about
    to be dropped). ``kept_until``: of a retained generation."""

    number: int
    state: str
    title: str | None
    created_at: datetime
    kept_until: datetime | None
    chunk_count: int | None
    content_hash: str
    body_bytes: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The generations of one document, newest first, with the etag of their present state."""

    etag: str
    generations: tuple[GenerationView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChunk:
    """A published chunk for editing. ``latest``: the newest generation accepted. ``searched``: False for a parent,
    which is enabled while a child is."""

    chunk_id: ChunkId
    generation: Generation
    ordinal: int
    passage: Passage
    fields: DocumentFields
    source_uri: str | None
    source_id: str
    chunking: Chunking
    terms: tuple[str, ...]
    field_terms: FieldTerms
    content_hash: bytes
    enabled: bool
    version: int
    updated_at: datetime
    latest: int
    searched: bool = True

    @property
    def etag(self) -> str:
        """A value that changes with every edit of this chunk."""
        return f'"{self.version}-{self.content_hash.hex()[:16]}"'

    @property
    def parent_id(self) -> ChunkId | None:
        """The id of its parent."""
        return None if self.passage.parent is None else self.generation.parent_id(self.passage.parent)

    @property
    def position(self) -> tuple[str, int, int]:
        """The sort key in a list: documents in order, in each the parents first."""
        return self.generation.document_id, int(self.searched), self.ordinal


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """A source and its documents. ``encoding``: None unless all share one. ``page_start``, ``page_end``: over all.
    ``statuses``: documents by status. ``chunks``: published ones."""

    source_id: str
    namespace: str
    kind: str
    uri: str | None
    media_type: str
    encoding: str | None
    page_start: int | None
    page_end: int | None
    documents: int
    statuses: dict[str, int]
    chunks: int
    created_at: datetime
    updated_at: datetime
