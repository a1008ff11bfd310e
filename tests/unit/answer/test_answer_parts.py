"""Small pure parts of an answer: reordering, lift, waiting times, the few recent results."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis.strategies import dictionaries, floats, lists, sampled_from, tuples

from pipeline.ingestion.claimed_items import backoff_s
from pipeline.ranking.fusion import Fused
from pipeline.ranking.hits import Hit, Hydrated
from pipeline.retrieval.rerank import rerank, rerank_lift

unit = floats(0, 1)
fused_orders = lists(tuples(sampled_from("abcdefgh"), unit), unique_by=lambda pair: pair[0]).map(
    lambda pairs: sorted(pairs, key=lambda pair: -pair[1])
)


def hits(order):
    return [
        Hit(
            fused=Fused(chunk_id=chunk_id, score=score, contributions=()),
            passage=Hydrated(chunk_id=chunk_id, document_id="d", namespace="n", title=None, text="", metadata={}),
            score=score,
        )
        for chunk_id, score in order
    ]


class DescribeRerank:
    @pytest.mark.parametrize(
        ("scores", "weight", "order"),
        [
            ({}, 0.8, "abc"),
            ({"a": 0.0, "b": 1.0, "c": 0.5}, 1.0, "bca"),
            ({"a": 0.0, "b": 1.0, "c": 0.0}, 0.05, "bac"),  # a near-tie changes places
            ({"a": 0.0, "b": 0.0, "c": 1.0}, 0.05, "abc"),  # what is far behind stays there
            ({"b": 1.0}, 0.8, "bac"),  # what was read comes before what was not
        ],
    )
    def it_reorders_what_was_read(self, scores, weight, order):
        placed = rerank(hits([("a", 1.0), ("b", 0.98), ("c", 0.2)]), scores, weight=weight)
        assert "".join(hit.chunk_id for hit in placed) == order

    @given(fused=fused_orders, scores=dictionaries(sampled_from("abcdefgh"), unit), weight=unit)
    def it_loses_nothing_and_scores_never_rise(self, fused, scores, weight):
        placed = rerank(hits(fused), scores, weight=weight)
        assert sorted(hit.chunk_id for hit in placed) == sorted(chunk_id for chunk_id, _ in fused)
        assert all(before.score >= after.score for before, after in itertools.pairwise(placed))
        assert {hit.from_rank for hit in placed} == set(range(1, len(fused) + 1))

    def it_measures_the_lift_by_the_rerankers_own_judgement(self):
        fused = hits([("a", 1.0), ("b", 0.9)])
        assert rerank_lift(rerank(fused, {"a": 0.9, "b": 0.1}, weight=1.0), top_k=2) == 0.0
        assert rerank_lift(rerank(fused, {"a": 0.0, "b": 1.0}, weight=1.0), top_k=2) == pytest.approx(0.585, abs=1e-3)
        assert rerank_lift(rerank(fused, {}, weight=1.0), top_k=2) is None


class DescribeBackoff:
    @pytest.mark.parametrize(
        ("attempt", "least", "most"), [(1, 0.5, 1), (2, 1, 2), (5, 8, 16), (12, 300, 600), (60, 300, 600)]
    )
    def it_doubles_up_to_its_cap_between_half_and_all(self, attempt, least, most):
        assert backoff_s(attempt, jitter=0.0) == least
        assert backoff_s(attempt, jitter=1.0) == most
        assert least <= backoff_s(attempt) <= most
