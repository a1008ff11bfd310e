"""What the gateway answers, described. Answers are written directly, for speed; tests hold both together."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

SourceKind = Literal["text", "bytes", "file", "url", "sheet"]
Outcome = Literal["created", "replaced", "unchanged", "skipped", "superseded", "refused"]


class Shape(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="forbid")


def shown(shape: type[Shape], record: object, **given: Any) -> dict[str, Any]:
    """Return the fields of ``shape`` in its order: those in ``given``, the others from attributes of ``record``."""
    return {name: given[name] if name in given else getattr(record, name) for name in shape.model_fields}


class Renamed(Shape):
    """A document that is stored under another id, because `requested_id` is that of a document with other bytes."""

    ordinal: int
    requested_id: str
    document_id: str


class JobAccepted(Shape):
    """The documents are durable; a worker will take them. `renamed`: those that `on_conflict: new` gave another id; left
    out if there are none."""

    job_id: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed"]
    total: int
    renamed: list[Renamed] = []


class JobError(Shape):
    """Why one document of a job was not ingested."""

    document_id: str | None
    code: str
    detail: str | None
    pointer: str | None


class Usage(Shape):
    """What embedding cost. `texts` were sent in `requests` and counted as `tokens` by whoever embedded them; `cached`
    texts were known already and would have been about `saved_tokens`. `cost`: at the prices that held then."""

    tokens: int
    requests: int
    texts: int
    cached: int
    saved_tokens: int
    cost: float


class Job(Shape):
    """A job with its counters. `stages`: how many documents have finished each step. `outcomes`: how many ended how, as
    in `Outcome`. `reused`: how many of the chunks kept the vector they had. `waiting_reason`: why nothing of
    it is being worked on, null if something is, or if it has waited for less than five seconds."""

    job_id: str
    namespace: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
    total: int
    succeeded: int
    failed: int
    cancelled: int
    chunks: int
    reused: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    paused_at: datetime | None
    priority: Literal["interactive", "bulk"]
    waiting_reason: Literal["queued_behind_others", "no_worker", "paused", "retrying"] | None
    stages: dict[str, int]
    outcomes: dict[Outcome, int]
    usage: Usage
    errors: list[JobError]


class Item(Shape):
    """One document of a job. `outcome` says what it came to: the document is new, has another generation, is as it was
    (`unchanged`), was there and left alone (`skipped`), was overtaken by a later upload or a deletion (`superseded`),
    or was never accepted (`refused`, with a code). It is null until the item has ended, and where it failed later.
    `encoding` and the fields beside it: as in the document's source; null for one that is unchanged. `requested_id`: the
    id it was sent with, where `on_conflict: new` gave it another one. `duplicate_of`: as in the document."""

    ordinal: int
    document_id: str | None
    requested_id: str | None
    duplicate_of: str | None
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    stage: str
    outcome: Outcome | None
    chunks: int
    reused: int
    attempts: int
    code: str | None
    detail: str | None
    pointer: str | None
    updated_at: datetime
    encoding: str | None
    encoding_probability: float | None
    encoding_warning: str | None


class Source(Shape):
    """Where a document came from. Documents with the same `source_id` in one namespace came from one source; `kind` is the
    way in which it arrived last.

    `encoding`: the character encoding its bytes were read in, with the probability that its text is right (0 to 1), null
    until it is read, for formats that are no text and for documents of an imported archive. `encoding_warning`: the
    reason to look at its text, null if there is none. `page_start` and `page_end`: the first and the last page with text,
    null until it is read and for formats without pages.
    """

    source_id: str
    kind: SourceKind
    uri: str | None
    media_type: str
    encoding: str | None
    encoding_probability: float | None
    encoding_warning: str | None
    page_start: int | None
    page_end: int | None


class SourceInfo(Shape):
    """A source with what came from it. `statuses`: how many of its `documents` have which status. `chunks`: those that
    searches see. `encoding` is null unless all its documents were read in one; `page_start` and `page_end` are the first
    and the last page of any of them."""

    source_id: str
    namespace: str
    kind: SourceKind
    uri: str | None
    media_type: str
    encoding: str | None
    page_start: int | None
    page_end: int | None
    documents: int
    statuses: dict[Literal["queued", "running", "succeeded", "failed", "cancelled"], int]
    chunks: int
    created_at: datetime
    updated_at: datetime


class SourcePage(Shape):
    """Sources by id."""

    data: list[SourceInfo]
    next_cursor: str | None


class SourceDeleted(Shape):
    """How many documents went with a source."""

    source_id: str
    namespace: str
    documents: int


class Document(Shape):
    """A document without its text. `status` is that of its latest upload. `generation` is the upload that searches see,
    null while there is none; an upload that fails leaves the one before searchable. `chunking`: the strategy it is cut by,
    with every option that applied. `duplicate_of`: the document that has been in the namespace longest of those with the
    same bytes, null for that document itself and where no other has them."""

    namespace: str
    document_id: str
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    generation: int | None
    title: str | None
    author: str | None
    type: str | None
    tags: list[str]
    published_at: datetime | None
    story_time: int | None
    metadata: dict[str, Any]
    source: Source
    chunking: dict[str, Any]
    duplicate_of: str | None
    chunks: int
    created_at: datetime
    updated_at: datetime


class Chunk(Shape):
    """A passage of the generation that searches see. Offsets count characters of the parsed text; `end` is exclusive.

    `chunk_type` is `parent` for a chunk that is part of no other, else `child`, `sentence`, `qa` or `segment`;
    `chunk_index` is its place in its parent, or in the document. `window`: the text that is read with it. `chapter_id`,
    `story_time`, `entity_names`, `summary` and `attributes` are those of its segment. `edited`: its text was changed by
    hand, and its offsets and pages name the passage that it replaces.
    """

    chunk_id: str
    namespace: str
    document_id: str
    generation: int
    ordinal: int
    text: str
    heading_path: list[str]
    page: int | None
    page_start: int | None
    page_end: int | None
    start: int
    end: int
    token_count: int
    chunk_type: str
    parent_id: str | None
    chunk_index: int
    chapter_id: str | None
    story_time: int | None
    entity_names: list[str]
    summary: str | None
    attributes: dict[str, str]
    window: str | None
    edited: bool


class Namespace(Shape):
    """A knowledge base and how much is searchable in it."""

    namespace: str
    documents: int
    chunks: int
    created_at: datetime


class JobPage(Shape):
    """Jobs, newest first."""

    data: list[Job]
    next_cursor: str | None


class ItemPage(Shape):
    """Items in the order they were sent."""

    data: list[Item]
    next_cursor: str | None


class DocumentPage(Shape):
    """Documents by namespace and id."""

    data: list[Document]
    next_cursor: str | None


class ChunkPage(Shape):
    """Chunks by parent and place in it; parents, and chunks without one, come first."""

    data: list[Chunk]
    next_cursor: str | None


class NamespacePage(Shape):
    """Namespaces by name."""

    data: list[Namespace]
    next_cursor: str | None


class QueryAccepted(Shape):
    """A query that has no answer yet."""

    query_id: str
    status: Literal["queued", "running"]


class ErrorPlace(Shape):
    """A place at fault: a JSON Pointer into the body, or the name of a parameter when `in` says where it stands."""

    model_config = ConfigDict(extra="allow")

    pointer: str
    detail: str


class UsedUp(Shape):
    """A quota that a request would go beyond."""

    name: Literal["documents", "chunks", "queued"]
    limit: int
    used: int


class ProblemBody(Shape):
    """An error (RFC 9457). `code` is stable and meant for programs. Some have further members, as the RFC provides."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: list[ErrorPlace] | None = None
    quota: UsedUp | None = None


class DependencyHealth(Shape):
    """One check. `required`: unless it is `ok`, the gateway is not ready. `checked_at`: when it was looked at, `age_s`
    seconds before the answer. `workers`: of a queue, how many listen to it. `sweep_age_s`: seconds since the last sweep."""

    status: Literal["ok", "warning", "down", "unknown"]
    required: bool
    checked_at: datetime
    age_s: float
    latency_ms: float | None = None
    detail: str | None = None
    workers: int | None = None
    sweep_age_s: float | None = None


class Readiness(Shape):
    """Whether documents and queries can be served, check by check. `failing` names every check that is not `ok`, also
    those that do not make the gateway `not_ready`."""

    status: Literal["ready", "not_ready"]
    version: str
    checked_at: datetime
    failing: list[str]
    dependencies: dict[str, DependencyHealth]


class Alive(Shape):
    """The process answers. `installation_id` is that of the stores it started with."""

    status: Literal["ok"]
    installation_id: str | None


class Differences(Shape):
    """How two stores differ: chunks without vector, vectors without chunk, vectors of another text or model, vectors in the
    wrong place, documents with too few or too many chunks, rows nobody needs, wrong keyword statistics, wrong vectors of
    whole documents."""

    missing: int
    orphaned: int
    stale: int
    misplaced: int
    miscounted: int
    leftover: int
    statistics: int
    document_vectors: int


class NamespaceAlignment(Differences):
    """How the two stores compare in one namespace."""

    namespace: str
    documents: int
    chunks: int
    vectors: int


class Alignment(Differences):
    """How the two stores compare. `repaired` counts what was put right, `withheld` the vectors and rows of chunks that
    were not deleted because they are too large a share of what the tenant has."""

    namespaces: list[NamespaceAlignment]
    repaired: int
    withheld: int


class Quota(Shape):
    """How much there may be, null for any number, and how much there is."""

    limit: int | None
    used: int


class QuotaUse(Shape):
    """What the tenant may store and queue. `queued` counts documents that wait for a worker, `tokens` those
    embedded in this calendar month."""

    documents: Quota
    chunks: Quota
    queued: Quota
    tokens: Quota


class NamespaceDeleted(Shape):
    """How much went with a namespace. `generations`: those whose rows were dropped in both stores at once."""

    namespace: str
    documents: int
    generations: int


class TenantErased(Shape):
    """Rows that went, by store and table, since the erasure was first asked for; `remaining` is what a recount finds."""

    tenant_id: str
    erased: dict[str, int]
    remaining: dict[str, int]


class UsageRow(Usage):
    """What embedding cost in one day, for one job or model, or for one purpose. `key` is empty for what no job asked
    for: queries, edits, repairs."""

    key: str


class UsagePage(Shape):
    """What embedding cost in some days, both included. `total` is of all of them, whatever the page."""

    start: date = Field(alias="from")
    to: date
    by: Literal["day", "job", "model", "purpose"]
    total: Usage
    data: list[UsageRow]
    next_cursor: str | None
