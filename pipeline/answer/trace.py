"""The trace of one run of retrieval, in numbers and ids: made of what the pipeline keeps anyway, so that it cannot
disagree with the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from pipeline.answer.result import Answer, AnswerChunk
from pipeline.query.plan import Lane, plan_as_json
from pipeline.query.request import Envelope, Query, filters_as_sent
from pipeline.query.understanding import ChannelRun
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.hits import Drop, Hit
from pipeline.records import ChannelName
from pipeline.telemetry.tracing import OutsideCall


def trace_of(
    query: Query,
    answer: Answer,
    *,
    envelopes: Mapping[ChannelName, Envelope],
    orders: Sequence[tuple[str, Sequence[Hit]]],
    drops: Sequence[Drop],
    rerank_weight: float | None = None,
    lane: Lane = "chord",
    timeline: Sequence[TimelineSpan] = (),
) -> dict[str, Any]:
    """Return the trace of ``answer`` as JSON. ``explained`` describes each returned chunk in words.

    ``orders``: the hits after each stage; those of a second retrieval follow those of the first. ``rerank_weight``: the
    weight of the reranker's score beside the order before it; None if nothing was reranked. ``lane``: the one that
    composed the answer. ``timeline``: when each part of the run began, and how long it took.
    """
    last = {hit.chunk_id: hit for _, hits in orders for hit in hits}
    return {
        "query_id": query.query_id,
        "request_id": query.request_id,
        "profile": query.profile,
        "config_version": query.config_version,
        "lane": lane,
        "experiment_id": query.experiment_id,
        "experiment_bucket": query.experiment_bucket,
        "query": {
            "text": query.query_text,
            "namespaces": list(query.namespaces),
            "filters": filters_as_sent(query.filters),
            "understood": None if query.understanding is None else asdict(query.understanding),
        },
        "plan": plan_as_json(query.plan),
        "channels": {
            # A second retrieval may have asked more than the plan does.
            name: _channel(query, name, envelopes.get(name))
            for name in dict.fromkeys((*query.channels, *envelopes))
        },
        "stages": _stages(orders),
        "rerank_weight": rerank_weight,
        "drops": [asdict(drop) for drop in drops],
        "returned": [chunk.chunk_id for chunk in answer.chunks],
        "explained": [
            explain_position(position, chunk, last.get(chunk.chunk_id), rerank_weight)
            for position, chunk in enumerate(answer.chunks, start=1)
        ],
        "timings_ms": dict(answer.stats.latency_ms),
        "timeline": [asdict(span) for span in timeline],
        "second": answer.stats.second,
        "ladder": answer.stats.ladder,
        "fallback": answer.stats.fallback,
        "degradations": [asdict(lost) for lost in answer.stats.degradations],
        "remarks": list(answer.stats.remarks),
    }


def mentions(trace: Mapping[str, Any], chunk_id: str) -> bool:
    """Return whether a run involved a chunk: a channel recalled it, a rule dropped it, or it was returned."""
    recalled = (hit["chunk_id"] for channel in trace["channels"].values() for hit in channel["hits"])
    dropped = (drop["chunk_id"] for drop in trace["drops"])
    return any(chunk_id in ids for ids in (trace["returned"], recalled, dropped))


def answer_in_trace(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chunks of a traced answer in its shape, for a comparison; those of the last resort score 0."""
    hits = {hit["chunk_id"]: hit for stage in trace["stages"] for hit in stage["hits"]}
    return {
        "chunks": [
            {
                "chunk_id": chunk_id,
                "score": hits[chunk_id]["score"] if chunk_id in hits else 0.0,
                "sources": hits[chunk_id]["contributions"] if chunk_id in hits else [],
            }
            for chunk_id in trace["returned"]
        ]
    }


def explain_position(position: int, chunk: AnswerChunk, hit: Hit | None, rerank_weight: float | None) -> str:
    """Explain a chunk's position with every number that determined it. ``hit``: as it was selected, if it was."""
    if hit is None:
        return f"{position}. {chunk.document_id} is {chunk.reason}; it stands with {chunk.score:.4f}."
    parts = [_channel_part(part) for part in hit.fused.contributions]
    if hit.fused.feedback:
        parts.append(f"candidates like it add {hit.fused.feedback:+.4f}")
    sentences = [f"{'; '.join(parts) or 'no channel brought it'}. That makes {hit.fused.score:.4f}"]
    if hit.decay is not None:
        sentences.append(f"its age leaves {hit.decay:.3f} of that")
    if hit.duplicates:
        sentences.append(f"it stands for {len(hit.duplicates)} more that are the same, and has their channels' say")
    if hit.rerank is not None:
        counts = "" if rerank_weight is None else f", which counts {rerank_weight:.0%} beside the order so far,"
        sentences.append(f"reading it scored {hit.rerank:.3f}{counts} and {_moved(hit.from_rank, position)}")
    if hit.likeness is not None:
        sentences.append(f"it is {hit.likeness:.2f} like what stands above it")
    return f"{position}. {chunk.document_id}: {'; '.join(sentences)}. Its score is {chunk.score:.4f}."


def _channel_part(part: Contribution) -> str:
    score = "" if part.score is None else f" with {part.score:.4g}"
    how = f"found it at place {part.rank}{score}" if part.rank else f"did not find it, and scored it{score}"
    share = "" if part.normalized is None else f" ({part.normalized:.3f} from the worst candidate, 0, to the best, 1)"
    adding = "" if part.contribution is None else f", adding {part.contribution:.4f}"
    return f"{part.channel} {how}{share}{adding}"


def _moved(before: int, position: int) -> str:
    return f"left it at place {position}" if before == position else f"took it from place {before} towards this one"


def _channel(query: Query, name: ChannelName, envelope: Envelope | None) -> dict[str, Any]:
    if name not in query.channels:  # as before a route, or by another method
        plan = query.original.plan
        query = replace(query, plan=replace(plan, retrieve=replace(plan.retrieve, method="hybrid")))
    weight = query.plan.channels[name].weight if name in query.channels else 0.0
    settings = {"weight": weight, "pool": query.pool_of(name)}
    if envelope is None:
        return {**settings, "status": "missing", "hits": []}
    return {
        **settings,
        **{name: getattr(envelope, name) for name in _ENVELOPE_FIELDS},
        "hits": [
            {"rank": rank, "chunk_id": chunk_id, "score": score}
            for rank, (chunk_id, score) in enumerate(zip(envelope.chunk_ids, envelope.scores, strict=True), start=1)
        ],
    }


def _stages(orders: Sequence[tuple[str, Sequence[Hit]]]) -> list[dict[str, Any]]:
    """Return every order with its round; each round begins with fusion."""
    stages, round_ = [], 0
    for stage, hits in orders:
        round_ += stage == "fuse"
        placed = [_hit(position, hit) for position, hit in enumerate(hits, start=1)]
        stages.append({"stage": stage, "round": max(1, round_), "hits": placed})
    return stages


def _hit(position: int, hit: Hit) -> dict[str, Any]:
    return {
        "place": position,
        "chunk_id": hit.chunk_id,
        "document_id": hit.passage.document_id,
        "score": hit.score,
        "fused": hit.fused.score,
        "feedback": hit.fused.feedback,
        "decay": hit.decay,
        "rerank": hit.rerank,
        "from_rank": hit.from_rank or None,
        "duplicates": list(hit.duplicates),
        "likeness": hit.likeness,
        "contributions": [part._asdict() for part in hit.fused.contributions],
    }


_ENVELOPE_FIELDS = ("status", "code", "error", "trust", "upper_bound", "zero", "background", "guard", "unasked")
SpanKind = Literal["gateway", "queue", "channel", "callback", "step", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """One part of a run. ``start_ms``: since the request, by the clock of the process that ran it. ``part``: what a
    wait or a call belongs to, a channel or `callback`; ``worker``: empty where it is unknown."""

    name: str
    kind: SpanKind
    start_ms: float
    ms: float
    part: str = ""
    worker: str = ""


def timeline(
    created_at: float,
    *,
    opened_at: float | None,
    ran: Mapping[str, ChannelRun],
    elapsed_ms: Mapping[str, float],
    composed_at: float,
    steps: Iterable[tuple[str, float, float]],
    calls: Sequence[OutsideCall],
    total_ms: float,
) -> list[TimelineSpan]:
    """Return the parts of a run in the order in which they began; moments are in seconds since the epoch.
    ``opened_at``: the gateway stored and sent the query; ``composed_at``: the callback began, whose ``steps`` have
    beginning and milliseconds. A channel that did not return has no part."""

    def since(moment: float) -> float:
        return round((moment - created_at) * 1000, 3)

    def span(name: str, kind: SpanKind, begins: float, ms: float, part: str = "", worker: str = "") -> TimelineSpan:
        return TimelineSpan(
            name=name, kind=kind, start_ms=since(begins), ms=round(max(0.0, ms), 3), part=part, worker=worker
        )

    def outside(made: Iterable[OutsideCall], part: str) -> list[TimelineSpan]:
        return [span(call.name, "store", call.at, call.ms, part) for call in made]

    spans: list[TimelineSpan] = []
    if opened_at is not None:
        spans.append(span("gateway", "gateway", created_at, (opened_at - created_at) * 1000))
    last = opened_at
    for name, run in sorted(ran.items(), key=lambda item: (item[1].started_at, item[0])):
        if opened_at is not None and run.started_at > opened_at:
            spans.append(span("queue", "queue", opened_at, (run.started_at - opened_at) * 1000, name))
        spans.append(span(name, "channel", run.started_at, elapsed_ms.get(name, 0.0), name, run.worker))
        spans.extend(outside(run.calls, name))
        ended_at = run.started_at + elapsed_ms.get(name, 0.0) / 1000
        last = ended_at if last is None else max(last, ended_at)
    if last is not None and composed_at > last:
        spans.append(span("queue", "queue", last, (composed_at - last) * 1000, "callback"))
    spans.append(span("callback", "callback", composed_at, total_ms - since(composed_at)))
    spans.extend(span(name, "step", at, ms, "callback") for name, at, ms in steps)
    spans.extend(outside(calls, "callback"))
    return spans
