"""The answer to a query: its chunks, their origin, and the losses on the way.

Field names are those of the HTTP contract, because the answer is stored as it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipeline.query.request import Degradation


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSource:
    """The part of one channel in a hit. ``rank`` counts from 1 and is null when the channel only scored a hit of
    another one. ``contribution`` is null where a custom fusion gave the score."""

    channel: str
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankMove:
    """The effect of reranking on a hit: its rerank score and its rank before."""

    score: float
    from_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSpan:
    """A stretch of a text. Offsets count characters; the end is exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChunk:
    """One returned chunk. ``score`` orders the answer, unless grades or diversity changed the order; ``confidence`` is
    comparable between queries. ``feedback``: the part of the fused score that came from similar candidates, negative
    where they score lower."""

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
    decay: float | None = None
    feedback: float = 0.0
    highlights: tuple[TextSpan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext:
    """The passages as a text for a prompt. ``token_count``: by the plan's tokenizer, headers and separators included.

    ``citations``: the chunk that each marker names, and its position in the document. Offsets count characters of the
    parsed text, ``end`` is exclusive; they are the chunk's own, without surroundings. Pages count from 1. ``edited``:
    its text was changed since; the offsets still name the original passage.
    """

    text: str
    token_count: int
    citations: tuple[Mapping[str, Any], ...]
    entities: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Statistics of an answer. Times in milliseconds."""

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
    remarks: tuple[str, ...] = ()
    recall: Mapping[str, Any] = field(default_factory=dict)
    fallback: str | None = None
    ladder: Mapping[str, Any] | None = None
    second: Mapping[str, Any] | None = None
    cached: bool = False
    index_age_s: float | None = None  # of the keyword index that answered while MySQL was away


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstoodQuery:
    """The part of a query that is returned with the answer for confirmation."""

    query_text: str
    namespaces: tuple[str, ...]
    top_k: int
    filters: Mapping[str, Any]
    method: str
    channels: tuple[str, ...]
    strategy: str
    enable_expand: bool
    enable_rerank: bool
    route: str | None = None
    rewritten: str | None = None
    keywords: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerProblem:
    """The reason why a query failed: a problem as RFC 9457 describes it, with the extensions of the contract."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a query, in the shape and order of the contract. ``error`` is set when ``status`` is ``failed``."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: tuple[AnswerChunk, ...]
    context: AnswerContext
    stats: Stats
    error: AnswerProblem | None = None
