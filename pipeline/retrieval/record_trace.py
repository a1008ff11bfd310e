"""Store the traces of queries that request one, keep those of queries that call for a look, and read both back."""

from __future__ import annotations

import zlib
from typing import Any, Final

import orjson
import structlog

from pipeline.answer.result import Answer, outcome
from pipeline.answer.trace import timeline, trace_of
from pipeline.errors import Unavailable
from pipeline.query.request import Query
from pipeline.query.trace_entry import TraceEntry, TraceFilter, TraceMark
from pipeline.records import QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal

log = structlog.get_logger(__name__)

_TEXT_SHOWN: Final = 300  # characters of a question in the list


def may_keep(query: Query, use: Resources) -> bool:
    """Return whether a trace of the query may be needed, so that its composition is recorded."""
    return query.trace or use.settings.traces_kept > 0


def packed_trace(arrived: Arrived, answer: Answer, journal: Journal) -> bytes:
    """Return the compressed trace of a composition that was made with a tracing journal."""
    return zlib.compress(orjson.dumps(trace_from(arrived, answer, journal), option=orjson.OPT_NON_STR_KEYS), 1)


def keep_trace(arrived: Arrived, answer: Answer, journal: Journal, use: Resources) -> None:
    """Keep the trace of an answered query if it is slow, degraded, failed or empty, if it was requested, or if it is in
    the sample. Called after the answer is stored, so that no caller waits for it. Never raises for a dependency."""
    query, settings = arrived.query, use.settings
    if not settings.traces_kept:
        return
    marks = marks_of(query, answer, slow_ms=settings.trace_slow_ms, sample_percent=settings.trace_sample_percent)
    if not marks:
        return
    entry = TraceEntry(
        query_id=query.query_id,
        asked_at=round(query.created_at, 6),  # as a cursor has it
        text=query.query_text[:_TEXT_SHOWN],
        namespaces=query.namespaces,
        profile=query.profile,
        marks=marks,
        total_ms=answer.stats.latency_ms["total"],
        chunks=len(answer.chunks),
    )
    try:
        trace = b"" if query.trace else packed_trace(arrived, answer, journal)
        use.traces(query.tenant_id).keep(entry, query, trace)
    except Unavailable as error:
        log.warning("trace_not_kept", query_id=query.query_id, code=error.code)


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


def trace_from(arrived: Arrived, answer: Answer, journal: Journal) -> dict[str, Any]:
    """Return the trace of a composition that was made with a tracing journal."""
    query = arrived.query
    return trace_of(
        query,
        answer,
        envelopes=journal.asked_again or arrived.envelopes,
        orders=journal.orders,
        drops=journal.drops,
        rerank_weight=journal.rerank_weight,
        lane=arrived.lane,
        timeline=timeline(
            query.created_at,
            opened_at=arrived.opened_at,
            ran=arrived.ran,
            elapsed_ms=arrived.elapsed_ms,
            composed_at=journal.began_at,
            steps=journal.steps,
            calls=journal.calls,
            total_ms=answer.stats.latency_ms["total"],
        ),
    )


def trace_of_query(tenant_id: TenantId, query_id: QueryId, use: Resources) -> dict[str, Any] | None:
    """Return the stored trace of an answered query, None if it has none. Raises StoreUnavailable."""
    packed = use.traces(tenant_id).trace(query_id)
    return None if packed is None else orjson.loads(zlib.decompress(packed))


def list_traces(
    tenant_id: TenantId, chosen: TraceFilter, before: tuple[float, str] | None, limit: int, use: Resources
) -> list[TraceEntry]:
    """Return the kept traces older than the (asked_at, query_id) cursor, newest first."""
    return use.traces(tenant_id).page(chosen, before=before, limit=limit)


def _is_sampled(query_id: QueryId, percent: float) -> bool:
    """Return whether a query is in the sample; its id, which is random, decides alone."""
    return zlib.crc32(query_id.encode()) < percent / 100 * 2**32
