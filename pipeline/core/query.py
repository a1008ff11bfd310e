"""A query as understood, what each channel said to it, and the answer: the records of retrieval.

Field names are those of the HTTP contract, because the answer is stored as it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pipeline.records import ChannelName, Filters, Namespace, QueryId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """How the passages are put together for a prompt. ``max_tokens`` bounds the whole text. ``window`` and ``parents``:
    what is read with a hit; None leaves it to the way its document was cut."""

    format: Literal["markdown", "text"] = "markdown"
    max_tokens: int = 2000
    window: int | None = None
    parents: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One retrieval with every setting resolved. ``deadline_at`` is seconds since the epoch; durations are ms."""

    query_id: QueryId
    tenant_id: TenantId
    request_id: str
    query_text: str
    namespaces: tuple[Namespace, ...]
    top_k: int
    filters: Filters = field(default_factory=Filters)
    channels: tuple[ChannelName, ...] = (ChannelName.KEYWORD, ChannelName.SEMANTIC)
    weights: Mapping[ChannelName, float] = field(default_factory=dict)
    strategy: Literal["rrf", "weighted", "custom"] = "weighted"
    rrf_k: int = 60
    score_threshold: float = 0.0
    pool: int = 100
    enable_expand: bool = True
    enable_rerank: bool = True
    rerank_top_n: int = 30
    timeout_ms: int = 800
    retry: int = 1
    created_at: float
    deadline_at: float
    profile: str = "default"
    config_version: int = 1
    session_id: str | None = None
    experiment_id: str | None = None
    trace: bool = False
    context: ContextOptions = field(default_factory=ContextOptions)
    embedding_space: int | None = None  # every part of a query uses the same one, whatever is switched meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What one header task hands to the callback: always this, never an exception, and no timings in it, so that a
    redelivered task gives the same bytes. ``upper_bound`` is the highest score the channel could have given."""

    channel: ChannelName
    status: Literal["ok", "failed", "timeout"]
    chunk_ids: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    upper_bound: float | None = None
    code: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation:
    """Something that was lost on the way to a complete answer. ``part``: a channel, or a step such as rerank."""

    part: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSource:
    """One channel's say in a hit. ``rank`` counts from 1 and is null when the channel only scored what another found."""

    channel: str
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankMove:
    """What reranking did to a hit: its score there and the place it came from."""

    score: float
    from_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChunk:
    """One returned chunk. ``score`` orders the answer; ``confidence`` is comparable between queries."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: Mapping[str, Any]
    score: float
    confidence: float
    source: str
    sources: tuple[HitSource, ...]
    reason: str
    rerank: RerankMove | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The passages as a prompt would get them."""

    text: str
    token_count: int
    citations: tuple[Mapping[str, str], ...]
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """How the answer came about. Times in milliseconds."""

    hits: Mapping[str, int]
    source_share: Mapping[str, float]
    expanded_queries: tuple[str, ...]
    latency_ms: Mapping[str, float]
    rerank_lift: float | None
    degraded: bool
    degradations: tuple[Degradation, ...]
    profile: str
    config_version: int
    experiment_bucket: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstoodQuery:
    """The part of a query that its sender may want to see confirmed."""

    query_text: str
    namespaces: tuple[str, ...]
    top_k: int
    filters: Mapping[str, Any]
    method: str
    channels: tuple[str, ...]
    strategy: str
    enable_expand: bool
    enable_rerank: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a query, in the shape and order of the contract."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: tuple[AnswerChunk, ...]
    context: AnswerContext
    stats: Stats


def filters_as_sent(filters: Filters) -> dict[str, Any]:
    """The filters that were set, under the names of the contract."""

    def moment(value: datetime | None) -> str | None:
        return None if value is None else value.isoformat().replace("+00:00", "Z")

    values = {
        "type": filters.type,
        "tags": list(filters.tags) or None,
        "author": filters.author,
        "start": moment(filters.start),
        "end": moment(filters.end),
        "metadata": dict(filters.metadata) or None,
        "story_time": filters.story_time,
    }
    return {name: value for name, value in values.items() if value is not None}
