"""What the server answers, typed. Field names are the words of the HTTP interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.records import Result

FINAL_JOB_STATES = frozenset({"succeeded", "partly_failed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError(Result):
    """Why one document of a job was not ingested. ``code`` is stable, ``detail`` is a sentence, ``pointer`` leads to
    the place in the request."""

    code: str = "unknown"
    detail: str = ""
    document_id: str | None = None
    pointer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renamed(Result):
    """A document that ``on_conflict="new"`` gave another id; ``ordinal`` counts from 0 in the order of its request."""

    ordinal: int
    requested_id: str
    document_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Result):
    """One batch on its way into the stores. ``total``, ``succeeded``, ``failed`` and ``cancelled`` count documents,
    ``outcomes`` by what they came to; ``reused`` counts the chunks that needed no embedding. ``renamed`` is known from the
    answer that accepted the documents."""

    job_id: str
    status: str = "queued"
    total: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    chunks: int = 0
    reused: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None
    finished_at: datetime | None = None
    paused_at: datetime | None = None
    waiting_reason: str | None = None
    priority: str | None = None
    stages: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[JobError, ...] = ()
    renamed: tuple[Renamed, ...] = ()

    @property
    def done(self) -> bool:
        """Whether nothing about this job will change any more."""
        return self.status in FINAL_JOB_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    """What one call of ``ingest`` became: a single job, or several when the documents did not fit into one request.

    It has the counters of a job, summed, so that code which does not care how many there are need not know.
    """

    jobs: tuple[Job, ...] = ()

    @property
    def job_id(self) -> str:
        """The id, when there is exactly one job. Raises ValueError otherwise; see ``job_ids``."""
        if len(self.jobs) != 1:
            raise ValueError(f"this ingestion has {len(self.jobs)} jobs; use job_ids")
        return self.jobs[0].job_id

    @property
    def job_ids(self) -> tuple[str, ...]:
        """The id of every job, in the order they were sent."""
        return tuple(job.job_id for job in self.jobs)

    @property
    def status(self) -> str:
        """One word for all jobs: running until each is final, then theirs if they agree, else partly_failed."""
        states = {job.status for job in self.jobs}
        if not states:
            return "succeeded"
        if states <= FINAL_JOB_STATES:
            return states.pop() if len(states) == 1 else "partly_failed"
        return "queued" if states == {"queued"} else "running"

    @property
    def done(self) -> bool:
        """Whether every job is final."""
        return all(job.done for job in self.jobs)

    @property
    def total(self) -> int:
        """How many documents were accepted."""
        return sum(job.total for job in self.jobs)

    @property
    def succeeded(self) -> int:
        """How many documents can be found by searches."""
        return sum(job.succeeded for job in self.jobs)

    @property
    def failed(self) -> int:
        """How many documents were given up, each with an entry in ``errors``."""
        return sum(job.failed for job in self.jobs)

    @property
    def cancelled(self) -> int:
        """How many documents were called back before they were ingested."""
        return sum(job.cancelled for job in self.jobs)

    @property
    def chunks(self) -> int:
        """How many chunks the documents were cut into."""
        return sum(job.chunks for job in self.jobs)

    @property
    def errors(self) -> tuple[JobError, ...]:
        """What went wrong, document by document."""
        return tuple(error for job in self.jobs for error in job.errors)


def together(*ingestions: Ingestion) -> Ingestion:
    """One ingestion with the jobs of all."""
    return Ingestion(jobs=tuple(job for ingestion in ingestions for job in ingestion.jobs))


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSource(Result):
    """How one channel saw a chunk. ``rank`` counts from 1; None: it only scored what another channel had found."""

    channel: str
    rank: int | None = None
    score: float | None = None
    normalized: float | None = None
    contribution: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank(Result):
    """What reranking did to a chunk: its new score, and the place it came from (counted from 1)."""

    score: float | None = None
    from_rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Result):
    """A chunk that answers a query. ``source`` is the strongest channel, ``sources`` are all of them."""

    chunk_id: str
    document_id: str
    namespace: str = ""
    title: str | None = None
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    score: float = 0.0
    confidence: float | None = None
    source: str | None = None
    sources: tuple[HitSource, ...] = ()
    reason: str | None = None
    rerank: Rerank | None = None
    feedback: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation(Result):
    """Which chunk a marker in the context stands for, and where in its document that is. ``edited``: the chunk's text was
    changed by hand, and the place is that of the passage it replaces."""

    marker: str = ""
    chunk_id: str = ""
    document_id: str = ""
    namespace: str = ""
    start: int | None = None
    end: int | None = None
    page: int | None = None
    page_start: int | None = None
    page_end: int | None = None
    title: str | None = None
    source_uri: str | None = None
    edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Result):
    """What an entity that the hits name is like; ``story_time`` is since when, None from the beginning."""

    id: str = ""
    name: str = ""
    type: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    story_time: int | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Result):
    """The chunks as text for a language model, within the token budget that was asked for."""

    text: str = ""
    token_count: int = 0
    citations: tuple[Citation, ...] = ()
    entities: tuple[Entity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Result):
    """How an answer came about. ``latency_ms`` is in milliseconds per stage, ``source_share`` adds up to 1."""

    hits: Mapping[str, int] = field(default_factory=dict)
    source_share: Mapping[str, float] = field(default_factory=dict)
    expanded_queries: tuple[Any, ...] = ()
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    rerank_lift: float | None = None
    degraded: bool = False
    degradations: tuple[Any, ...] = ()
    profile: str | None = None
    config_version: Any = None
    experiment_bucket: Any = None
    cached: bool = False
    index_age_s: float | None = None
    recall: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult(Result):
    """The answer to one query; ``chunks`` are best first and may be none."""

    query_id: str
    status: str
    query: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[Hit, ...] = ()
    context: Context | None = None
    stats: Stats = Stats()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentInfo(Result):
    """A document as the server lists it; what else it says is in ``raw``. ``status`` is that of its latest upload: queued,
    running, succeeded, failed or cancelled. ``generation``: the upload that searches see. ``chunking``: the strategy and
    options it is cut by. ``duplicate_of``: the oldest document of the namespace with the same bytes. ``source``: where it
    came from, with ``source_id``, ``kind``, ``uri``, ``media_type``, ``encoding``, ``page_start`` and ``page_end`` among
    others."""

    document_id: str
    namespace: str = ""
    status: str = ""
    generation: int | None = None
    chunks: int = 0
    title: str | None = None
    author: str | None = None
    type: str | None = None
    tags: tuple[str, ...] = ()
    published_at: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunking: Mapping[str, Any] = field(default_factory=dict)
    duplicate_of: str | None = None
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceInfo(Result):
    """A knowledge base and how much is searchable in it."""

    namespace: str
    documents: int = 0
    chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceAlignment(Result):
    """The two stores in one namespace: chunks without vector, vectors without chunk, vectors of an older text."""

    namespace: str
    documents: int = 0
    chunks: int = 0
    vectors: int = 0
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment(Result):
    """A comparison of the two stores, by namespace and in all. ``repaired`` counts the differences repaired on request,
    ``withheld`` the vectors and rows of chunks that a repair did not delete because they are too many."""

    namespaces: tuple[NamespaceAlignment, ...] = ()
    missing: int = 0
    orphaned: int = 0
    stale: int = 0
    repaired: int = 0
    withheld: int = 0
    misplaced: int = 0
    miscounted: int = 0
    leftover: int = 0
    statistics: int = 0
    document_vectors: int = 0

    @property
    def aligned(self) -> bool:
        """Whether there is no difference of any kind."""
        vectors = self.missing or self.orphaned or self.stale or self.misplaced
        return not (vectors or self.miscounted or self.leftover or self.statistics or self.document_vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency(Result):
    """The state of one dependency of the server. ``age_s``: seconds between its check and the answer; ``required``: the
    server is not ready unless this dependency is ok."""

    status: str = "unknown"
    latency_ms: float | None = None
    detail: str | None = None
    required: bool | None = None
    age_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be used."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Result):
    """Whether the server can do its work, dependency by dependency. ``version`` is the server's, when it says so."""

    status: str = "unknown"
    dependencies: Mapping[str, Dependency] = field(default_factory=dict)
    version: str | None = None

    @property
    def ready(self) -> bool:
        """Whether requests can be served."""
        return self.status == "ready"


def failures(errors: Iterable[JobError], *, at_most: int = 3) -> str:
    """The first few errors in one line, for people."""
    listed = list(errors)
    names = (error.document_id or error.pointer or "a document" for error in listed[:at_most])
    told = "; ".join(f"{name}: {error.detail or error.code}" for name, error in zip(names, listed, strict=False))
    return told + (f"; and {len(listed) - at_most} more" if len(listed) > at_most else "")
