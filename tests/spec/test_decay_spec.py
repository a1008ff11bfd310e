"""Decay of scores with age: each shape as a table, and the laws that all of them keep."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.query.plan import DecayPlan
from pipeline.query.request import QueryMoment
from pipeline.ranking.selection import decayed, remaining
from tests.support.corpora.hits import hit, ids

NOW = datetime(2026, 6, 1, tzinfo=UTC)
PRESENT = QueryMoment(at=NOW, story_time=5_000_000)
DAY = 86_400.0

shapes = st.builds(
    DecayPlan,
    shape=st.sampled_from(["half_life", "hyperbolic", "window"]),
    half_life_days=st.floats(0.01, 100_000),
    scale=st.floats(1e-3, 1e9),
    floor=st.floats(0, 1),
)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


class DescribeWhatRemains:
    @pytest.mark.parametrize(
        ("age", "plan", "left"),
        [
            # half_life: halved every 30 days
            (0, DecayPlan(), 1.0),
            (30 * DAY, DecayPlan(), 0.5),
            (60 * DAY, DecayPlan(), 0.25),
            (15 * DAY, DecayPlan(), 0.7071),
            (7 * DAY, DecayPlan(half_life_days=7), 0.5),
            (365_000 * DAY, DecayPlan(half_life_days=0.01), 0.0),
            # hyperbolic: 1 / (1 + age / 1e6), the story's own unit
            (0, DecayPlan(shape="hyperbolic"), 1.0),
            (1_000_000, DecayPlan(shape="hyperbolic"), 0.5),
            (3_000_000, DecayPlan(shape="hyperbolic"), 0.25),
            (500, DecayPlan(shape="hyperbolic", scale=1000), 0.6667),
            # window: all of it inside, the floor outside
            (90 * DAY, DecayPlan(shape="window", scale=90 * DAY), 1.0),
            (90 * DAY + 1, DecayPlan(shape="window", scale=90 * DAY), 0.0),
            (91 * DAY, DecayPlan(shape="window", scale=90 * DAY, floor=0.3), 0.3),
            # the floor holds for every shape
            (300 * DAY, DecayPlan(floor=0.2), 0.2),
            (9_000_000, DecayPlan(shape="hyperbolic", floor=0.5), 0.5),
            # the future gains nothing
            (-5 * DAY, DecayPlan(), 1.0),
            (-5, DecayPlan(shape="hyperbolic"), 1.0),
        ],
    )
    def it_follows_its_formula(self, age, plan, left):
        assert remaining(age, plan) == pytest.approx(left, abs=1e-4)

    @given(shapes, st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
    def it_never_gains_with_age_and_stays_between_the_floor_and_one(self, plan, one, other):
        younger, older = sorted([one, other])
        assert plan.floor <= remaining(older, plan) <= remaining(younger, plan) <= 1.0


class DescribeDecay:
    def it_lets_the_newer_of_two_like_hits_go_first(self):
        hits = [hit("old", 0.9, published_at=days_ago(60)), hit("new", 0.8, published_at=days_ago(3))]
        assert ids(decayed(hits, DecayPlan(), PRESENT)) == "new old"

    @pytest.mark.parametrize(
        ("by", "left"),
        [("published_at", 0.5), ("updated_at", 0.25), ("story_time", None)],
    )
    def it_measures_what_it_is_told_to(self, by, left):
        dated = hit("a", published_at=days_ago(30), updated_at=days_ago(60))
        [found] = decayed([dated], DecayPlan(by=by), PRESENT)
        assert found.decay == (None if left is None else pytest.approx(left))

    def it_counts_a_moment_without_a_zone_as_utc(self):
        [found] = decayed([hit("a", published_at=days_ago(30).replace(tzinfo=None))], DecayPlan(), PRESENT)
        assert found.decay == pytest.approx(0.5)

    def it_counts_story_time_from_where_the_story_stands(self):
        plan = DecayPlan(shape="hyperbolic", by="story_time")
        hits = [hit("then", 0.9, story_time=1_000_000), hit("now", 0.5, story_time=5_000_000), hit("never", 0.3)]
        found = decayed(hits, plan, PRESENT)
        assert [(each.chunk_id, each.decay, round(each.score, 4)) for each in found] == [
            ("now", 1.0, 0.5),
            ("never", None, 0.3),
            ("then", 0.2, 0.18),
        ]

    def it_leaves_everything_as_it_is_when_the_story_does_not_say_where_it_stands(self):
        hits = [hit("a", 0.9, story_time=1), hit("b", 0.5, story_time=2)]
        assert decayed(hits, DecayPlan(shape="hyperbolic", by="story_time"), QueryMoment(at=NOW)) == hits

    @given(shapes, st.lists(st.tuples(st.floats(0, 1), st.none() | st.floats(-4000, 4000)), max_size=8))
    def it_loses_no_hit_and_raises_no_score(self, plan, given_hits):
        hits = [
            hit(f"c{place}", score, published_at=None if age is None else days_ago(age))
            for place, (score, age) in enumerate(sorted(given_hits, key=lambda pair: -pair[0]))
        ]
        found = decayed(hits, plan, PRESENT)
        before = {each.chunk_id: each.score for each in hits}
        assert {each.chunk_id for each in found} == before.keys()
        assert all(each.score <= before[each.chunk_id] for each in found)
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
