"""Decide how many fused hits must be read to be sure of the result."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.query.plan import Plan
from pipeline.query.request import QueryMoment
from pipeline.ranking.decay import decayed
from pipeline.ranking.dedupe import deduplicated
from pipeline.ranking.hits import Hit
from pipeline.ranking.selection import CHOICE, capped, grade_of


def needed(plan: Plan) -> int:
    """Return how many kept hits have to be read: those that may be returned, those that diversity chooses from, and
    those that reranking may lift."""
    choice = CHOICE if plan.retrieve.selection.diversity > 0 else 1
    return max(choice * plan.top_k, plan.rerank.top_n if plan.rerank.enabled else 0)


def counts_alone(plan: Plan) -> bool:
    """Return whether the first ``needed`` hits suffice: no rule drops or moves a hit because of its text."""
    retrieve, how = plan.retrieve, plan.retrieve.selection
    plain = how.dedupe == "chunk" and how.per_document is None and how.quality is None
    return plain and retrieve.time_decay is None and retrieve.ladder is None and not retrieve.score_threshold


def enough(read: Sequence[Hit], unread: float, plan: Plan, present: QueryMoment) -> bool:
    """Return whether the hits read so far determine the result. ``read``: the first hits of the fused order;
    ``unread``: the fused score of the next one, an upper bound of all later scores, because age only reduces a score.

    A ladder reads everything: similar hits may be anywhere in the order.
    """
    retrieve, how = plan.retrieve, plan.retrieve.selection
    if retrieve.ladder is not None:
        return False
    hits = decayed(read, retrieve.time_decay, present) if retrieve.time_decay is not None else list(read)
    hits, _ = deduplicated(hits, how.dedupe)
    hits = [hit for hit in hits if hit.confidence >= retrieve.score_threshold]
    near_tie = 0.0
    if how.quality is not None:
        if len(hits) <= how.quality.enough:
            return False
        near_tie = how.quality.near_tie * max(hit.score for hit in hits)
        worst = max(1, len(how.quality.grades) - 1)
        hits = [hit for hit in hits if grade_of(hit, how.quality) < worst]
    if how.per_document is not None:
        hits, _ = capped(hits, how.per_document)
    wanted = needed(plan)
    if len(hits) < wanted:
        return False
    last = hits[wanted - 1].score
    if how.quality is not None:  # a hit as good as the last may have a better grade
        return last - near_tie > unread
    return retrieve.time_decay is None or last >= unread
