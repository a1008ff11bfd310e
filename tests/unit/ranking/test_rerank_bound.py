"""Scores of a language model that depart from every channel by far."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, floats, permutations, sampled_from

from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.rerank_bound import FAR, bounded_scores
from pipeline.records import ChannelName
from tests.unit.answer.test_answer_parts import hits

NINE = "abcdefghi"
CALM = dict.fromkeys(NINE, 0.4)


def found(fused: str, **orders: str):
    """Hits in this fused order, with their ranks in the order of each channel."""
    made = []
    for hit in hits([(chunk_id, 1.0 - at / 100) for at, chunk_id in enumerate(fused)]):
        parts = tuple(
            Contribution(ChannelName(channel), order.index(hit.chunk_id) + 1, 1.0, None, 0.1)
            for channel, order in orders.items()
            if hit.chunk_id in order
        )
        made.append(replace(hit, fused=Fused(hit.fused.chunk_id, hit.score, parts)))
    return made


class DescribeBoundedScores:
    @pytest.mark.parametrize("asking", ["g", "h", "i", "ghi"])
    def it_lets_no_passage_past_the_others_that_every_channel_has_near_the_end(self, asking):
        scores = CALM | dict.fromkeys(asking, 0.85)
        bounded, far = bounded_scores(found(NINE, keyword=NINE, semantic="badcfeihg"), scores)
        assert (bounded, far) == (CALM, list(asking))

    @pytest.mark.parametrize(
        ("fused", "orders"),
        [
            (NINE, {"keyword": "iabcdefgh", "semantic": NINE}),  # one channel has it first
            (NINE, {"keyword": "abicdefgh", "semantic": "abcdefgh"}),  # or third, and the other not at all
            ("abcdefigh", {"keyword": NINE, "semantic": NINE[::-1]}),
            ("abcdeifgh", {"keyword": NINE, "semantic": NINE}),  # it is in the middle of the fused order
            (NINE, {}),  # nothing is known of the channels
        ],
    )
    def it_lets_any_other_passage_rise_to_the_top(self, fused, orders):
        scores = CALM | {"i": 0.95}
        assert bounded_scores(found(fused, **orders), scores) == (scores, [])

    def it_leaves_small_departures_to_the_model(self):
        scores = CALM | {"i": 0.4 + FAR}
        assert bounded_scores(found(NINE, keyword=NINE), scores) == (scores, [])

    def it_leaves_a_passage_that_is_scored_low_where_it_is(self):
        scores = CALM | {"a": 0.95, "i": 0.9}
        assert bounded_scores(found(NINE, keyword=NINE), scores) == (scores, [])

    def it_judges_nothing_by_few_hits(self):
        scores = dict.fromkeys("abcde", 0.1) | {"e": 1.0}
        assert bounded_scores(found("abcde", keyword="abcde"), scores) == (scores, [])

    @given(permutations(NINE), permutations(NINE), dictionaries(sampled_from(NINE), floats(0, 1)))
    def it_only_lowers_scores_and_never_the_best_of_what_is_supported(self, fused, keyword, scores):
        bounded, far = bounded_scores(found("".join(fused), keyword="".join(keyword)), scores)
        assert bounded.keys() == scores.keys()
        assert all(bounded[name] <= score for name, score in scores.items())
        assert all(bounded[name] == score for name, score in scores.items() if name not in far)
        assert not far or max(bounded.values()) == max(score for name, score in scores.items() if name not in far)
