"""The thinking behind a second retrieval: when, what is different, and how both become one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.query.plan import (
    ChannelPlan,
    Plan,
    PlanFlaw,
    RerankPlan,
    RetrievePlan,
    SecondRetrievalPlan,
    UnderstandPlan,
    read_plan,
)
from pipeline.query.request import Envelope, SuppliedPassage
from pipeline.records import ChannelName
from pipeline.retrieval.retry_poor import changed, changes_of, merged, shortcomings
from tests.support.corpora.hits import hit

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC
BOTH = {"keyword": ChannelPlan(pool=100), "semantic": ChannelPlan(pool=50)}


def plan(second: SecondRetrievalPlan | None, *, top_k: int = 10, rerank: bool = True, **retrieve) -> Plan:
    retrieve = {"channels": BOTH, **retrieve}
    return Plan(top_k=top_k, retrieve=RetrievePlan(second=second, **retrieve), rerank=RerankPlan(enabled=rerank))


class DescribeShortcomings:
    HITS = (hit("a", 0.5, document="x"), hit("b", 0.3, document="x"), hit("c", 0.1, document="y"))

    @pytest.mark.parametrize(
        ("second", "found"),
        [
            (SecondRetrievalPlan(min_hits=3), []),
            (SecondRetrievalPlan(min_hits=4), ["min_hits: 3 of 4"]),
            (SecondRetrievalPlan(min_documents=2), []),
            (SecondRetrievalPlan(min_documents=3), ["min_documents: 2 of 3"]),
            (SecondRetrievalPlan(min_score=0.5), []),
            (SecondRetrievalPlan(min_score=0.6), ["min_score: 0.5000 of 0.6"]),
            (SecondRetrievalPlan(min_hits=9, min_score=0.9), ["min_hits: 3 of 9", "min_score: 0.5000 of 0.9"]),
            (None, []),
        ],
    )
    def it_names_each_condition_that_is_not_met(self, second, found):
        assert shortcomings(self.HITS, plan(second)) == found

    def it_asks_for_no_more_than_are_returned(self):
        assert shortcomings(self.HITS, plan(SecondRetrievalPlan(min_hits=5, min_documents=4), top_k=2)) == []

    def it_finds_an_empty_result_poor(self):
        assert shortcomings([], plan(SecondRetrievalPlan(min_score=0.1))) == ["min_score: 0.0000 of 0.1"]


class DescribeChanges:
    @pytest.mark.parametrize(
        ("second", "first", "changes"),
        [
            (SecondRetrievalPlan(score_threshold=0.1), {"score_threshold": 0.5}, {"score_threshold": 0.1}),
            (SecondRetrievalPlan(score_threshold=0.6), {"score_threshold": 0.5}, {}),  # relaxing never tightens
            (SecondRetrievalPlan(pool=300), {}, {"pool": 300}),
            (SecondRetrievalPlan(pool=80), {}, {"pool": 80}),  # one of the channels had less
            (SecondRetrievalPlan(pool=50), {}, {}),
            (SecondRetrievalPlan(pool=50), {"allocation": "balanced"}, {"pool": 50}),
            (SecondRetrievalPlan(method="hybrid"), {"method": "full_text"}, {"method": "hybrid"}),
            (SecondRetrievalPlan(method="hybrid"), {}, {}),
            (SecondRetrievalPlan(rerank=False), {}, {"rerank": False}),
            (SecondRetrievalPlan(rerank=True), {}, {}),
            (SecondRetrievalPlan(expand=True), {}, {"expand": True}),
            (SecondRetrievalPlan(expand=False), {}, {}),
        ],
    )
    def it_holds_what_would_be_different(self, second, first, changes):
        assert changes_of(plan(second, **first), expanded=False) == changes

    def it_wants_back_the_channel_that_a_route_left_out(self):
        routed, second = {"keyword": BOTH["keyword"]}, SecondRetrievalPlan(min_hits=1, method="hybrid")
        first, unrouted = plan(second, channels=routed), plan(second)
        assert changes_of(first, expanded=False, unrouted=unrouted) == {"method": "hybrid"}
        assert changes_of(first, expanded=False) == {}
        again = changed(first, {"method": "hybrid"}, unrouted=unrouted)
        assert again.channels == BOTH
        assert again.understand.router == "off"

    def it_expands_a_query_once(self):
        assert changes_of(plan(SecondRetrievalPlan(expand=True)), expanded=True) == {}


class DescribeTheSecondPlan:
    def it_takes_the_changes_and_knows_no_third_time(self):
        first = plan(SecondRetrievalPlan(min_hits=1, pool=80), score_threshold=0.5)
        again = changed(first, {"pool": 80, "score_threshold": 0.1, "rerank": False})
        assert {name: channel.pool for name, channel in again.channels.items()} == {KEYWORD: 100, SEMANTIC: 80}
        assert (again.retrieve.score_threshold, again.rerank.enabled, again.retrieve.second) == (0.1, False, None)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (UnderstandPlan(expand=2), UnderstandPlan(expand=2)),
            (UnderstandPlan(expand=0), UnderstandPlan()),
            (UnderstandPlan(enabled=False, expand=0), UnderstandPlan()),
        ],
    )
    def it_expands_where_the_first_time_was_not_to(self, before, after):
        assert changed(replace(plan(None), understand=before), {"expand": True}).understand == after

    @pytest.mark.parametrize(
        ("before", "after", "channels"),
        [
            ("full_text", "hybrid", {KEYWORD, SEMANTIC}),
            ("full_text", "semantic", {KEYWORD, SEMANTIC}),  # the first retrieval's channels stay
            ("semantic", "semantic", {SEMANTIC}),
            ("hybrid", "full_text", {KEYWORD, SEMANTIC}),
        ],
    )
    def it_asks_the_channels_of_both_methods(self, before, after, channels):
        assert set(changed(plan(None, method=before), {"method": after}).channels) == channels

    def it_does_not_bring_in_channels_of_neither_method(self):
        channels = {**BOTH, "faq": ChannelPlan()}
        again = changed(plan(None, method="full_text", channels=channels), {"method": "semantic"})
        assert set(again.channels) == {KEYWORD, SEMANTIC}


class DescribeAnIncompleteSecondRetrieval:
    @pytest.mark.parametrize(
        ("second", "missing"),
        [
            (
                {"min_hits": 3},
                "does not say what is done differently then .score_threshold, pool, method, expand, rerank",
            ),
            ({"pool": 300}, "does not say when a result is poor .min_hits, min_score, min_documents"),
            ({}, "does not say when a result is poor .* nor what is done differently"),
        ],
    )
    def it_is_refused_with_what_is_missing(self, second, missing):
        with pytest.raises(PlanFlaw, match=missing) as refused:
            read_plan({"retrieve": {"second": second}})
        assert refused.value.flaws[0][0] == "/retrieve/second"

    def it_may_be_put_together_from_a_profile_and_a_request(self):
        found = read_plan({"retrieve": {"second": {"min_hits": 3}}}, {"retrieve": {"second": {"pool": 300}}})
        assert found.retrieve.second == SecondRetrievalPlan(min_hits=3, pool=300)


scored = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 10), max_size=5)


def envelope(scores: dict[str, float], *, bound: float | None = 10.0, status="ok") -> Envelope:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return Envelope(
        channel=KEYWORD,
        status=status,
        chunk_ids=tuple(name for name, _ in ordered),
        scores=tuple(score for _, score in ordered),
        upper_bound=bound,
        supplied=tuple(
            SuppliedPassage(chunk_id=name, document_id=name, namespace="n", title=None, text=name)
            for name, _ in ordered[:1]
        ),
    )


class DescribeMergedEnvelopes:
    def it_takes_the_best_score_of_each_chunk(self):
        both = merged(envelope({"a": 5, "b": 3}, bound=8.0), envelope({"b": 4, "c": 1}, bound=None))
        assert (both.chunk_ids, both.scores, both.upper_bound) == (("a", "b", "c"), (5, 4, 1), 8.0)
        assert {each.chunk_id for each in both.supplied} == {"a", "b"}

    def it_keeps_the_one_that_worked(self):
        good, bad = envelope({"a": 5}), envelope({}, status="failed")
        assert merged(good, bad) == merged(bad, good) == merged(None, good) == good

    @settings(max_examples=30)
    @given(scored, scored)
    def it_loses_nothing_and_is_ordered(self, one, other):
        both = merged(envelope(one), envelope(other))
        assert set(both.chunk_ids) == one.keys() | other.keys()
        assert list(both.scores) == sorted(both.scores, reverse=True)
        assert merged(envelope(other), envelope(one)).chunk_ids == both.chunk_ids
