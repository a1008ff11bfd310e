"""Documents, their generations, chunks and sources as their owner sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pipeline.records import (
    ChunkId,
    Chunking,
    DocumentFields,
    DocumentId,
    Encoding,
    FieldTerms,
    Filters,
    Generation,
    Namespace,
    Passage,
)

DocumentStatus = Literal["queued", "running", "succeeded", "failed", "cancelled"]
ChunkOrder = Literal["document_id", "updated_at", "-updated_at"]
DocumentOrder = Literal["document_id", "title", "updated_at", "-updated_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSelection:
    """Conditions on listed documents, all of which must hold, and their order. ``status``: None for all that are
    searchable or under way. ``contains``: a part of the id or title, without regard to case and accents.
    ``duplicates``: those with the bytes of an older document."""

    namespace: Namespace | None = None
    status: DocumentStatus | None = None
    source_id: str | None = None
    contains: str | None = None
    filters: Filters | None = None
    duplicates: bool = False
    order_by: DocumentOrder = "document_id"


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
    body_bytes: int
    content_hash: bytes
    created_at: datetime
    updated_at: datetime

    def position(self, order_by: DocumentOrder) -> tuple[str, ...]:
        """Return its place in a list: the sort value, which an order by id alone lacks, then namespace and id."""
        place = (self.namespace, str(self.document_id))
        if order_by == "document_id":
            return place
        moment = self.updated_at.replace(tzinfo=None).isoformat(timespec="microseconds")
        return (self.fields.title or self.document_id if order_by == "title" else moment, *place)


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


KINDS = ("missing", "orphaned", "stale", "misplaced", "miscounted", "leftover", "statistics", "document_vectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The reconciler's counts of all tenants, and the time of its last run (Unix time)."""

    counted: Mapping[str, int]
    last_run: float | None
    withheld: int = 0


def encoding_fields(encoding: Encoding | None) -> dict[str, Any]:
    """Return the encoding a document was read in, and the warnings about its text, as fields of the contract."""
    return {
        "encoding": encoding.name if encoding else None,
        "encoding_probability": encoding.probability if encoding and encoding.name else None,
        "encoding_warning": encoding.warning if encoding else None,
        "pages_warning": encoding.pages_warning if encoding else None,
    }
