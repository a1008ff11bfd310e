"""Documents: the fields that callers send, the server stores, filters by and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, Literal

from chordwise.contract.limits import Length, lengths
from chordwise.contract.record import Answered, describe_as_complete

Title = Annotated[str, Length(1024)]
Author = Annotated[str, Length(255, example="ada")]
TypeName = Annotated[str, Length(64, least=1)]
Tag = Annotated[str, Length(128, least=1)]
Tags = Annotated[tuple[Tag, ...], Length(64)]
PrincipalName = Annotated[str, Length(255, least=1, example="group:hr")]
Readers = Annotated[tuple[PrincipalName, ...], Length(1000, least=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFields:
    """A document's descriptive fields, besides its text. `story_time` is in the unit of its namespace. `readers`: the
    principals whose callers see it, such as `user:42` or `group:hr`; `public` stands for everyone. Without it a new
    document gets its namespace's default, and one that exists keeps its readers."""

    title: Title | None = None
    author: Author | None = None
    type: TypeName | None = None
    tags: Tags = ()
    published_at: datetime | None = None
    story_time: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    readers: Readers | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Conditions on the document of a hit; all given ones must hold. `tags`: all of them.

    `start` and `end` bound `published_at`, both inclusive.
    """

    type: TypeName | None = None
    tags: Tags = ()
    author: Author | None = None
    start: datetime | None = None
    end: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


LENGTHS: Final = lengths(DocumentFields)
# The fields that a filter compares as a whole.
COMPARED: Final = tuple(name for name in lengths(Filters) if name != "tags")

SourceKindName = Literal["text", "bytes", "file", "url", "sheet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(Answered):
    """The origin of a document. Documents with the same `source_id` in one namespace have one source; `kind` is the way
    in which it was last submitted.

    `encoding`: the character encoding of its bytes, with the probability that its text is right (0 to 1), null until it
    is read, for formats that are not text and for documents of an imported archive. `encoding_warning`: the reason to
    check its text, null if there is none. `pages_warning`: what else was left out or may be wrong, such as
    pages that hold only pictures, hidden content, or formulas without a value; null if nothing was. `page_start` and
    `page_end`: the first and the last page with text, null
    until it is read and for formats without pages.
    """

    source_id: str
    kind: SourceKindName
    uri: str | None
    media_type: str
    encoding: str | None
    encoding_probability: float | None
    encoding_warning: str | None
    pages_warning: str | None
    page_start: int | None
    page_end: int | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence on each doubt about its text: its encoding, and what was left out of it."""
        return tuple(warning for warning in (self.encoding_warning, self.pages_warning) if warning)


@dataclass(frozen=True, kw_only=True)
class _Identified(Answered):
    namespace: str
    document_id: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    generation: int | None


@dataclass(frozen=True, kw_only=True)
class Document(DocumentFields, _Identified):
    """A document without its text. `status` is that of its latest upload. `generation` is the searchable upload, null
    while there is none; an upload that fails leaves the previous one searchable. `chunking`: its chunking strategy,
    with all options. `duplicate_of`: the oldest document in the namespace with the same bytes, null for that document
    itself and without duplicates. `bytes`: the size of the upload."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        **Answered.__pydantic_config__,
        "json_schema_extra": describe_as_complete,
    }

    source: Source
    chunking: Mapping[str, Any]
    duplicate_of: str | None
    chunks: int
    bytes: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationShape(Answered):
    """One ingestion of a document. `previous` was visible before and can be rolled back to until `kept_until`;
    `retired` is about to be deleted. `chunks` is null until it has been ingested, `bytes` the size of the upload."""

    generation: int
    state: Literal["shown", "previous", "pending", "failed", "cancelled", "retired"]
    title: str | None
    created_at: datetime
    kept_until: datetime | None
    chunks: int | None
    content_hash: str
    bytes: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationList(Answered):
    """The remaining generations of a document, newest first. `etag` is for `If-Match` of a rollback."""

    namespace: str
    document_id: str
    etag: str
    data: tuple[GenerationShape, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarDocument(Answered):
    """Another document. `similarity`: of their vectors, at most 1. `same_bytes`: whether both uploads are equal."""

    document_id: str
    title: str | None
    similarity: float
    same_bytes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentsChanged(Answered):
    """The number of documents that were deleted, or that had other readers; ids without a document are not counted.
    `more`: whether there was no time for some of a selection."""

    namespace: str
    documents: int
    more: bool
