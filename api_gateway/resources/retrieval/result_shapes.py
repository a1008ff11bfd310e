"""The answer to a query as it is described; it is sent as it was stored, so these classes only describe."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api_gateway.resources.shapes import ProblemBody, Shape

_RECALL = (
    "How each channel searched, where it has several ways: `method` is `exact`, `ivfflat`, or "
    "`ivfflat+exact_fallback`, "
    "of the keyword channel `index` or `fulltext`; `rows`: how many chunks it compared; "
    "`may_be_short`: something may be missing; `indexes`: how many vector indexes were asked; `recall`: the least share of "
    "the ten nearest chunks that they were measured to find."
)


class HitSource(Shape):
    """One channel's say in a hit. `rank` counts from 1; null means that another channel found it first. `contribution` is
    null where a custom fusion gave the score."""

    channel: str
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


class RerankMove(Shape):
    """What reranking did to a hit: its score there, and the place it came from."""

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
    """Which chunk a marker in the context stands for. Offsets count characters of the document's text and are the
    chunk's own, whatever else is read with it; null for a passage that is in no document here. `edited`: the chunk's text
    was changed by hand, so offsets and pages name the passage of the document that it replaces."""

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
    """What an entity that the hits name is like at the query's `story_time`, or last of all; since when it is."""

    id: str
    name: str
    type: str | None
    state: dict[str, Any]
    story_time: int | None
    namespace: str


class AnswerContext(Shape):
    """The passages as a prompt would get them."""

    text: str
    token_count: int
    citations: list[Citation]
    entities: list[Entity]


class Degradation(Shape):
    """Something that was lost on the way: a channel, or a step such as rerank."""

    part: str
    code: str
    detail: str


class Rung(Shape):
    """Where the ladder of thresholds on similarity ended. `hits` reached `threshold`; `enough`: as many as asked for."""

    threshold: float
    hits: int
    enough: bool


class SecondRetrieval(Shape):
    """Why the first result was poor, what was done differently, and how many chunks were there before and after it.
    Nothing in `changed`: it could not be done, or nothing would have been different."""

    reason: str
    changed: dict[str, Any]
    hits_before: int
    hits_after: int


class Stats(Shape):
    """How the answer came about. Times in milliseconds."""

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
    cached: bool = Field(default=False, description="Whether the answer was kept from the same question, asked before.")
    index_age_s: float | None = Field(
        default=None,
        description="Set while MySQL is away: seconds since the keyword index that answered was last as MySQL had it.",
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
    """The result of a query, best chunk first. Nothing found is a success. `failed`: nothing could be asked or read, there
    are no chunks, and `error` says why; `stats.degradations` names everything that was lost."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: list[AnswerChunk]
    context: AnswerContext
    stats: Stats
    error: ProblemBody | None = Field(default=None, description="Set when `status` is `failed`.")
