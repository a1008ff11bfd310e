"""The frozen records and id types that the parts exchange; they hold no library types."""

from __future__ import annotations

import enum
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, NewType

from chordwise.contract import document
from chordwise.contract.chunk import TextSection
from chordwise.contract.document import DocumentFields as DocumentFields
from pipeline.document_sources import SourceRef

Section = TextSection  # of a parsed document, under one heading

TenantId = NewType("TenantId", str)
Namespace = NewType("Namespace", str)
DocumentId = NewType("DocumentId", str)
ChunkId = NewType("ChunkId", str)
JobId = NewType("JobId", str)
QueryId = NewType("QueryId", str)


OCTETS = "application/octet-stream"  # the media type of bytes whose type is unknown

# The namespace of version-5 UUIDs from which every chunk id is derived; changing it would orphan every vector.
_CHUNK_IDS = uuid.UUID("5f0c3f0e-6d5b-4b0e-9f57-2a4f9c1d7e10")

_SPACE_TABLE = re.compile(r"chunk_embeddings(_[1-9][0-9]{0,8})?")


class ChannelName(enum.StrEnum):
    """A way of recalling chunks; ``fallback`` labels last-resort hits. Installed packages add more through `admit`. An alias
    names its channel unless a package has added a channel of that name."""

    KEYWORD = "keyword"
    SEMANTIC = "semantic"
    FAQ = "faq"
    API = "api"
    FALLBACK = "fallback"

    @classmethod
    def _missing_(cls, value: object) -> ChannelName | None:
        if not isinstance(value, str):
            return None
        return _ADMITTED.get(value) or cls._value2member_map_.get(CHANNEL_ALIASES.get(value, ""))  # type: ignore[return-value]

    @classmethod
    def admit(cls, name: str) -> ChannelName:
        """Register and return the channel of this name. Raises ValueError for an invalid name, or a label."""
        if not CHANNEL_NAME.fullmatch(name) or name == cls.FALLBACK:
            raise ValueError(f"{name[:64]} cannot be the name of a channel")
        if name in cls._value2member_map_:
            return cls(name)
        if name not in _ADMITTED:
            member = str.__new__(cls, name)
            member._name_, member._value_ = name.upper(), name
            _ADMITTED[name] = member
        return _ADMITTED[name]


# Channels as other products call them: in settings, profiles, requests, and replies of language models.
CHANNEL_ALIASES: Final = {"vector": "semantic", "dense": "semantic", "sparse": "keyword", "full_text": "keyword"}
CHANNEL_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
_ADMITTED: dict[str, ChannelName] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A tenant and one of its knowledge bases: the first two columns of every key."""

    tenant_id: TenantId
    namespace: Namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunking:
    """The parameters of cutting a document: ``max_tokens`` per chunk, ``overlap`` the share repeated between windows of
    a long paragraph, ``options`` of the strategy."""

    strategy: str = "sentences"
    max_tokens: int = 400
    overlap: float = 0.2
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """The encoding a document was read in, by its web name, None for formats that are not text. ``probability``: of the
    text, 1 if the bytes leave no doubt. ``warning``: a sentence without full stop if the text may be wrong;
    ``pages_warning``: what else was left out or may be wrong."""

    name: str | None = None
    probability: float = 1.0
    warning: str | None = None
    pages_warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The beginning of a table, of a long row or of a list item, ``text[start:lead_end]``, without which the rest up to
    ``end`` cannot be read. Passages that begin in the rest repeat it. Offsets count characters of ``Parsed.text``."""

    start: int
    lead_end: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValues:
    """The values behind those that ``text[start:end]`` shows, each with the shown one, as ``23.5%`` and ``0.23491``."""

    start: int
    end: int
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A document as text. Sections cover it in order without overlap; ``leads`` and ``stored`` are in order, without
    overlap. ``encoding``: None where bytes leave no doubt."""

    text: str
    sections: tuple[Section, ...]
    title: str | None = None
    encoding: Encoding | None = None
    leads: tuple[Lead, ...] = ()
    stored: tuple[StoredValues, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The fields of a story's segment. ``attributes``: further fields beside the known ones, as text; of a chunk of a
    workbook its shown values with the stored ones."""

    chapter_id: str | None = None
    story_time: int | None = None
    entity_names: tuple[str, ...] = ()
    summary: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A chunk without id: ``text`` is ``parsed.text[start:end]``, below the `Lead` of its table, row or list item if it
    begins within one, unless ``reworded`` by hand. ``page``, ``page_end``: its first and last, from 1. ``parent``: the
    ordinal of its parent, or None. ``index``: its position in the parent, or the document, from 0."""

    text: str
    start: int
    end: int
    token_count: int
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    page_end: int | None = None
    chunk_type: str = "parent"
    parent: int | None = None
    index: int = 0
    segment: Segment | None = None
    reworded: bool = False

    @property
    def own_text(self) -> str:
        """Return the text without the lead that it repeats."""
        return self.text if self.reworded else self.text[max(0, len(self.text) - (self.end - self.start)) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkMark:
    """Changes of a chunk since it was cut. The default: none."""

    enabled: bool = True
    version: int = 1
    edited_at: datetime | None = None


UNMARKED = ChunkMark()


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """One document before parsing. ``to_fetch``: its bytes are at ``source_uri``; OCTETS: type to be detected.
    ``source_version``: a hash of the version that a followed source reported, with the fields that its rules gave."""

    document_id: DocumentId
    fields: DocumentFields
    body: bytes
    media_type: str
    source_uri: str | None = None
    chunking: Chunking = Chunking()
    to_fetch: bool = False
    source: SourceRef = field(default_factory=SourceRef)
    source_version: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One ingestion of one document. Searches see all of the published generation or nothing."""

    scope: Scope
    document_id: DocumentId
    number: int

    def chunk_id(self, ordinal: int) -> ChunkId:
        """Return the id of the chunk with this ordinal; a repeated task overwrites its own rows."""
        parts = (self.scope.tenant_id, self.scope.namespace, self.document_id, str(self.number), str(ordinal))
        return ChunkId(str(uuid.uuid5(_CHUNK_IDS, "\x1f".join(parts))))

    def parent_id(self, ordinal: int) -> ChunkId:
        """Return the parent's id: a UUID of version 8 that ends in its ordinal: ids sort by position in the text."""
        parts = (self.scope.tenant_id, self.scope.namespace, self.document_id, str(self.number), "parents")
        prefix = uuid.uuid5(_CHUNK_IDS, "\x1f".join(parts)).hex[:24]
        return ChunkId(str(uuid.UUID(f"{prefix[:12]}8{prefix[13:]}{ordinal:08x}")))


def parent_ordinal(parent_id: str) -> int:
    """Return the ordinal in a parent's id."""
    return int(parent_id[-8:], 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Caps on the chunks that a channel recalls: ``per_document`` of one document, None for any number, and one of equal
    texts if ``contents``."""

    per_document: int | None = None
    contents: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTerms:
    """The numbers of a chunk's terms of its title (first), summary and entity names (last); the rest are its body's."""

    title: int = 0
    summary: int = 0
    entity_names: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A passage of one generation, as both stores hold it. ``terms``: the tokens of the keyword index."""

    chunk_id: ChunkId
    generation: Generation
    ordinal: int
    passage: Passage
    terms: tuple[str, ...]
    content_hash: bytes
    embedding_text: str
    field_terms: FieldTerms = FieldTerms()

    @property
    def parent_id(self) -> ChunkId | None:
        """The id of its parent, or None."""
        return None if self.passage.parent is None else self.generation.parent_id(self.passage.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentChunk:
    """A larger passage that is read together with its children, and never searched itself."""

    chunk_id: ChunkId
    generation: Generation
    ordinal: int
    passage: Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingSpace:
    """The vectors of one model and their table; two spaces are never compared. ``service``: ``default`` (OPENAI_
    variables) or ``next`` (CHORDWISE_EMBEDDING_NEXT_…)."""

    number: int
    provider: str
    model: str
    dimension: int
    table: str = "chunk_embeddings"
    service: str = "default"

    def __post_init__(self) -> None:
        if not _SPACE_TABLE.fullmatch(self.table):
            raise ValueError("not the name of a table of vectors")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSpaces:
    """The spaces kept up to date: searches use the active one; the standby is the other one of a model migration."""

    active: EmbeddingSpace
    standby: EmbeddingSpace | None = None

    @property
    def every(self) -> tuple[EmbeddingSpace, ...]:
        """All live spaces, the active one first."""
        return (self.active,) if self.standby is None else (self.active, self.standby)

    def of(self, model: str, dimension: int) -> EmbeddingSpace | None:
        """Return the space for vectors of this model and length, None if there is none."""
        return next((space for space in self.every if (space.model, space.dimension) == (model, dimension)), None)

    def numbered(self, number: int) -> EmbeddingSpace | None:
        """Return the live space of this number."""
        return next((space for space in self.every if space.number == number), None)


class ItemState(enum.StrEnum):
    """The state of one entry of a job. The last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Priority(enum.StrEnum):
    """The scheduling priority among one tenant's jobs."""

    INTERACTIVE = "interactive"  # a caller waits for it
    BULK = "bulk"  # after the jobs that callers wait for, with an occasional turn before


class IngestQueue(enum.StrEnum):
    """The queues of the ledger; the workers of each claim its items."""

    INGEST = "ingest"  # batches of documents
    LONG = "long"  # one document at a time: those that take longer than their share while other tenants wait
    BATCH = "batch"  # slices of the queries of a batch
    SOURCE = "source"  # runs that compare a followed source with its documents


class FailureReason(enum.StrEnum):
    """Why an accepted item failed permanently."""

    REJECTED = "rejected"  # the document is at fault
    GAVE_UP = "gave_up"  # a dependency was unavailable at every attempt
    BUG = "bug"  # a bug of ours


class Stage(enum.StrEnum):
    """The last ingestion step that an item has completed."""

    ACCEPTED = "accepted"
    PARSED = "parse"
    CHUNKED = "chunk"
    EMBEDDED = "embed"
    PUBLISHED = "publish"


Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A key of a document's metadata compared with a value, or several for ``in`` and ``nin``; see `python_filters`.
    ``own``: the key names a field of the document (`python_filters.OWN_FIELDS`). ``has``: the value, or a list that holds
    it; ``exists``: any value."""

    key: str
    operator: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "has", "exists"]
    value: Scalar | tuple[Scalar, ...]
    own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compound:
    """Conditions of which all, or at least one, must hold; or one, for ``not``, that must not hold."""

    operator: Literal["and", "or", "not"]
    parts: tuple[Comparison | Compound, ...]


Condition = Comparison | Compound


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(document.Filters):
    """The conditions on a hit's document, in every channel. ``metadata``: every pair, a single value also in a list.
    ``story_time``: nothing later. ``pairs``: only question-answer pairs, for channels (`channels.faq_channel`).
    ``where``: a condition on fields and ``metadata``. ``readers``: the caller's principals, one of which the document
    must name unless everyone may read it; None for a caller who sees every document."""

    story_time: int | None = None
    pairs: bool = False
    where: Condition | None = None
    readers: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return self != Filters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The hits of one channel, best first. ``scores`` are the channel's own, higher is better, never a distance."""

    channel: ChannelName
    chunk_ids: tuple[ChunkId, ...]
    scores: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.chunk_ids) != len(self.scores):
            raise ValueError(f"{len(self.chunk_ids)} chunks but {len(self.scores)} scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A hydrated chunk as input of a reranker."""

    chunk_id: ChunkId
    title: str | None
    text: str
    published_at: datetime | None = None
    type: str | None = None
