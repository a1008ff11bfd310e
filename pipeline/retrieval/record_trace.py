"""Store the traces of queries that request one, keep those of queries that call for a look, and read both back."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson
import structlog

from chordwise.contract.answer import AnswerChunk
from chordwise.contract.explanation import TraceMark, TraceSummary
from pipeline.answer.ended_query import SLOW_MS
from pipeline.answer.result import Answer, outcome
from pipeline.outages import tolerate_outage
from pipeline.query.plan import plan_as_json
from pipeline.query.request import Envelope, Query, filters_as_sent
from pipeline.query.trace_entry import TraceFilter
from pipeline.ranking.fusion import Contribution
from pipeline.ranking.hits import Hit
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.telemetry.tracing import OutsideCall

log = structlog.get_logger(__name__)

_SAMPLE_PERCENT: Final = 1.0  # of the other queries
_TEXT_SHOWN: Final = 300  # characters of a question in the list


def may_keep(query: Query, use: Resources) -> bool:
    """Return whether a trace of the query may be needed, so that its composition is recorded."""
    return query.trace or use.settings.traces_kept > 0


def packed_trace(arrived: Arrived, answer: Answer) -> bytes:
    """Return the compressed trace of a composition that was made with a tracing journal."""
    return zlib.compress(orjson.dumps(trace_from(arrived, answer), option=orjson.OPT_NON_STR_KEYS), 1)


def keep_trace(arrived: Arrived, answer: Answer, use: Resources) -> None:
    """Keep the trace of an answered query if it is slow, degraded, failed or empty, if it was requested, or if it is in
    the sample. Called after the answer is stored, so that no caller waits for it. Never raises for a dependency."""
    query = arrived.query
    if not use.settings.traces_kept:
        return
    marks = marks_of(query, answer, slow_ms=SLOW_MS, sample_percent=_SAMPLE_PERCENT)
    if not marks:
        return
    entry = TraceSummary(
        query_id=query.query_id,
        asked_at=datetime.fromtimestamp(query.created_at, UTC),
        text=query.query_text[:_TEXT_SHOWN],
        namespaces=query.namespaces,
        profile=query.profile,
        marks=marks,
        total_ms=answer.stats.latency_ms["total"],
        chunks=len(answer.chunks),
    )
    with tolerate_outage(log.warning, "trace_not_kept", query_id=query.query_id):
        trace = b"" if query.trace else packed_trace(arrived, answer)
        use.traces(query.tenant_id).keep(entry, query, trace)


def marks_of(query: Query, answer: Answer, *, slow_ms: float, sample_percent: float) -> tuple[TraceMark, ...]:
    """Return why the trace of an answered query is kept; nothing if it is not. A question to no namespace is not empty."""
    found: list[tuple[bool, TraceMark]] = [
        (answer.stats.latency_ms["total"] >= slow_ms, "slow"),
        (answer.stats.degraded, "degraded"),
        (answer.status == "failed", "failed"),
        (bool(query.channels) and outcome(answer) == "empty", "empty"),
        (query.trace, "requested"),
    ]
    marks = tuple(mark for applies, mark in found if applies)
    return marks or (("sampled",) if _is_sampled(query.query_id, sample_percent) else ())


def asked_before(tenant_id: TenantId, query_id: QueryId, use: Resources) -> Query | None:
    """Return a query that is stored, or whose trace is kept; None if it is gone."""
    return use.queries(tenant_id).stored(query_id) or use.traces(tenant_id).query(query_id)


def trace_of_query(tenant_id: TenantId, query_id: QueryId, use: Resources) -> dict[str, Any] | None:
    """Return the stored trace of an answered query, None if it has none. Raises StoreUnavailable."""
    packed = use.traces(tenant_id).trace(query_id)
    return None if packed is None else orjson.loads(zlib.decompress(packed))


def list_traces(
    tenant_id: TenantId, chosen: TraceFilter, before: tuple[datetime, str] | None, limit: int, use: Resources
) -> list[TraceSummary]:
    """Return the kept traces older than the (asked_at, query_id) cursor, newest first."""
    return use.traces(tenant_id).page(chosen, before=before, limit=limit)


def _is_sampled(query_id: QueryId, percent: float) -> bool:
    """Return whether a query is in the sample; its id, which is random, decides alone."""
    return zlib.crc32(query_id.encode()) < percent / 100 * 2**32


def trace_from(arrived: Arrived, answer: Answer) -> dict[str, Any]:
    """Return the trace of a composition that was made with a tracing journal, as JSON; ``explained`` describes each
    returned chunk in words. If it was asked again, the channels' results are those of both rounds."""
    query, journal = arrived.query, arrived.journal
    envelopes, orders = journal.asked_again or arrived.envelopes, journal.orders
    last = {hit.chunk_id: hit for _, hits in orders for hit in hits}
    return {
        "query_id": query.query_id,
        "request_id": query.request_id,
        "profile": query.profile,
        "config_version": query.config_version,
        "lane": arrived.lane,
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
        "rerank_weight": journal.rerank_weight,
        "drops": [asdict(drop) for drop in journal.drops],
        "returned": [chunk.chunk_id for chunk in answer.chunks],
        "explained": [
            explain_position(position, chunk, last.get(chunk.chunk_id), journal.rerank_weight)
            for position, chunk in enumerate(answer.chunks, start=1)
        ],
        "timings_ms": dict(answer.stats.latency_ms),
        "timeline": [asdict(span) for span in timeline(arrived, total_ms=answer.stats.latency_ms["total"])],
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


_ENVELOPE_FIELDS = (
    "status",
    "code",
    "error",
    "trust",
    "beyond_words",
    "upper_bound",
    "zero",
    "background",
    "guard",
    "unasked",
)
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


def timeline(arrived: Arrived, *, total_ms: float) -> list[TimelineSpan]:
    """Return the parts of a run in the order in which they began. A channel that has not returned lasts until now."""
    journal, created_at, opened_at = arrived.journal, arrived.query.created_at, arrived.opened_at
    composed_at = journal.began_at

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
    for name, run in sorted(arrived.ran.items(), key=lambda item: (item[1].started_at, item[0])):
        if opened_at is not None and run.started_at > opened_at:
            spans.append(span("queue", "queue", opened_at, (run.started_at - opened_at) * 1000, name))
        until_now_ms = (composed_at - run.started_at) * 1000  # of a channel that has not returned
        spans.append(
            span(name, "channel", run.started_at, arrived.elapsed_ms.get(name, until_now_ms), name, run.worker)
        )
        spans.extend(outside(run.calls, name))
        ended_at = run.started_at + arrived.elapsed_ms.get(name, until_now_ms) / 1000
        last = ended_at if last is None else max(last, ended_at)
    if last is not None and composed_at > last:
        spans.append(span("queue", "queue", last, (composed_at - last) * 1000, "callback"))
    spans.append(span("callback", "callback", composed_at, total_ms - since(composed_at)))
    spans.extend(span(name, "step", at, ms, "callback") for name, at, ms in journal.steps)
    spans.extend(outside(journal.calls, "callback"))
    return spans
