"""The answer to a query, stored as it is sent: field names are those of the HTTP contract."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from chordwise.contract.answer import (
    AnswerChunk,
    AnswerContext,
    Facet,
    Group,
    HitSource,
    RerankMove,
    Stats,
    UnderstoodQuery,
)
from pipeline.filters.python_filters import as_sent
from pipeline.query.request import Degradation, Envelope, Query, Understanding, copied, filters_as_sent
from pipeline.ranking.hits import Hit
from pipeline.records import ChannelName

BOTH: Final = "both"
_SEARCHES: Final = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC})


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
    """The result of a query, in the shape and order of the contract. ``facets``, ``groups``, ``context``: None
    unless asked for. ``error`` is set when ``status`` is ``failed``."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: tuple[AnswerChunk, ...]
    facets: tuple[Facet, ...] | None = None
    groups: tuple[Group, ...] | None = None
    context: AnswerContext | None = None
    stats: Stats
    error: AnswerProblem | None = None


def answer_chunks(hits: Sequence[Hit], *, envelopes: Mapping[ChannelName, Envelope]) -> tuple[AnswerChunk, ...]:
    """Return the chunks of the answer, in order."""
    return tuple(_chunk(hit, envelopes) for hit in hits)


def understood(query: Query) -> UnderstoodQuery:
    """Return the query as it was understood, for confirmation."""
    plan = query.plan
    return copied(
        UnderstoodQuery,
        query.understanding or Understanding(route=plan.retrieve.method),
        query_text=query.query_text,
        namespaces=query.namespaces,
        top_k=query.top_k,
        filters=filters_as_sent(query.filters) | (as_sent(query.conditions) if query.conditions else {}),
        method=plan.retrieve.method,
        channels=tuple(query.channels),
        strategy=plan.retrieve.fusion.strategy,
        enable_expand=plan.understand.enabled,
        enable_rerank=plan.rerank.enabled,
    )


def source_share(chunks: Sequence[AnswerChunk]) -> dict[str, float]:
    """Return the share of the chunks that each channel brought, by the strongest channel of each chunk."""
    counted = Counter(strongest(chunk.sources) for chunk in chunks)
    return {source: round(count / len(chunks), 4) for source, count in sorted(counted.items())}


def strongest(sources: Iterable[HitSource]) -> str:
    """Return the channel with the largest contribution, or with the best rank where a custom fusion gives none."""
    return max(sources, key=lambda part: (part.contribution or 0.0, part.rank is not None, -(part.rank or 0))).channel


def _label(sources: Sequence[HitSource]) -> str:
    """Return the strongest channel, or `BOTH` if that is one of the two searches and both of them recalled the chunk."""
    channel = strongest(sources)
    agree = channel in _SEARCHES and _SEARCHES.issubset(part.channel for part in sources if part.rank is not None)
    return BOTH if agree else channel


def _chunk(hit: Hit, envelopes: Mapping[ChannelName, Envelope]) -> AnswerChunk:
    fused, hydrated = hit.fused, hit.passage
    sources = tuple(HitSource(**part._asdict()) for part in fused.contributions)
    return copied(
        AnswerChunk,
        hydrated,
        score=hit.score,
        confidence=None if hit.confidence is None else round(hit.confidence, 4),
        source=_label(sources),
        sources=sources,
        reason=_reason(sources, fused.feedback, hit, envelopes),
        rerank=None if hit.rerank is None else RerankMove(score=hit.rerank, from_rank=hit.from_rank),
        decay=hit.decay,
        feedback=round(fused.feedback, 6),
    )


def _reason(sources: Sequence[HitSource], feedback: float, hit: Hit, envelopes: Mapping[ChannelName, Envelope]) -> str:
    parts = []
    for source in sources:
        envelope = envelopes.get(ChannelName(source.channel))
        total = len(envelope.chunk_ids) if envelope else 0
        rank = f"{source.rank} of {total}" if source.rank else "not recalled, scored afterwards"
        parts.append(f"{source.channel}: {rank}")
    if feedback:
        parts.append(f"{feedback:+.3f} from the candidates like it")
    if hit.decay is not None:
        parts.append(f"age left {hit.decay:.3f} of its score")
    if hit.duplicates:
        parts.append(f"stands for {len(hit.duplicates)} more that are the same")
    if hit.likeness is not None:
        parts.append(f"{hit.likeness:.2f} like what stands above it")
    if hit.rerank is not None:
        parts.append(f"reranked from place {hit.from_rank}")
    return "; ".join(parts)


RETRIEVAL_UNAVAILABLE = "retrieval_unavailable"

Outcome = Literal["answered", "degraded", "empty", "failed"]


def problem_of(
    query: Query, *, usable: Collection[ChannelName], losses: Iterable[Degradation], chunks: Collection[object]
) -> AnswerProblem | None:
    """Return why a query failed, None if it succeeded, as one with chunks or one searched nowhere on purpose does.
    ``usable``: the channels that answered."""
    if chunks or not query.channels:
        return None
    by_part: dict[str, Degradation] = {}
    for loss in losses:
        by_part.setdefault(loss.part, loss)
    if "answer" in by_part and by_part["answer"].code == "internal_error":
        return _problem(query, "internal_error", 500, by_part["answer"].detail)
    if not usable:
        lost = ", ".join(_named(channel, by_part.get(channel)) for channel in query.channels)
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, f"No channel answered: {lost}.")
    if "answer" in by_part:
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, "No worker put the answer together before the deadline.")
    if "hydrate" in by_part:
        detail = f"Passages were found, but their texts could not be read ({by_part['hydrate'].code})."
        return _problem(query, RETRIEVAL_UNAVAILABLE, 503, detail)
    return None


def outcome(answer: Answer) -> Outcome:
    """Return the result of a query as one word, the worst that applies. ``empty``: no chunks but the last resort's."""
    if answer.status == "failed":
        return "failed"
    if all(chunk.source == ChannelName.FALLBACK for chunk in answer.chunks):
        return "empty"
    return "degraded" if answer.stats.degraded else "answered"


def sent_problem(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the ``error`` of a stored and sent answer; None if the query succeeded."""
    return answer["error"] if answer["status"] == "failed" else None


def _named(channel: ChannelName, loss: Degradation | None) -> str:
    return f"{channel} ({loss.code})" if loss else str(channel)


def _problem(query: Query, code: str, status: int, detail: str) -> AnswerProblem:
    return AnswerProblem(
        type=f"urn:chordwise:problem:{code}",
        title="Nothing could be retrieved" if status == 503 else "Something went wrong on our side",
        status=status,
        detail=detail,
        instance=f"/v1/queries/{query.query_id}",
        code=code,
        request_id=query.request_id,
    )
