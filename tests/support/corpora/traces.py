"""Traces of runs that never were, for tests of what is told of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.records import Filters, Namespace, QueryId, TenantId


def query(*, filters: Filters | None = None, channels: Mapping[str, ChannelPlan] | None = None) -> Query:
    """A query in the namespace ``n`` that asks these channels."""
    asked = {"keyword": ChannelPlan(), "semantic": ChannelPlan()} if channels is None else dict(channels)
    return Query(
        query_id=QueryId("q"),
        tenant_id=TenantId("t"),
        request_id="r",
        query_text="what was asked",
        namespaces=(Namespace("n"),),
        filters=filters or Filters(),
        plan=Plan(retrieve=RetrievePlan(channels=asked)),
        created_at=0.0,
        deadline_at=1.0,
    )


def channel(hits: Mapping[str, float] | None = None, *, status: str = "ok", pool: int = 2) -> dict[str, Any]:
    """What one channel said."""
    ranked = enumerate((hits or {}).items(), start=1)
    return {
        "status": status,
        "pool": pool,
        "hits": [{"rank": rank, "chunk_id": chunk_id, "score": score} for rank, (chunk_id, score) in ranked],
    }


def trace(
    *,
    returned: Sequence[str] = (),
    drops: Sequence[tuple[str, str, str, float | None, float | None]] = (),
    lost: Sequence[str] = (),
    **channels: Mapping[str, Any],
) -> dict[str, Any]:
    """A run. ``drops``: chunk, stage, reason, value, limit."""
    names = ("chunk_id", "stage", "reason", "value", "limit")
    return {
        "returned": list(returned),
        "drops": [dict(zip(names, drop, strict=True)) for drop in drops],
        "degradations": [{"part": part, "code": "gone", "detail": "gone"} for part in lost],
        "channels": channels,
    }
