"""Fusion beyond one's own arithmetic: which channels have a say, whose rule decides, and what a plug-in may do."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import FusionPluginFailed
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.ranking.fusion import reciprocal_rank_fusion, weighted_fusion
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.retrieval.arrived import gated, strength_of
from pipeline.retrieval.fuse import custom_fusion
from tests.support.corpora.queries import query_of

KEYWORD, SEMANTIC, FAQ = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ
BOUNDS = {KEYWORD: 10.0, SEMANTIC: 1.0, FAQ: 1.0}
WEIGHTS = {KEYWORD: 0.7, SEMANTIC: 0.3}


def ranking(channel: ChannelName, **scores: float) -> Ranking:
    best_first = sorted(scores.items(), key=lambda pair: -pair[1])
    return Ranking(
        channel=channel,
        chunk_ids=tuple(ChunkId(name) for name, _ in best_first),
        scores=tuple(score for _, score in best_first),
    )


FOUND = (ranking(KEYWORD, a=9.0, b=5.0), ranking(SEMANTIC, b=0.9, c=0.5))

scores = st.dictionaries(st.sampled_from("abcdefg"), st.floats(0, 10), max_size=6)
rankings = st.lists(
    st.builds(lambda c, s: ranking(c, **s), st.sampled_from([KEYWORD, SEMANTIC, FAQ]), scores), max_size=4
)


class DescribeTheStrengthOfAChannel:
    @pytest.mark.parametrize(
        ("given_scores", "upper_bound", "strength"),
        [
            ((0.8, 0.4), 1.0, 0.8),  # the best hit over the highest there could be
            ((6.0, 2.0), 24.0, 0.25),
            ((30.0,), 24.0, 1.0),
            ((-0.2,), 1.0, 0.0),
            ((0.9, 0.9, 0.9), 1.0, 0.0),  # three alike: an order without a reason
            ((0.9, 0.9), 1.0, 0.9),  # two alike can be chance
            ((0.9, 0.9, 0.9), None, 0.0),
            ((5.0, 1.0), None, None),  # nothing can be said
            ((), 1.0, None),
        ],
    )
    def it_is_what_its_best_hit_reaches(self, given_scores, upper_bound, strength):
        assert strength_of(given_scores, upper_bound) == strength


class DescribeTheGate:
    @pytest.mark.parametrize(
        ("best", "gate", "stay"),
        [
            ({KEYWORD: 6.0, SEMANTIC: 0.7}, 0.3, {KEYWORD, SEMANTIC}),
            ({KEYWORD: 1.0, SEMANTIC: 0.7}, 0.3, {SEMANTIC}),
            ({KEYWORD: 6.0, SEMANTIC: 0.1, FAQ: 0.1}, 0.3, {KEYWORD}),
            ({KEYWORD: 2.0, SEMANTIC: 0.1, FAQ: 0.1}, 0.3, {KEYWORD}),  # all are weak: the strongest stays
            ({KEYWORD: 1.0, SEMANTIC: 0.1}, 0.3, {KEYWORD}),  # the first by name among equals
            ({KEYWORD: 3.0, SEMANTIC: 0.3}, 0.3, {KEYWORD, SEMANTIC}),  # reaching it is enough
            ({}, 0.3, set()),
        ],
    )
    def it_keeps_out_what_is_below_it_but_never_the_last(self, best, gate, stay):
        kept, weak = gated([ranking(channel, a=score) for channel, score in best.items()], BOUNDS, gate=gate)
        assert {each.channel for each in kept} == stay
        assert weak.keys() == best.keys() - stay

    def it_does_not_take_an_empty_channel_for_the_last_one_that_is_left(self):
        kept, weak = gated([ranking(KEYWORD), ranking(SEMANTIC, a=0.1)], BOUNDS, gate=0.5)
        assert ([each.channel for each in kept], weak) == ([KEYWORD, SEMANTIC], {})

    def it_lets_pass_what_it_knows_nothing_about(self):
        kept, _ = gated([ranking(KEYWORD, a=0.1), ranking(SEMANTIC, a=0.9)], {SEMANTIC: 1.0}, gate=0.5)
        assert len(kept) == 2

    @settings(max_examples=30)
    @given(rankings, st.floats(0, 1))
    def it_always_leaves_something_of_what_was_found(self, given_rankings, gate):
        kept, weak = gated(given_rankings, BOUNDS, gate=gate)
        assert [each for each in given_rankings if each in kept] == kept
        assert any(each.chunk_ids for each in kept) == any(each.chunk_ids for each in given_rankings)
        assert all(strength < gate for strength in weak.values())


class DescribeCustomFusion:
    def _fused(self, plugin):
        return custom_fusion(plugin, FOUND, weights=WEIGHTS)

    def it_orders_by_what_the_rule_gives_then_by_id(self):
        found = self._fused(lambda rankings, *, weights, completed: {"a": 1, "b": 2.5, "c": 1.0})
        assert [(hit.chunk_id, hit.score) for hit in found] == [("b", 2.5), ("a", 1.0), ("c", 1.0)]

    def it_leaves_out_what_the_rule_leaves_out(self):
        assert [hit.chunk_id for hit in self._fused(lambda rankings, *, weights, completed: {"c": 0.0})] == ["c"]

    def it_says_what_each_channel_found_and_invents_no_contributions(self):
        [best, *_] = self._fused(lambda rankings, *, weights, completed: {"b": 2.0, "a": 1.0})
        assert {(part.normalized, part.contribution) for part in best.contributions} == {(None, None)}
        assert {part.channel: part.rank for part in best.contributions} == {KEYWORD: 2, SEMANTIC: 1}

    def it_gives_the_rule_what_it_needs_and_nothing_it_could_spoil(self):
        seen = {}

        def look(rankings, *, weights, completed):
            seen.update(rankings=rankings, weights=dict(weights), completed={c: dict(s) for c, s in completed.items()})
            with pytest.raises(TypeError):
                weights[KEYWORD] = 5.0
            with pytest.raises(TypeError):
                completed[KEYWORD]["c"] = 5.0
            return {}

        assert custom_fusion(look, FOUND, weights=WEIGHTS, completed={KEYWORD: {"c": 1.0}}) == []
        assert seen == {"rankings": FOUND, "weights": WEIGHTS, "completed": {KEYWORD: {"c": 1.0}}}

    @pytest.mark.parametrize(
        ("given_back", "complaint"),
        [
            ({"z": 1.0}, "no channel recalled"),
            ({"a": float("nan")}, "finite"),
            ({"a": float("inf")}, "finite"),
            ({"a": -0.1}, "0 or more"),
            ({"a": True}, "finite"),
            ({"a": "1"}, "finite"),
            ([("a", 1.0)], "mapping"),
            (None, "mapping"),
        ],
    )
    def it_refuses_what_is_no_fusion(self, given_back, complaint):
        with pytest.raises(FusionPluginFailed, match=complaint):
            self._fused(lambda rankings, *, weights, completed: given_back)

    def it_names_what_a_rule_raised(self):
        with pytest.raises(FusionPluginFailed, match="ZeroDivisionError"):
            self._fused(lambda rankings, *, weights, completed: 1 / 0)

    @settings(max_examples=30)
    @given(rankings, st.randoms())
    def it_invents_nothing_and_does_not_depend_on_the_order_of_rankings(self, given_rankings, shuffle: random.Random):
        def total(rankings, *, weights, completed):
            found: dict[str, float] = {}
            for each in rankings:
                for chunk_id, score in zip(each.chunk_ids, each.scores, strict=True):
                    found[chunk_id] = max(score, found.get(chunk_id, 0.0))
            return found

        found = custom_fusion(total, given_rankings, weights={})
        assert {hit.chunk_id for hit in found} == {c for each in given_rankings for c in each.chunk_ids}
        assert custom_fusion(total, shuffle.sample(given_rankings, len(given_rankings)), weights={}) == found
        assert all(part.contribution is None for hit in found for part in hit.contributions)


class DescribeTheSourceOfAHit:
    """X8: the strongest channel names a hit, and every channel is listed."""

    @pytest.mark.parametrize(
        ("weights", "strongest"), [({KEYWORD: 0.7, SEMANTIC: 0.3}, KEYWORD), ({KEYWORD: 0.3, SEMANTIC: 0.7}, SEMANTIC)]
    )
    @pytest.mark.parametrize("fuse", [reciprocal_rank_fusion, weighted_fusion])
    def it_is_the_channel_that_contributed_most(self, fuse, weights, strongest):
        both = [ranking(KEYWORD, a=9.0, b=1.0), ranking(SEMANTIC, a=0.9, b=0.1)]
        hit = fuse(both, weights=weights)[0]
        assert {part.channel for part in hit.contributions} == {KEYWORD, SEMANTIC}
        assert max(hit.contributions, key=lambda part: part.contribution).channel == strongest


class DescribeAllocation:
    """X5: how many chunks a channel recalls for each text it is asked."""

    @pytest.mark.parametrize(
        ("allocation", "top_k", "channels", "pool"),
        [
            ("pool", 10, ["keyword", "semantic"], 100),
            ("pool", 300, ["keyword", "semantic"], 300),  # never fewer than are returned
            ("balanced", 10, ["keyword", "semantic"], 10),  # one may have to fill what the other leaves
            ("balanced", 1, ["keyword", "semantic"], 1),  # never none
            ("balanced", 10, ["keyword"], 10),
            ("balanced", 10, ["keyword", "semantic", "faq"], 10),
            ("double", 10, ["keyword", "semantic"], 20),
        ],
    )
    def it_is_what_the_plan_says(self, allocation, top_k, channels, pool):
        retrieve = RetrievePlan(allocation=allocation, channels={name: ChannelPlan(pool=100) for name in channels})
        query = query_of(plan=Plan(top_k=top_k, retrieve=retrieve), created_at=0, deadline_s=1)
        assert query.pool_of(KEYWORD) == pool
