"""Hits of several namespaces are read together, whatever was asked for."""

from __future__ import annotations

import pytest

from pipeline.query.plan import Plan, RerankPlan, RetrievePlan, SecondRetrievalPlan, comparable
from pipeline.retrieval.retry_poor import changes_of

OFF = RerankPlan(enabled=False)
TWICE = RetrievePlan(second=SecondRetrievalPlan(min_hits=5, rerank=False))


class DescribeSeveralNamespaces:
    def it_keeps_reranking_on_and_says_so(self):
        plan, refused = comparable(Plan(rerank=OFF), namespaces=2)
        assert plan == Plan()
        assert [each.partition(":")[0] for each in refused] == ["rerank stays on"]

    def it_keeps_it_on_the_second_time(self):
        plan, refused = comparable(Plan(retrieve=TWICE), namespaces=2)
        assert changes_of(plan, expanded=False) == {}
        assert [each.partition(":")[0] for each in refused] == ["rerank stays on in a second retrieval"]

    def it_says_nothing_where_nothing_else_was_asked_for(self):
        assert comparable(Plan(), namespaces=2) == (Plan(), ())

    @pytest.mark.parametrize("plan", [Plan(rerank=OFF), Plan(retrieve=TWICE)])
    def it_leaves_one_namespace_as_it_is(self, plan: Plan):
        assert comparable(plan, namespaces=1) == (plan, ())
