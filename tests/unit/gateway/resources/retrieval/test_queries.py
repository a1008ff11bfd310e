"""Queries on the wire: every default is resolved, every field is checked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from api_gateway.http.bodies import Decoded
from api_gateway.http.problems import Problem
from api_gateway.resources.retrieval.query_body import to_query
from pipeline.query.plan import ContextOptions, DecayPlan
from pipeline.records import ChannelName, Filters, TenantId
from pipeline.settings import load

SETTINGS = load({"recall_source_weights": {"keyword": 0.7, "semantic": 0.3}, "query_deadline_ms": 2500})
KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC


def query(settings=SETTINGS, **fields):
    body = {"query_text": "pumps", "namespaces": ["kb"], **fields}
    return to_query(Decoded(body), tenant_id=TenantId("acme"), request_id="r-1", use=settings)


def weights(found):
    return {name: channel.weight for name, channel in found.plan.channels.items()}


def strategy(found):
    return found.plan.retrieve.fusion.strategy


class DescribeAQuery:
    def it_needs_a_text_and_a_namespace_and_gets_the_rest_from_the_settings(self):
        found = query()
        assert (found.query_text, found.namespaces, found.tenant_id, found.request_id) == (
            "pumps",
            ("kb",),
            "acme",
            "r-1",
        )
        fusion = found.plan.retrieve.fusion
        assert (found.top_k, found.pool_of(KEYWORD), fusion.strategy, fusion.k) == (10, 100, "weighted", 60)
        assert found.channels == (KEYWORD, SEMANTIC)
        assert weights(found) == {KEYWORD: 0.7, SEMANTIC: 0.3}
        assert found.deadline_at - found.created_at == pytest.approx(2.5)
        assert (found.plan.understand.enabled, found.plan.rerank.enabled, found.trace) == (True, False, False)
        assert (found.filters, found.plan.context, found.plan.highlight) == (Filters(), None, False)

    def it_carries_everything_the_contract_names(self):
        found = query(
            tenant_id="acme",
            top_k=200,
            filters={
                "type": "manual",
                "tags": ["a"],
                "author": "A",
                "start": "2026-01-01T00:00:00Z",
                "end": "2026-02-01T00:00:00Z",
                "metadata": {"k": "v"},
            },
            enable_expand=False,
            enable_rerank=False,
            profile="default",
            retrieve={
                "method": "hybrid",
                "score_threshold": 0.25,
                "channels": {"keyword": {"weight": 2}},
                "fusion": {"strategy": "rrf", "k": 0},
                "time_decay": {"half_life_days": 30},
            },
            story_time=1200,
            context={"format": "text", "max_tokens": 500, "window": 1, "parents": True},
            highlight=True,
            session_id="s",
            experiment_id="e",
            trace=True,
        )
        assert found.filters == Filters(
            type="manual",
            tags=("a",),
            author="A",
            start=datetime(2026, 1, 1, tzinfo=UTC),
            end=datetime(2026, 2, 1, tzinfo=UTC),
            metadata={"k": "v"},
            story_time=1200,
        )
        retrieve = found.plan.retrieve
        assert (found.top_k, found.pool_of(SEMANTIC), retrieve.score_threshold) == (200, 200, 0.25)
        assert (found.plan.understand.enabled, found.plan.rerank.enabled, found.trace) == (False, False, True)
        assert (retrieve.fusion.strategy, retrieve.fusion.k) == ("rrf", 0)
        assert weights(found) == {KEYWORD: 2.0, SEMANTIC: 1.0}
        assert retrieve.time_decay == DecayPlan(half_life_days=30)
        assert found.plan.context == ContextOptions(format="text", max_tokens=500, window=1, parents=True)
        assert found.plan.highlight
        assert (found.session_id, found.experiment_id) == ("s", "e")

    @pytest.mark.parametrize(
        ("fields", "context"),
        [
            ({}, None),
            ({"context": {}}, ContextOptions()),
            ({"profile": "knowledge"}, ContextOptions(parents=True)),
            ({"profile": "knowledge", "context": {}}, ContextOptions(parents=True)),
            ({"profile": "knowledge", "context": {"max_tokens": 500}}, ContextOptions(parents=True, max_tokens=500)),
        ],
    )
    def it_has_a_context_if_request_or_profile_asks_for_one(self, fields, context):
        assert query(**fields).plan.context == context

    def it_takes_null_for_absent(self):
        names = (
            "top_k", "filters", "retrieve", "context", "highlight", "profile", "story_time", "trace", "session_id", "tenant_id"
        )  # fmt: skip
        assert query(**dict.fromkeys(names)).top_k == 10

    def it_reranks_hits_of_several_namespaces_whatever_it_says(self):
        found = query(namespaces=["a", "b"], enable_rerank=False)
        assert found.plan.rerank.enabled
        assert found.remarks[0].startswith("rerank stays on")
        assert query(namespaces=["a", "a"], enable_rerank=False).remarks == ()

    def it_names_a_namespace_once(self):
        assert query(namespaces=["b", "a", "b"]).namespaces == ("b", "a")

    @pytest.mark.parametrize(
        ("retrieve", "expected"),
        [
            ({"method": "full_text"}, {KEYWORD: 0.7}),
            ({"method": "semantic"}, {SEMANTIC: 0.3}),
            ({"channels": {"semantic": {"weight": 0}}}, {KEYWORD: 0.7}),
            ({"channels": {"semantic": {}}}, {KEYWORD: 0.7, SEMANTIC: 0.3}),
            ({"fusion": {"strategy": "rrf"}}, {KEYWORD: 1.0, SEMANTIC: 1.0}),
            ({"method": "semantic", "channels": {"keyword": {"weight": 5}}}, {SEMANTIC: 0.3}),
            ({"channels": {"faq": {}}}, {KEYWORD: 0.7, SEMANTIC: 0.3, ChannelName.FAQ: 0.1}),
            ({"channels": {"api": {"weight": 0.5}}}, {KEYWORD: 0.7, SEMANTIC: 0.3, ChannelName.API: 0.5}),
        ],
    )
    def it_asks_the_channels_that_can_have_a_say(self, retrieve, expected):
        found = query(retrieve=retrieve)
        assert weights(found) == expected
        assert found.channels == tuple(expected)

    @pytest.mark.parametrize(
        ("semantic", "least", "per_namespace"),
        [
            ({}, None, None),
            ({"min_score": 0.7}, 0.7, None),
            ({"min_score": 0}, 0.0, None),
            ({"options": {"per_namespace": 5}}, None, 5),
        ],
    )
    def it_bounds_what_is_recalled_by_meaning(self, semantic, least, per_namespace):
        found = query(load(), retrieve={"channels": {"semantic": semantic}})
        channel = found.plan.channels[SEMANTIC]
        assert (channel.min_score, channel.options.get("per_namespace")) == (least, per_namespace)

    def it_asks_only_channels_that_the_installation_has(self):
        assert query(load({"recall_sources": ["semantic"]})).channels == (SEMANTIC,)

    def it_fuses_as_configured_unless_told_otherwise(self):
        assert strategy(query(load({"recall_merge_strategy": "rrf"}))) == "rrf"
        assert (
            strategy(query(load({"recall_merge_strategy": "rrf"}), retrieve={"fusion": {"strategy": "weighted"}}))
            == "weighted"
        )


class DescribeABadQuery:
    def it_may_name_a_profile_that_does_not_exist(self):
        with pytest.raises(Problem) as refused:
            query(profile="fast")
        assert (refused.value.status, refused.value.code) == (404, "profile_not_found")
