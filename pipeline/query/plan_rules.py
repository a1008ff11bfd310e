"""Rules between the parts of a plan, beyond those of each part by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pipeline.query.plan import Plan, RetrievePlan, SecondRetrievalPlan

CONDITIONS = ("min_hits", "min_score", "min_documents")
_WHY_RERANKED: Final = "hits of several namespaces are comparable only when they are read together"
CHANGES = ("score_threshold", "pool", "method", "expand", "rerank")


def contradictions(plan: Plan) -> list[tuple[str, str]]:
    """Return the contradictions in a plan as JSON pointers with messages."""
    return [*_of_retrieval(plan.retrieve), *_of_second(plan.retrieve.second)]


def _of_retrieval(retrieve: RetrievePlan) -> list[tuple[str, str]]:
    flaws = []
    if retrieve.ladder is not None and any(low >= high for high, low in pairwise(retrieve.ladder.thresholds)):
        flaws.append(("/retrieve/ladder/thresholds", "must each be lower than the one before"))
    decay = retrieve.time_decay
    if decay is not None and decay.by == "story_time" and decay.shape == "half_life":
        flaws.append(("/retrieve/time_decay/shape", "half_life counts days, which a story has none of; use hyperbolic"))
    quality = retrieve.selection.quality
    if quality is not None and len(set(quality.grades)) < max(1, len(quality.grades)):
        flaws.append(("/retrieve/selection/quality/grades", "names a grade twice"))
    return flaws


def _of_second(second: SecondRetrievalPlan | None) -> list[tuple[str, str]]:
    if second is None:
        return []
    when = [name for name in CONDITIONS if getattr(second, name) is not None]
    what = [name for name in CHANGES if getattr(second, name) is not None]
    if when and what:
        return []
    missing = []
    if not when:
        missing.append(f"when a result is poor ({', '.join(CONDITIONS)})")
    if not what:
        missing.append(f"what is done differently then ({', '.join(CHANGES)})")
    return [("/retrieve/second", f"does not say {' nor '.join(missing)}")]


def comparable(plan: Plan, *, namespaces: int) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan for a query in ``namespaces`` namespaces, and the refused settings in words: with more than one,
    reranking stays on, in a second retrieval too."""
    refused = []
    if namespaces > 1 and not plan.rerank.enabled:
        plan = replace(plan, rerank=replace(plan.rerank, enabled=True))
        refused.append(f"rerank stays on: {_WHY_RERANKED}")
    second = plan.retrieve.second
    if namespaces > 1 and second is not None and second.rerank is False:
        plan = replace(plan, retrieve=replace(plan.retrieve, second=replace(second, rerank=True)))
        refused.append(f"rerank stays on in a second retrieval: {_WHY_RERANKED}")
    return plan, tuple(refused)
