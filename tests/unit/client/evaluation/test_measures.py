"""The measures, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise.evaluation.measures import first_occurrences, ndcg, percentile, recall, reciprocal_rank

GRADES = {"a": 3, "b": 2, "c": 1, "junk": 0, "spam": -1}
BEST = 3 + 2 / math.log2(3) + 1 / 2  # a b c in this order: log2(4) is 2

rankings = st.lists(st.sampled_from("abcdefgh"), unique=True).map("".join)
grades = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 4))


class DescribeNdcg:
    @pytest.mark.parametrize(
        ("ranking", "gained"),
        [
            (["a", "b", "c"], BEST),
            (["c", "b", "a"], 1 + 2 / math.log2(3) + 3 / 2),
            (["x", "a"], 3 / math.log2(3)),
            (["junk", "spam", "b"], 2 / 2),  # an irrelevant hit earns nothing and costs only its position
            (["x", "y"], 0.0),
            ([], 0.0),
        ],
    )
    def it_discounts_linear_gains_by_position(self, ranking, gained):
        assert ndcg(ranking, GRADES) == pytest.approx(gained / BEST)

    def it_looks_at_the_first_k_only_in_the_ideal_as_well(self):
        assert ndcg(["b", "a"], GRADES, k=1) == pytest.approx(2 / 3)

    def it_is_zero_when_nothing_is_relevant(self):
        assert ndcg(["a"], {"a": 0}) == 0.0

    @settings(max_examples=30)
    @given(ranking=rankings, grades=grades)
    def it_lies_between_zero_and_one(self, ranking, grades):
        assert 0.0 <= ndcg(ranking, grades) <= 1.0

    @settings(max_examples=30)
    @given(grades=grades.filter(lambda grades: any(grade > 0 for grade in grades.values())))
    def it_is_one_for_documents_in_order_of_grade(self, grades):
        best = sorted(grades, key=lambda document: -grades[document])
        assert ndcg(best, grades) == pytest.approx(1.0)


class DescribeReciprocalRank:
    @pytest.mark.parametrize(
        ("ranking", "expected"),
        [("a", 1.0), ("xb", 1 / 2), ("xyc", 1 / 3), ("xyz", 0.0), ("", 0.0), ("0123456789a", 0.0)],
    )
    def it_is_one_over_the_first_relevant_place_among_ten(self, ranking, expected):
        assert reciprocal_rank(ranking, GRADES) == pytest.approx(expected)


class DescribeRecall:
    @pytest.mark.parametrize(("ranking", "expected"), [("abc", 1.0), ("cxa", 2 / 3), ("xyz", 0.0), ("", 0.0)])
    def it_is_the_share_of_relevant_documents_found(self, ranking, expected):
        assert recall(ranking, GRADES) == pytest.approx(expected)

    def it_ignores_what_lies_beyond_k(self):
        assert recall("xa", GRADES, k=1) == 0.0

    @settings(max_examples=30)
    @given(ranking=rankings, grades=grades, k=st.integers(1, 8))
    def it_never_falls_when_more_is_looked_at(self, ranking, grades, k):
        assert recall(ranking, grades, k=k) <= recall(ranking, grades, k=k + 1)


class DescribePercentile:
    @pytest.mark.parametrize(
        ("values", "percent", "expected"),
        [([4, 1, 3, 2], 50, 2), ([4, 1, 3, 2], 95, 4), ([7], 50, 7), ([], 50, 0.0), (list(range(1, 101)), 95, 95)],
    )
    def it_takes_the_nearest_rank(self, values, percent, expected):
        assert percentile(values, percent) == expected


class DescribeFirstOccurrences:
    def it_ranks_documents_by_their_best_chunk(self):
        assert first_occurrences(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


class DescribeAgreementWithPublishedFigures:
    def it_gives_the_worked_example_of_discounted_cumulative_gain(self):
        """Six results of grades 3 2 3 0 1 2, and two more judged documents of grades 3 and 2 that were not found: nDCG@6 is
        6.861 / 8.740, as the literature prints it for linear gains."""
        judged = {"d1": 3, "d2": 2, "d3": 3, "d4": 0, "d5": 1, "d6": 2, "d7": 3, "d8": 2}
        assert ndcg(["d1", "d2", "d3", "d4", "d5", "d6"], judged, k=6) == pytest.approx(6.861 / 8.740, abs=5e-4)
