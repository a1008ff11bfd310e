"""Differences between two answers, and between two plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.answer.diff import difference, plan_difference

orders = st.lists(st.sampled_from("abcdefg"), unique=True)
values = st.recursive(st.integers(0, 3) | st.none(), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner))
plans = st.dictionaries(st.sampled_from("pqr"), values)


def answer(order: Any, **contributions: float) -> dict[str, Any]:
    return {
        "chunks": [
            {
                "chunk_id": chunk_id,
                "score": 1 / place,
                "sources": [{"channel": name, "contribution": share} for name, share in contributions.items()],
            }
            for place, chunk_id in enumerate(order, start=1)
        ]
    }


class DescribeDifference:
    @pytest.mark.parametrize(
        ("before", "after", "overlap", "same_order", "moved", "added", "removed"),
        [
            ("abc", "abc", 1.0, True, "", "", ""),
            ("abc", "bac", 1.0, False, "ba", "", ""),
            ("abc", "abd", 0.6667, False, "", "d", "c"),
            ("abc", "ca", 0.6667, False, "ca", "", "b"),
            ("", "", 1.0, True, "", "", ""),
            ("a", "", 0.0, False, "", "", "a"),
        ],
    )
    def it_tells_what_moved_came_and_went(self, before, after, overlap, same_order, moved, added, removed):
        told = difference(answer(before), answer(after))
        assert (told["overlap"], told["same_order"]) == (overlap, same_order)
        names = ["".join(each["chunk_id"] for each in told[kind]) for kind in ("moved", "added", "removed")]
        assert names == [moved, added, removed]

    def it_gives_places_scores_and_contributions_before_and_after(self):
        told = difference(answer("ab", keyword=0.5, semantic=0.2), answer("ba", keyword=0.7, faq=0.1))
        assert told["moved"][0] == {
            "chunk_id": "b",
            "from": 2,
            "to": 1,
            "score_before": 0.5,
            "score_after": 1.0,
            "contributions": {
                "keyword": {"before": 0.5, "after": 0.7},
                "semantic": {"before": 0.2, "after": None},
                "faq": {"before": None, "after": 0.1},
            },
        }

    @settings(max_examples=30)
    @given(before=orders, after=orders)
    def it_is_enough_to_make_one_answer_of_the_other(self, before, after):
        told = difference(answer(before), answer(after))
        places = {chunk_id: place for place, chunk_id in enumerate(before, start=1)}
        for each in told["removed"]:
            assert places.pop(each["chunk_id"]) == each["place"]
        for each in told["moved"]:
            assert places[each["chunk_id"]] == each["from"]
            places[each["chunk_id"]] = each["to"]
        places |= {each["chunk_id"]: each["place"] for each in told["added"]}
        assert sorted(places, key=places.__getitem__) == after

    @settings(max_examples=30)
    @given(before=orders, after=orders)
    def it_overlaps_alike_in_both_directions(self, before, after):
        there, back = difference(answer(before), answer(after)), difference(answer(after), answer(before))
        assert there["overlap"] == back["overlap"]
        assert [each["chunk_id"] for each in there["added"]] == [each["chunk_id"] for each in back["removed"]]


class DescribePlanDifference:
    def it_points_to_each_setting(self):
        before = {"top_k": 10, "retrieve": {"fusion": {"k": 60, "gate": None}, "ladder": {"min_results": 5}}}
        after = {"top_k": 10, "retrieve": {"fusion": {"k": 20, "gate": None}, "ladder": None}, "more": 1}
        assert plan_difference(before, after) == [
            {"pointer": "/retrieve/fusion/k", "before": 60, "after": 20},
            {"pointer": "/retrieve/ladder", "before": {"min_results": 5}, "after": None},
            {"pointer": "/more", "before": None, "after": 1},
        ]

    @settings(max_examples=30)
    @given(plan=plans)
    def it_says_nothing_of_the_same(self, plan):
        assert plan_difference(plan, plan) == []

    @settings(max_examples=30)
    @given(before=plans, after=plans)
    def it_is_the_same_seen_from_the_other_side(self, before, after):
        there = {each["pointer"]: (each["before"], each["after"]) for each in plan_difference(before, after)}
        back = {each["pointer"]: (each["after"], each["before"]) for each in plan_difference(after, before)}
        assert there == back
