"""Answers to queries, part by part."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from chordwise.contract.record import Answered, absent_not_null

EVEN: Final = 0.5  # the confidence that null counts as in every threshold


def sureness(confidence: float | None) -> float:
    """Return a confidence as thresholds compare it: null, which says that nothing can be told, counts as 0.5."""
    return EVEN if confidence is None else confidence


@dataclass(frozen=True, slots=True, kw_only=True)
class HitSource(Answered):
    """One channel's contribution to a hit. `rank` counts from 1; null means that another channel found it first.
    `contribution` is null where a custom fusion gave the score."""

    channel: str
    rank: int | None
    score: float | None
    normalized: float | None
    contribution: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankMove(Answered):
    """The effect of reranking on a hit: its score there, and its previous position, counted from 1."""

    score: float
    from_rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span(Answered):
    """A stretch of `text`. Offsets count characters (Unicode code points); the end is exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHit(Answered):
    """A passage: its strongest channel (`source`), its score, its confidence, and the reason for its rank."""

    source: str
    score: float
    confidence: float | None
    reason: str
    content: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChunk(Answered):
    """A hit. `score` orders this answer; `confidence` can be compared between queries, and is null where neither words nor
    meaning can tell whether the query is answered, as `remarks` then says. `source`: the strongest channel, or `both` where
    words and meaning found it. `feedback`: the part of the fused score that came from candidates like it.
    `highlights`, on request: the words of the query in `text`, synonyms included."""

    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    text: str
    metadata: Mapping[str, Any]
    score: float
    confidence: float | None
    source: str
    sources: tuple[HitSource, ...]
    reason: str
    rerank: RerankMove | None
    decay: float | None
    feedback: float
    highlights: tuple[Span, ...] | None = field(
        default=None,
        metadata={"description": "Absent unless the query asks to `highlight`.", "json_schema_extra": absent_not_null},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation(Answered):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity(Answered):
    """The state of an entity named by the hits, at the query's `story_time` or the latest, and since when it applies."""

    id: str
    name: str
    type: str | None
    state: Mapping[str, Any] | str
    story_time: int | None
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerContext(Answered):
    """The hits in the form for a prompt, within the requested token budget."""

    text: str
    token_count: int
    citations: tuple[Citation, ...]
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Degradation(Answered):
    """A loss on the way: a channel, or a step such as rerank."""

    part: str
    code: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep(Answered):
    """The last threshold of similarity that was tried. `hits` reached `threshold`; `enough`: as many as requested."""

    threshold: float
    hits: int
    enough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondRetrieval(Answered):
    """The reason for a second retrieval, its changes, and the number of chunks before and after it. Empty `changed`: it
    was impossible, or would have repeated the first."""

    reason: str
    changed: Mapping[str, Any]
    hits_before: int
    hits_after: int


_RECALL = (
    "How each channel searched, where it has several ways: `method` is `exact`, `hnsw`, `ivfflat` or `hnsw+ivfflat`, "
    "with `+exact_fallback` if indexes gave too few, "
    "of the keyword channel `index` or `fulltext`; `rows`: how many chunks it compared; "
    "`may_be_short`: something may be missing; `indexes`: how many vector indexes were asked; `recall`: the least share of "
    "the ten nearest chunks that they were measured to find."
)
_INDEX_AGE = "Set while MySQL is away: seconds since the keyword index was last in step with MySQL."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Answered):
    """Figures on how the answer was made. Times in milliseconds. `source_share` adds up to 1. `fallback`: the last resort that
    was added and why, or `none_configured` where an answer needed one. `degradations`: each loss on the way."""

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
    remarks: tuple[str, ...]
    recall: Mapping[str, Mapping[str, Any]] = field(metadata={"description": _RECALL})
    fallback: str | None
    ladder: LadderStep | None
    second: SecondRetrieval | None
    cached: bool = field(default=False, metadata={"description": "Whether the answer came from the answer cache."})
    index_age_s: float | None = field(default=None, metadata={"description": _INDEX_AGE})


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetValue(Answered):
    """A value, the number of passages whose document has it, and the filter that leaves these."""

    value: str | int | float | bool
    passages: int
    filter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet(Answered):
    """The most frequent values of a field among the passages that match. `counted_over`: `matches` are all passages that
    hold a word of the query or were recalled by another channel, `pool` are the recalled ones alone. `passages`: how many these
    are; `other`: the counts of the values that are not listed, added up; `distinct`: how many values there are, null for
    more than 2,000."""

    field: str
    counted_over: Literal["matches", "pool"]
    passages: int
    values: tuple[FacetValue, ...]
    other: int
    distinct: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Answered):
    """The hits with one value of the field that groups, in the order of the answer. `value` is null for hits without one.
    `next`: the fields of a query for further hits of the group, null where there are none."""

    value: str | int | float | bool | None
    chunk_ids: tuple[str, ...]
    next: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderstoodQuery(Answered):
    """The query as it was understood."""

    query_text: str
    namespaces: tuple[str, ...]
    top_k: int
    filters: Mapping[str, Any]
    method: str
    channels: tuple[str, ...]
    strategy: str
    enable_expand: bool
    enable_rerank: bool
    route: str | None
    rewritten: str | None
    keywords: tuple[str, ...]
    entities: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAccepted(Answered):
    """A query that has no answer yet."""

    query_id: str
    status: Literal["queued", "running"]
