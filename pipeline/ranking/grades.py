"""Somebody has graded the documents: what is known to be good goes first, what is known to be poor is spared if it can be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pipeline.query.plan import QualityPlan
from pipeline.ranking.hits import Drop, Hit

_NEVER = datetime.min.replace(tzinfo=UTC)


def grade_of(hit: Hit, plan: QualityPlan) -> int:
    """The place of its grade, 0 for the best. What has none, or one that is not on the list, counts as the worst."""
    said = hit.passage.metadata.get(plan.key)
    return plan.grades.index(said) if said in plan.grades else max(0, len(plan.grades) - 1)


def graded(hits: Sequence[Hit], plan: QualityPlan) -> tuple[list[Hit], list[Drop]]:
    """The hits without those of the worst grade, when there are more than ``enough`` of all grades and another is left.
    Then those that stay, with near-ties in order of grade.
    """
    kept, dropped = list(hits), []
    worst = len(plan.grades) - 1
    if len(hits) > plan.enough and worst > 0:
        better = [hit for hit in hits if grade_of(hit, plan) < worst]
        if better:
            kept = better
            dropped = [
                Drop(chunk_id=hit.chunk_id, stage="quality", reason="worst_grade", value=len(hits), limit=plan.enough)
                for hit in hits
                if grade_of(hit, plan) == worst
            ]
    return _near_ties(kept, plan), dropped


def _near_ties(hits: Sequence[Hit], plan: QualityPlan) -> list[Hit]:
    """Walk down the order: whoever is less than ``near_tie`` of the best score behind the first of a group is in it.
    Inside a group the better grade goes first, then the newer document, then who was first."""
    span = plan.near_tie * max((hit.score for hit in hits), default=0.0)
    ordered: list[Hit] = []
    group: list[Hit] = []
    for hit in hits:
        if group and group[0].score - hit.score >= span and hit.score < group[0].score:
            ordered += _by_grade(group, plan)
            group = []
        group.append(hit)
    return ordered + _by_grade(group, plan)


def _by_grade(group: Sequence[Hit], plan: QualityPlan) -> list[Hit]:
    newest_first = sorted(group, key=_moment, reverse=True)  # sorting is stable in reverse as well
    return sorted(newest_first, key=lambda hit: grade_of(hit, plan))


def _moment(hit: Hit) -> datetime:
    moment = hit.passage.updated_at or hit.passage.published_at or _NEVER
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
