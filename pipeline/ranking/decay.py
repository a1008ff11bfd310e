"""Reduce hits' scores by age."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from pipeline.query.plan import DecayPlan
from pipeline.query.request import QueryMoment
from pipeline.ranking.hits import Hit, Hydrated

_DAY_S = 86_400.0


def decayed(hits: Sequence[Hit], plan: DecayPlan, present: QueryMoment) -> list[Hit]:
    """Multiply scores by what age leaves, best first, ties in order; a hit without an age keeps its score."""
    aged = []
    for hit in hits:
        age = age_of(hit.passage, plan, present)
        if age is None:
            aged.append(hit)
        else:
            left = remaining(age, plan)
            aged.append(replace(hit, score=hit.score * left, decay=left))
    return sorted(aged, key=lambda hit: -hit.score)


def age_of(passage: Hydrated, plan: DecayPlan, present: QueryMoment) -> float | None:
    """Return the age of a passage in seconds, or in the story's own unit; negative in the future, None without a date."""
    if plan.by == "story_time":
        has_both = passage.story_time is not None and present.story_time is not None
        return float(present.story_time - passage.story_time) if has_both else None  # type: ignore[operator]  # both known
    moment = passage.published_at if plan.by == "published_at" else passage.updated_at
    if moment is None:
        return None
    return (present.at - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()


def remaining(age: float, plan: DecayPlan) -> float:
    """Return the share of a score that remains at ``age``: 1 for age 0 and in the future, never below ``plan.floor``.

    ``half_life``: ``0.5 ** (days / half_life_days)``; ``hyperbolic``: ``1 / (1 + age / scale)``; ``window``: 1 up to an
    age of ``scale``, ``floor`` beyond it.
    """
    if age <= 0:
        return 1.0
    if plan.shape == "half_life":
        left = math.exp2(-age / _DAY_S / plan.half_life_days)
    elif plan.shape == "hyperbolic":
        left = 1.0 / (1.0 + age / plan.scale)
    else:
        left = 1.0 if age <= plan.scale else 0.0
    return max(plan.floor, left)
