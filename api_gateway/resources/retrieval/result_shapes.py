"""Descriptions of the answer to a query. It is sent as it was stored, so these classes only describe it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api_gateway.http.descriptions import ProblemBody
from api_gateway.http.fields import Shape

_RECALL = (
    "How each channel searched, where it has several ways: `method` is `exact`, `ivfflat`, or "
    "`ivfflat+exact_fallback`, "
    "of the keyword channel `index` or `fulltext`; `rows`: how many chunks it compared; "
    "`may_be_short`: something may be missing; `indexes`: how many vector indexes were asked; `recall`: the least share of "
    "the ten nearest chunks that they were measured to find."
)


class HitSource(Shape):
    """One channel's contribution to a hit. `rank` counts from 1; null means that another channel found it first.
    `contribution` is null where a custom fusion gave the score."""

    channel: str
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


class RerankMove(Shape):
    """The effect of reranking on a hit: its score there, and its previous position."""

    score: float
    from_rank: int


class Span(Shape):
    """A stretch of `text`. Offsets count characters (Unicode code points); the end is exclusive."""

    start: int
    end: int


class AnswerChunk(Shape):
    """A hit. `score` orders this answer; `confidence` can be compared between queries. `feedback`: the part of the fused
    score that came from candidates like it. `highlights` are the words of the query in `text`, synonyms included."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: dict[str, Any]
    score: float
    confidence: float
    source: str
    sources: list[HitSource]
    reason: str
    rerank: RerankMove | None
    decay: float | None
    feedback: float
    highlights: list[Span]


class Citation(Shape):
    """The chunk of a marker in the context. Offsets count characters of the document's text and are the chunk's own,
    without its surrounding text; null for a passage outside any document here. `edited`: the chunk's text was changed
    by hand, so offsets and pages name the passage of the document that it replaces."""

    marker: str
    chunk_id: str
    document_id: str
    namespace: str
    start: int | None
    end: int | None
    page: int | None
    page_start: int | None
    page_end: int | None
    title: str | None
    source_uri: str | None
    edited: bool


class Entity(Shape):
    """The state of an entity named by the hits, at the query's `story_time` or the latest, and since when it applies."""

    id: str
    name: str
    type: str | None
    state: dict[str, Any]
    story_time: int | None
    namespace: str


class AnswerContext(Shape):
    """The passages in the form for a prompt."""

    text: str
    token_count: int
    citations: list[Citation]
    entities: list[Entity]


class Degradation(Shape):
    """A loss on the way: a channel, or a step such as rerank."""

    part: str
    code: str
    detail: str


class Rung(Shape):
    """The last threshold of similarity that was tried. `hits` reached `threshold`; `enough`: as many as requested."""

    threshold: float
    hits: int
    enough: bool


class SecondRetrieval(Shape):
    """The reason for a second retrieval, its changes, and the number of chunks before and after it. Empty `changed`: it
    was impossible, or would have repeated the first."""

    reason: str
    changed: dict[str, Any]
    hits_before: int
    hits_after: int


class Stats(Shape):
    """Figures on how the answer was made. Times in milliseconds."""

    hits: dict[str, int]
    source_share: dict[str, float]
    expanded_queries: list[str]
    latency_ms: dict[str, float]
    rerank_lift: float | None
    degraded: bool
    degradations: list[Degradation]
    profile: str
    config_version: int
    experiment_bucket: str | None
    remarks: list[str]
    recall: dict[str, dict[str, Any]] = Field(description=_RECALL)
    fallback: str | None
    ladder: Rung | None
    second: SecondRetrieval | None
    cached: bool = Field(default=False, description="Whether the answer came from the answer cache.")
    index_age_s: float | None = Field(
        default=None,
        description="Set while MySQL is away: seconds since the keyword index was last in step with MySQL.",
    )


class UnderstoodQuery(Shape):
    """The query as it was understood."""

    query_text: str
    namespaces: list[str]
    top_k: int
    filters: dict[str, Any]
    method: str
    channels: list[str]
    strategy: str
    enable_expand: bool
    enable_rerank: bool
    route: str | None
    rewritten: str | None
    keywords: list[str]
    entities: list[str]


class Answer(Shape):
    """The result of a query, best chunk first. An empty result is a success. `failed`: no channel or store answered,
    there are no chunks, and `error` gives the reason; `stats.degradations` lists every loss."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: list[AnswerChunk]
    context: AnswerContext
    stats: Stats
    error: ProblemBody | None = Field(default=None, description="Set when `status` is `failed`.")
