"""Count, time and log a query by its answer, in one place for all steps, and charge calls of the language model."""

from typing import Any

import structlog

from pipeline.answer.result import Answer, outcome, strongest
from pipeline.metrics.meter_store import Meter
from pipeline.query.request import Envelope, Query
from pipeline.records import ChannelName, TenantId
from pipeline.resources import Resources
from pipeline.tenants.usage import Purpose, UsageCounts

log = structlog.get_logger(__name__)

_NO_STEP = frozenset({"total", *(channel.value for channel in ChannelName)})


def measure_channel(query: Query, envelope: Envelope, elapsed_ms: float, meter: Meter) -> None:
    """Log and measure one channel, timeouts included: without them the slowest calls would be missing."""
    channel = envelope.channel.value
    log.info(
        "channel_answered",
        query_id=query.query_id,
        channel=channel,
        source=channel,
        status=envelope.status,
        code=envelope.code,
        hits=len(envelope.admitted),
        score=round(envelope.scores[0], 4) if envelope.scores else None,
        latency_ms=round(elapsed_ms, 2),
        config_version=query.config_version,
        **_request_fields(query),
    )
    meter.count("chordwise_channel_answers", channel=channel, status=envelope.status)
    meter.observe("chordwise_channel_seconds", elapsed_ms / 1000, channel=channel)
    meter.observe("recall_source_latency_ms", elapsed_ms, source=channel)
    if envelope.status == "ok":
        meter.observe("chordwise_channel_hits", len(envelope.admitted), channel=channel)
        guard = envelope.guard or {}
        if method := guard.get("method"):
            meter.count("chordwise_channel_methods", channel=channel, method=method)
    elif envelope.status == "timeout":
        meter.count("recall_timeout_count", source=channel)


def measure_answer(query: Query, answer: Answer, meter: Meter, *, by_tenant: bool = False) -> None:
    """Measure an answer. One from the answer cache counts only as a query, with its time."""
    stats = answer.stats
    meter.count("chordwise_queries", status=answer.status, degraded=str(stats.degraded).lower())
    total_ms = stats.latency_ms.get("total", 0.0)
    meter.observe("chordwise_query_seconds", total_ms / 1000, cached=str(stats.cached).lower())
    meter.observe("recall_total_latency_ms", total_ms)
    if by_tenant:
        meter.count("chordwise_tenant_queries", tenant=query.tenant_id)
    if stats.experiment_bucket is not None:
        meter.count("recall_experiment_bucket", bucket=stats.experiment_bucket)
        meter.count("recall_experiment_result", bucket=stats.experiment_bucket, outcome=outcome(answer))
        log.info("recall_experiment_result", **experiment_fields(query, answer))
    if stats.cached:
        return
    for step, elapsed_ms in stats.latency_ms.items():
        if step not in _NO_STEP:
            meter.observe("chordwise_query_step_seconds", elapsed_ms / 1000, step=step)
    meter.observe("chordwise_answer_chunks", len(answer.chunks))
    for chunk in answer.chunks:
        meter.count("chordwise_returned_chunks", channel=strongest(chunk.sources))
    if stats.rerank_lift is not None:
        meter.observe("chordwise_rerank_lift", stats.rerank_lift)
    if stats.degraded and answer.status == "succeeded":  # a failed query counts only as failed
        meter.count("recall_degrade_count")
    for lost in stats.degradations:
        meter.count("chordwise_degradations", part=lost.part, code=lost.code)
        if lost.code == "no_answer":  # a task that never came back has no envelope
            meter.count("recall_timeout_count", source=lost.part)


def log_answer(query: Query, answer: Answer, *, first: bool) -> None:
    """Log an answer. ``first`` is false for one that came after another."""
    log.info(
        "query_answered",
        query_id=query.query_id,
        first=first,
        chunks=len(answer.chunks),
        hits=dict(answer.stats.hits),
        **answer_fields(query, answer),
    )


def count_unsent(use: Resources) -> None:
    """Count a query that failed without a stored answer: a store or the broker did not accept it, or Redis lost it."""
    use.meter.count("chordwise_queries", status="failed", degraded="true")


def experiment_fields(query: Query, answer: Answer) -> dict[str, Any]:
    """Return the fields of ``recall_experiment_result``: the query's outcome in its arm, for comparing arms by the log."""
    best = answer.chunks[0] if answer.chunks else None
    return {
        "query_id": query.query_id,
        "outcome": outcome(answer),
        "chunks": len(answer.chunks),
        "confidence": None if best is None else best.confidence,
        "fallback": answer.stats.fallback,
        "rerank_lift": answer.stats.rerank_lift,
        **answer_fields(query, answer),
    }


def _request_fields(query: Query) -> dict[str, Any]:
    return {
        "trace_id": query.request_id,
        "request_id": query.request_id,
        "tenant_id": query.tenant_id,
        "session_id": query.session_id,
        "experiment_id": query.experiment_id,
    }


def answer_fields(query: Query, answer: Answer) -> dict[str, Any]:
    """Return the fields of ``query_answered``: ids, numbers and names, never text."""
    stats, best = answer.stats, answer.chunks[0] if answer.chunks else None
    return {
        **_request_fields(query),
        "experiment_bucket": stats.experiment_bucket,
        "status": answer.status,
        "source": None if best is None else strongest(best.sources),
        "score": None if best is None else round(best.score, 4),
        "source_share": dict(stats.source_share),
        "latency_ms": stats.latency_ms.get("total"),
        "degraded": stats.degraded,
        "degradations": [f"{lost.part}:{lost.code}" for lost in stats.degradations],
        "cached": stats.cached,
        "profile": stats.profile,
        "config_version": stats.config_version,
    }


def charge_model(tenant_id: TenantId, purpose: Purpose, use: Resources, sent: int, received: int) -> None:
    """Count one request with the tokens of its prompt and of its reply."""
    prices = use.settings
    cost = sent * prices.llm_input_price_per_million + received * prices.llm_output_price_per_million
    counts = UsageCounts(requests=1, texts=1, tokens=sent + received, cost=cost / 1_000_000)
    use.usage_book.note(tenant_id, purpose, prices.llm_model, counts, job_id=None)
    use.usage_book.write_soon()
