"""When a newer model may take over: overlap, nDCG and the gate."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordwise.contract.migration import Comparison
from pipeline.embedding.model_comparison import ComparedQuery, Gate, judge, ndcg, overlap

rankings = st.lists(st.sampled_from("abcdefghij"), unique=True)


def decide(queries: Sequence[ComparedQuery], gate: Gate) -> Comparison:
    return judge(queries, gate, sampled=False, at=datetime.now(UTC))


class DescribeOverlap:
    @pytest.mark.parametrize(
        ("first", "second", "share"),
        [("abc", "abc", 1), ("abc", "cba", 1), ("abc", "xyz", 0), ("abcd", "ab", 0.5), ("", "", 1), ("a", "", 0)],
    )
    def it_is_the_share_of_the_longer_ranking(self, first, second, share):
        assert overlap(first, second, k=10) == share

    @given(first=rankings, second=rankings, k=st.integers(1, 12))
    def it_does_not_depend_on_the_order_of_the_two(self, first, second, k):
        assert overlap(first, second, k=k) == overlap(second, first, k=k)
        assert 0 <= overlap(first, second, k=k) <= 1

    def it_looks_no_further_than_k(self):
        assert overlap("abX", "abY", k=2) == 1


class DescribeNdcg:
    @pytest.mark.parametrize(
        ("ranking", "grades", "value"),
        [
            ("ab", {"a": 1}, 1.0),
            ("ba", {"a": 1}, 0.6309),
            ("ab", {"a": 2, "b": 1}, 1.0),
            ("b", {"a": 1}, 0),
            ("a", {}, 0),
        ],
    )
    def it_discounts_by_place(self, ranking, grades, value):
        assert ndcg(ranking, grades, k=10) == pytest.approx(value, abs=1e-4)


class DescribeTheGate:
    def it_does_not_pass_nothing(self):
        assert not decide([], Gate()).passed

    @pytest.mark.parametrize(("second", "passed"), [("abcd", True), ("abxy", True), ("axyz", False)])
    def it_asks_for_overlap_where_nothing_was_judged(self, second, passed):
        verdict = decide([ComparedQuery(active_chunks="abcd", target_chunks=second)], Gate(min_overlap=0.5))
        assert (verdict.passed, verdict.reason is None, verdict.ndcg_active) == (passed, passed, None)

    @pytest.mark.parametrize(("target", "loss", "passed"), [("ab", 0, True), ("ba", 0.1, False), ("ba", 0.4, True)])
    def it_asks_for_judgments_where_there_are_any(self, target, loss, passed):
        judged = ComparedQuery(
            active_chunks="a", target_chunks="z", active_documents="ab", target_documents=target, grades={"a": 1}
        )
        verdict = decide(
            [judged, ComparedQuery(active_chunks="a", target_chunks="z")], Gate(max_ndcg_loss=loss, min_overlap=1)
        )
        assert (verdict.queries, verdict.judged, verdict.passed) == (2, 1, passed)
