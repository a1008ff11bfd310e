"""Plans for tests of selection, and the time at which they happen."""

from __future__ import annotations

from datetime import UTC, datetime

from pipeline.query.plan import DecayPlan, Plan, RerankPlan, RetrievePlan, SelectionPlan

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def plan(top_k: int = 10, *, threshold: float = 0.0, decay: DecayPlan | None = None, **selection) -> Plan:
    retrieve = RetrievePlan(score_threshold=threshold, time_decay=decay, selection=SelectionPlan(**selection))
    return Plan(top_k=top_k, retrieve=retrieve, rerank=RerankPlan(enabled=False))
