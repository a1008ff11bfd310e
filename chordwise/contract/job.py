"""Jobs: submissions on their way into the stores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from chordwise.contract.record import Answered, Complete

JobStatus = Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
WaitingReason = Literal["queued_behind_others", "no_worker", "paused", "retrying"]
FailureReasonName = Literal["rejected", "gave_up", "bug"]
Outcome = Literal["created", "replaced", "unchanged", "skipped", "superseded", "refused", "answered", "listed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed(Answered):
    """A document stored under another id, because a document with other bytes has `requested_id`. `ordinal` counts from
    0 in the order of its request."""

    ordinal: int
    requested_id: str
    document_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccepted(Answered):
    """The documents are durable; a worker will process them. `renamed`: those that `on_conflict: new` gave another id;
    absent if there are none. `delayed`: why that will be later; absent unless the broker takes no messages (alarm)."""

    job_id: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed"]
    total: int
    renamed: tuple[Renamed, ...] = field(default=(), metadata={"json_schema_extra": {"default": []}})
    delayed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError(Complete):
    """The reason for one document's failure in a job. `code` is stable, `detail` is a sentence, `pointer` leads to the
    field of the request."""

    document_id: str | None
    code: str
    detail: str | None
    pointer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Answered):
    """The cost of embedding. `texts` were sent in `requests` and counted as `tokens` by the embedding service; `cached`
    texts would have taken about `saved_tokens`. `cost`: at the prices of that time."""

    tokens: int
    requests: int
    texts: int
    cached: int
    saved_tokens: int
    cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow(Usage):
    """The cost in one day, for one job or model, or for one purpose. `key` is empty for work without a
    job: queries, edits, repairs, calls of the language model."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState(Answered):
    """The fields of a job that every description of it has."""

    job_id: str
    namespace: str
    status: JobStatus
    total: int
    chunks: int
    stages: Mapping[str, int]
    waiting_reason: WaitingReason | None
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    paused_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobState):
    """A job with its counters. `stages`: how many documents have finished each step. `outcomes`: how many ended in
    which `Outcome`. `reused`: how many of the chunks kept their vector. `waiting_reason`: the reason for a lack of
    progress, null if it is being processed, or has waited for less than five seconds."""

    succeeded: int
    failed: int
    cancelled: int
    reused: int
    priority: Literal["interactive", "bulk"]
    outcomes: Mapping[Outcome, int]
    usage: Usage
    errors: tuple[JobError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProgress(JobState):
    """`data` of `progress` and `finished`. `rate`: recent documents per second; `eta_seconds`: time to the end at that
    rate. Both are null while there is too little history."""

    queued: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    rate: float | None
    eta_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFailed(JobError):
    """`data` of `item_failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Answered):
    """One document of a job. `outcome`: the document is new, has another generation, is `unchanged`, existed and was
    left alone (`skipped`), was replaced by a later upload or a deletion (`superseded`), or was never accepted
    (`refused`, with a code). It is null until the item has ended, and if it failed later. `encoding` and the fields
    beside it: as in the document's source; null for one that is unchanged. `requested_id`: the id it was sent with, if
    `on_conflict: new` gave it another one. `duplicate_of`: as in the document."""

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
    pages_warning: str | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence on each doubt about its text: its encoding, and what was left out of it."""
        return tuple(warning for warning in (self.encoding_warning, self.pages_warning) if warning)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundMatch(Complete):
    """Something that the text may mean. `kind`: a `document`; an item `refused` on arrival, which became none; a `job`.
    `status`: of its latest upload; `searchable`: an upload of the document is published. `code` and `detail`: the reason
    for a failure."""

    kind: Literal["document", "refused", "job"]
    namespace: str
    document_id: str | None = None
    title: str | None = None
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
    searchable: bool = False
    code: str | None = None
    detail: str | None = None
    job_id: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadReference(Answered):
    """The payload that failed, without its text. `available` is false once it cannot be replayed."""

    media_type: str | None
    uri: str | None
    bytes: int
    content_hash: str | None
    available: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Answered):
    """A document that failed for good, by its newest upload. `reason`: the document's fault, an outage at every attempt, or
    a bug. `stage`: the last completed step. `retryable`: a replay may succeed. `advice`: how to go on, as a sentence."""

    id: str
    job_id: str
    ordinal: int
    namespace: str
    document_id: str
    title: str | None
    generation: int
    reason: FailureReasonName
    code: str
    detail: str | None
    stage: str
    attempts: int
    failed_at: datetime
    retryable: bool
    advice: str
    payload: PayloadReference
