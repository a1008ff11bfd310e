"""The record of one run of the pipeline: what every stage was given and made of it, in numbers and ids, without texts.

A trace only records. It is made from what the pipeline keeps anyway, so there is no second way for debugging that could
disagree with the one that answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.fusion import Contribution
from pipeline.core.hits import Drop, Hit
from pipeline.core.plan import plan_as_json
from pipeline.core.query import Answer, AnswerChunk, Envelope, Query, filters_as_sent
from pipeline.records import ChannelName


def trace_of(
    query: Query,
    answer: Answer,
    *,
    envelopes: Mapping[ChannelName, Envelope],
    orders: Sequence[tuple[str, Sequence[Hit]]],
    drops: Sequence[Drop],
) -> dict[str, Any]:
    """Everything that led to ``answer``, as JSON. ``explained`` says the same of each returned chunk in one sentence."""
    return {
        "query_id": query.query_id,
        "request_id": query.request_id,
        "profile": query.profile,
        "config_version": query.config_version,
        "experiment_id": query.experiment_id,
        "experiment_bucket": query.experiment_bucket,
        "query": {
            "text": query.query_text,
            "namespaces": list(query.namespaces),
            "filters": filters_as_sent(query.filters),
            "understood": _understood(query),
        },
        "plan": plan_as_json(query.plan),
        "channels": {name: _channel(envelopes.get(name)) for name in query.channels},
        "stages": [_stage(stage, hits) for stage, hits in orders],
        "drops": [_drop(drop) for drop in drops],
        "returned": [chunk.chunk_id for chunk in answer.chunks],
        "explained": [explained(place, chunk) for place, chunk in enumerate(answer.chunks, start=1)],
        "timings_ms": dict(answer.stats.latency_ms),
        "degradations": [
            {"part": lost.part, "code": lost.code, "detail": lost.detail} for lost in answer.stats.degradations
        ],
        "remarks": list(answer.stats.remarks),
    }


def explained(place: int, chunk: AnswerChunk) -> str:
    """Why a chunk stands at its place, in one sentence that names every number that had a part in it."""
    parts = []
    for source in chunk.sources:
        found = f"found at place {source.rank}" if source.rank else "not found, scored afterwards"
        score = "" if source.score is None else f" with {source.score:.4g}"
        share = "" if source.normalized is None else f", normalized {source.normalized:.3f}"
        parts.append(f"{source.channel} {found}{score}{share}, adding {source.contribution:.4f}")
    said = "; ".join(parts) or "brought by no channel"
    if chunk.feedback:
        said += f"; the candidates like it add {chunk.feedback:+.4f}"
    if chunk.decay is not None and chunk.decay != 1.0:
        said += f"; age left {chunk.decay:.3f} of that"
    if chunk.rerank is not None:
        said += f"; reading it scored {chunk.rerank.score:.3f} and moved it from place {chunk.rerank.from_rank}"
    return f"{place}. {chunk.document_id}: {said}; in all {chunk.score:.4f}."


def _understood(query: Query) -> dict[str, Any] | None:
    known = query.understanding
    if known is None:
        return None
    return {
        "route": known.route,
        "rewritten": known.rewritten,
        "keywords": list(known.keywords),
        "entities": list(known.entities),
        "sub_queries": list(known.sub_queries),
        "hypothetical": known.hypothetical,
    }


def _channel(envelope: Envelope | None) -> dict[str, Any]:
    if envelope is None:
        return {"status": "missing", "hits": []}
    return {
        "status": envelope.status,
        "code": envelope.code,
        "error": envelope.error,
        "upper_bound": envelope.upper_bound,
        "guard": envelope.guard,
        "hits": [
            {"rank": rank, "chunk_id": chunk_id, "score": score}
            for rank, (chunk_id, score) in enumerate(zip(envelope.chunk_ids, envelope.scores, strict=True), start=1)
        ],
    }


def _stage(stage: str, hits: Sequence[Hit]) -> dict[str, Any]:
    return {"stage": stage, "hits": [_hit(place, hit) for place, hit in enumerate(hits, start=1)]}


def _hit(place: int, hit: Hit) -> dict[str, Any]:
    return {
        "place": place,
        "chunk_id": hit.chunk_id,
        "document_id": hit.passage.document_id,
        "score": hit.score,
        "fused": hit.fused.score,
        "feedback": hit.fused.feedback,
        "decay": hit.decay,
        "rerank": hit.rerank,
        "from_rank": hit.from_rank or None,
        "contributions": [_contribution(part) for part in hit.fused.contributions],
    }


def _contribution(part: Contribution) -> dict[str, Any]:
    return {
        "channel": part.channel,
        "rank": part.rank,
        "score": part.score,
        "normalized": part.normalized,
        "contribution": part.contribution,
    }


def _drop(drop: Drop) -> dict[str, Any]:
    return {
        "chunk_id": drop.chunk_id,
        "stage": drop.stage,
        "reason": drop.reason,
        "value": drop.value,
        "limit": drop.limit,
    }
