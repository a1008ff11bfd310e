"""Which of the ordered hits are returned."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.core.hits import Drop, Hit
from pipeline.core.plan import Plan
from pipeline.flows.journal import Journal


def selected(hits: Sequence[Hit], plan: Plan, journal: Journal) -> list[Hit]:
    """Up to ``top_k`` hits that reach the threshold. Every one that is left out is noted with its number."""
    limit = plan.retrieve.score_threshold
    kept = [hit for hit in hits if hit.score >= limit]
    journal.dropped(
        Drop(chunk_id=hit.chunk_id, stage="threshold", reason="below_score_threshold", value=hit.score, limit=limit)
        for hit in hits
        if hit.score < limit
    )
    journal.dropped(
        Drop(chunk_id=hit.chunk_id, stage="select", reason="beyond_top_k", value=place, limit=plan.top_k)
        for place, hit in enumerate(kept, start=1)
        if place > plan.top_k
    )
    return kept[: plan.top_k]
