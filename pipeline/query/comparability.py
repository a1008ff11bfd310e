"""Whether hits can be compared: those of several namespaces only when they are read together."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pipeline.query.plan import Plan

_WHY: Final = "hits of several namespaces are comparable only when they are read together"


def comparable(plan: Plan, *, namespaces: int) -> tuple[Plan, tuple[str, ...]]:
    """The plan of a query in so many namespaces: with more than one, reranking stays on, the second time as well. With
    it what was asked for otherwise and refused, in words."""
    refused = []
    if namespaces > 1 and not plan.rerank.enabled:
        plan = replace(plan, rerank=replace(plan.rerank, enabled=True))
        refused.append(f"rerank stays on: {_WHY}")
    second = plan.retrieve.second
    if namespaces > 1 and second is not None and second.rerank is False:
        plan = replace(plan, retrieve=replace(plan.retrieve, second=replace(second, rerank=True)))
        refused.append(f"rerank stays on in a second retrieval: {_WHY}")
    return plan, tuple(refused)
