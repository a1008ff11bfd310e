"""Store the trace of a query beside its answer, and read it back."""

from __future__ import annotations

import zlib
from typing import Any

import orjson

from pipeline.answer.result import Answer
from pipeline.answer.trace import trace_of
from pipeline.records import QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal


def packed_trace(arrived: Arrived, answer: Answer, journal: Journal) -> bytes | None:
    """Return the compressed trace of a query that requested one; None for any other query."""
    if not journal.tracing:
        return None
    return zlib.compress(orjson.dumps(trace_from(arrived, answer, journal), option=orjson.OPT_NON_STR_KEYS), 1)


def trace_from(arrived: Arrived, answer: Answer, journal: Journal) -> dict[str, Any]:
    """Return the trace of a composition that was made with a tracing journal."""
    return trace_of(
        arrived.query,
        answer,
        envelopes=journal.asked_again or arrived.envelopes,
        orders=journal.orders,
        drops=journal.drops,
        rerank_weight=journal.rerank_weight,
        lane=arrived.lane,
    )


def trace_of_query(tenant_id: TenantId, query_id: QueryId, use: Resources) -> dict[str, Any] | None:
    """Return the stored trace of an answered query, None if it has none. Raises StoreUnavailable."""
    packed = use.queries(tenant_id).field(query_id, "trace")
    return None if packed is None else orjson.loads(zlib.decompress(packed))
