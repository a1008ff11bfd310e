"""The key of a kept answer: whatever an answer depends on changes it, whatever it does not depend on does not."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis.strategies import dictionaries, integers, text

from chordwise.contract.tenant import AuditActor
from pipeline.filters.python_filters import HitCondition, HitConditions
from pipeline.query.keywords import Background
from pipeline.query.plan import ChannelPlan, ContextOptions, FallbackPlan, Plan, RetrievePlan
from pipeline.query.request import OriginalRequest, Query, Understanding
from pipeline.records import Caps, ChunkId, Filters, Namespace, QueryId, TenantId
from pipeline.retrieval.reuse_answer import NOT_IN_KEY, SETTLES_AFTER_S, cache_key, has_settled, is_cacheable

NOON = datetime(2026, 3, 1, 12, 30, tzinfo=UTC).timestamp()
KB, OTHER = Namespace("kb"), Namespace("other")
REVISIONS = {KB: "3", OTHER: "9"}


def asked(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "query_id": QueryId("q1"),
        "tenant_id": TenantId("a"),
        "request_id": "r1",
        "query_text": "green tea",
        "namespaces": (KB,),
        "created_at": NOON,
        "deadline_at": NOON + 3,
        **changes,
    }
    return Query(**given)


def key(query: Query, **changes: Any) -> str:
    return cache_key(query, **{"revisions": REVISIONS, "installation": "i", **changes})


# Another value for every field of a query. A new field needs a line here, and the decision whether it is asked.
OTHERS: dict[str, Any] = {
    "query_id": QueryId("q2"),
    "tenant_id": TenantId("b"),
    "request_id": "r2",
    "query_text": "Green tea",
    "background": Background(conversation=("We spoke of coffee.",)),
    "namespaces": (OTHER,),
    "principals": ("group:hr",),
    "top_k": 11,
    "plan": Plan(top_k=11),
    "experiment_bucket": "b",
    "remarks": ("no",),
    "understanding": Understanding(keywords=("tea",)),
    "filters": Filters(tags=("a",)),
    "conditions": HitConditions(each=(HitCondition(names=("a",), operator="is", texts=("b",)),)),
    "created_at": NOON + 1,
    "deadline_at": NOON + 4,
    "profile": "novel",
    "config_version": 2,
    "session_id": "s",
    "experiment_id": "e",
    "trace": True,
    "embedding_space": 2,
    "asked_by": AuditActor(key_id="k"),
    "model_steps": ("expand",),
    "cache_key": "x",
    "stamps": {KB: "7"},
    "rules_known": False,
    "missing_namespaces": (OTHER,),
    "exclude": (ChunkId("c"),),
    "before_routing": OriginalRequest(plan=Plan()),
    "caps": Caps(per_document=1),
}


class DescribeTheKey:
    @pytest.mark.parametrize("name", [each.name for each in fields(Query)])
    def it_moves_with_every_field_that_is_asked_and_with_no_other(self, name: str):
        other = replace(asked(), **{name: OTHERS[name]})
        assert (key(other) == key(asked())) is (name in NOT_IN_KEY)

    @pytest.mark.parametrize(
        "plan", [Plan(context=ContextOptions()), Plan(highlight=True)], ids=["context", "highlight"]
    )
    def it_moves_with_the_parts_that_an_answer_has_on_request(self, plan: Plan):
        assert key(asked(plan=plan)) != key(asked())

    def it_moves_with_the_revision_of_a_namespace_the_query_names(self):
        assert key(asked(), revisions={**REVISIONS, KB: "4"}) != key(asked())
        assert key(asked(), revisions={**REVISIONS, OTHER: "10"}) == key(asked())

    @pytest.mark.parametrize(
        "plan",
        [
            Plan(retrieve=RetrievePlan(channels={"faq": ChannelPlan(options={"namespaces": ["other"]})})),
            # Asked by the last resort whatever the method is.
            Plan(
                retrieve=RetrievePlan(
                    method="full_text", channels={"faq": ChannelPlan(weight=0, options={"namespaces": ["other"]})}
                )
            ),
            Plan(fallback=FallbackPlan(faq=True, namespaces=("other",))),
        ],
        ids=["faq", "faq as the last resort", "fallback"],
    )
    def it_moves_with_the_revision_of_a_namespace_the_plan_names(self, plan: Plan):
        query = asked(plan=plan)
        assert query.namespaces_depended_on == (KB, OTHER)
        assert key(query, revisions={**REVISIONS, OTHER: "10"}) != key(query)

    def it_moves_with_the_installation_and_with_the_hour(self):
        assert key(asked(), installation="j") != key(asked())
        assert key(asked(created_at=NOON + 3600)) != key(asked())

    @settings(max_examples=30)
    @given(dictionaries(text(max_size=5), integers() | text(max_size=5), min_size=1, max_size=4))
    def it_does_not_depend_on_the_order_of_a_mapping(self, metadata: dict[str, Any]):
        backwards = dict(reversed(metadata.items()))
        one, other = asked(filters=Filters(metadata=metadata)), asked(filters=Filters(metadata=backwards))
        assert key(one) == key(other) != key(asked())


class DescribeWhatRevisionsTell:
    @pytest.mark.parametrize(
        ("channels", "tells"),
        [
            ({"keyword": 1.0, "semantic": 1.0, "faq": 1.0}, True),
            ({"keyword": 1.0, "api": 0.1}, False),
            ({"keyword": 1.0, "api": 0.0}, True),
        ],
    )
    def it_is_nothing_of_what_an_api_says(self, channels: dict[str, float], tells: bool):
        plan = {name: ChannelPlan(weight=weight) for name, weight in channels.items()}
        assert is_cacheable(asked(plan=Plan(retrieve=RetrievePlan(channels=plan)))) is tells

    def it_counts_what_only_a_second_retrieval_would_ask(self):
        channels = {"keyword": ChannelPlan(), "api": ChannelPlan()}
        assert not is_cacheable(asked(plan=Plan(retrieve=RetrievePlan(method="full_text", channels=channels))))


class DescribeSettling:
    @pytest.mark.parametrize(
        ("seconds", "settled"), [(0.0, False), (SETTLES_AFTER_S - 0.1, False), (SETTLES_AFTER_S + 0.1, True)]
    )
    def it_waits_until_no_query_can_see_what_was_before(self, seconds: float, settled: bool):
        revised_at = datetime.fromtimestamp(NOON, UTC) - timedelta(seconds=seconds)
        assert has_settled(asked(), revised_at) is settled

    def it_trusts_a_namespace_that_never_changed(self):
        assert has_settled(asked(), None)
