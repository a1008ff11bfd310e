"""Places for work under way: the share of a tenant, the wait by Little's law, and the script that follows the rule."""

from __future__ import annotations

import math
import random
from collections import Counter

import fakeredis
import pytest
from hypothesis import given
from hypothesis.strategies import integers

from pipeline.query.place_store import Places
from pipeline.query.places import (
    LONGEST_RETRY_S,
    UNKNOWN_SERVICE_S,
    Concurrency,
    Pace,
    Place,
    Verdict,
    held_back_s,
    most_places,
    pool_key,
    retry_after_s,
    verdict,
)
from pipeline.query.query_store import Queries
from pipeline.records import TenantId
from tests.support.corpora.queries import query_of

BUSY, CALM = TenantId("busy"), TenantId("calm")
TAKEN, ALL, SHARE = Verdict.TAKEN, Verdict.ALL_TAKEN, Verdict.SHARE_TAKEN


def place(*, most: int = 8, left_s: float = 3.0) -> Place:
    return Place(pool="query", most=most, left_s=left_s)


@pytest.fixture
def places(redis: fakeredis.FakeRedis) -> Places:
    return Places(redis)


def taken(places: Places, tenant: TenantId, times: int, **how: float) -> int:
    """Ask for places, and return how many were given."""
    return sum(places.take(tenant, f"{tenant}{number}", place(**how)) is TAKEN for number in range(times))  # type: ignore[arg-type]


def paced(service_s: float) -> Pace:
    """Return the pace of work that took so long."""
    pace = Pace()
    pace.served(service_s)
    return pace


class DescribeShares:
    @pytest.mark.parametrize(
        ("held", "own", "expected"),
        [
            (0, 0, TAKEN),
            (3, 3, TAKEN),  # 5 are free, 3 are its own
            (4, 4, SHARE),  # half of the places: the rest is for others
            (4, 0, TAKEN),
            (6, 3, SHARE),
            (7, 0, TAKEN),  # the last one goes to a tenant that has none
            (7, 1, SHARE),
            (8, 0, ALL),
        ],
    )
    def it_gives_a_tenant_as_many_as_are_free(self, held, own, expected):
        assert verdict(most=8, held=held, own=own) is expected

    @given(most=integers(1, 200), tenants=integers(1, 20))
    def it_leaves_a_place_to_one_who_has_none_unless_all_are_taken_by_others(self, most, tenants):
        own = [0] * tenants
        for _ in range(most):
            for tenant in range(tenants):
                own[tenant] += verdict(most=most, held=sum(own), own=own[tenant]) is TAKEN
        assert max(own) - min(own) <= 1
        if most > tenants + 1:
            assert sum(own) < most

    def it_has_no_bound_where_nobody_works(self):
        assert verdict(most=most_places(0), held=500, own=500) is TAKEN

    def it_has_one_place_for_each_thread(self):
        assert (most_places(1), most_places(8), most_places(64)) == (4, 8, 64)


class DescribeWaits:
    def it_follows_littles_law(self):
        pace = paced(0.5)
        assert [pace.wait_s(before, share=4, now=9.0) for before in (0, 3, 7)] == [0.125, 0.5, 1.0]

    def it_believes_turns_that_were_measured(self):
        pace = paced(0.5)
        pace.line_begins(10.0)
        for turn in range(16):
            pace.turned(10.0 + turn)
        assert pace.wait_s(1, share=4, now=26.0) == 2.0
        pace.line_ends()
        assert pace.wait_s(1, share=4, now=26.0) == 0.25

    def it_expects_the_longer_the_longer_no_place_comes_back(self):
        pace = paced(0.1)
        pace.line_begins(10.0)
        assert [pace.wait_s(3, share=4, now=now) for now in (10.0, 11.0, 12.0)] == [0.1, 1.0, 2.0]

    def it_assumes_something_before_it_has_measured(self):
        assert Pace().expected_service_s() == UNKNOWN_SERVICE_S

    def it_expects_the_shortest_of_the_last_services(self):
        pace = Pace()
        for seconds in (0.1, *[1.0] * 15):
            pace.served(seconds)
        assert pace.expected_service_s() == 0.1
        pace.served(1.0)
        assert pace.expected_service_s() == 1.0

    @pytest.mark.parametrize(
        ("service_s", "quiet_s", "expected"),
        [(0.02, 0.09, False), (0.02, 0.11, True), (1.0, 4.9, False), (1.0, 5.1, True)],
    )
    def it_notices_that_work_hangs_by_the_shortest_service(self, service_s, quiet_s, expected):
        pace = paced(service_s)
        pace.served(9.0)
        pace.line_begins(10.0)
        assert pace.hangs(10.0 + quiet_s) is expected
        pace.turned(10.0 + quiet_s)
        assert not pace.hangs(10.0 + quiet_s)

    def it_does_not_call_unmeasured_work_hanging(self):
        pace = Pace()
        pace.line_begins(10.0)
        assert not pace.hangs(20.0)

    @pytest.mark.parametrize(
        ("before", "patience_s", "only_begins", "expected"),
        [
            (13, 9.0, False, True),  # 14 turns of 0.125 s are 0.7 of 2.5 s
            (14, 9.0, False, False),
            (15, 9.0, True, True),  # of 3 s
            (16, 9.0, True, False),
            (3, 0.6, False, True),
            (4, 0.6, False, False),
        ],
    )
    def it_leaves_room_before_the_deadline(self, before, patience_s, only_begins, expected):
        """Of the spare time 0.7 may be spent waiting."""
        pace = paced(0.5)
        fits = pace.fits(
            before, share=4, most=0, left_s=3.0, patience_s=patience_s, now=0.0, only_begins=only_begins, most_of=0.7
        )
        assert fits is expected

    @pytest.mark.parametrize(("before", "left_s", "expected"), [(7, 3.0, True), (8, 3.0, False), (7, 1.5, False)])
    def it_judges_no_wait_within_one_more_round_before_a_turn_was_measured(self, before, left_s, expected):
        pace = paced(1.0)
        pace.line_begins(0.0)
        fits = pace.fits(
            before, share=4, most=8, left_s=left_s, patience_s=9.0, now=1.0, only_begins=False, most_of=0.7
        )
        assert fits is expected

    @pytest.mark.parametrize(
        ("wait_s", "jitter", "seconds"), [(0.0, 0.9, 1), (2.0, 0.0, 2), (2.0, 1.0, 4), (900, 0, 60)]
    )
    def it_names_seconds_between_one_and_a_minute(self, wait_s, jitter, seconds):
        assert retry_after_s(wait_s, jitter=lambda: jitter) == seconds <= LONGEST_RETRY_S


class DescribeConcurrency:
    def it_bounds_work_on_a_busy_processor_for_the_sake_of_others(self):
        """A piece takes 0.1 s for each that is under way: two at a time are as many a second as eight."""
        concurrency = Concurrency()
        for at_a_time in (8, 4, 2, 2):
            seconds = 0.1 * at_a_time
            concurrency.served(seconds, beside_s=at_a_time * seconds)
        assert concurrency.worth(3.0, is_shared=True) <= 3  # two, and one more for a while
        assert concurrency.worth(3.0, is_shared=False) == math.inf

    def it_bounds_no_work_that_waits(self):
        concurrency = Concurrency()
        for at_a_time in (2, 4, 8):
            concurrency.served(0.5, beside_s=0.5 * at_a_time)
        assert concurrency.worth(3.0, is_shared=True) == math.inf

    def it_forgets_how_quick_work_was_before_others_came(self):
        """Twelve at a time were quick until somebody uploaded; since then five take a second."""
        concurrency = Concurrency()
        concurrency.served(0.2, beside_s=2.4)
        for number in range(400):
            at_a_time = 4 + number % 3
            concurrency.served(0.2 * at_a_time, beside_s=0.2 * at_a_time**2)
        assert concurrency.worth(3.0, is_shared=True) <= 5  # four, and one more for a while

    def it_has_work_end_within_half_of_its_time(self):
        """A processor that others keep busy; it was quick before."""
        concurrency = Concurrency()
        concurrency.served(0.05, beside_s=0.15)
        for _ in range(100):
            concurrency.served(2.0, beside_s=20.0)
        assert concurrency.worth(3.0, is_shared=False) == pytest.approx(7.5, rel=0.05)

    def it_bounds_the_first_work_as_well(self):
        concurrency = Concurrency()
        concurrency.served(2.0, beside_s=20.0)
        assert concurrency.worth(3.0, is_shared=False) == 7.5


class DescribeThePlacesInRedis:
    def it_follows_the_rule(self, places):
        assert [taken(places, tenant, 9) for tenant in (BUSY, CALM)] == [4, 2]
        assert places.held(["query", "model"]) == {"query": 6, "model": 0}

    @pytest.mark.parametrize("most", [1, 4, 7, 16])
    def it_follows_the_rule_however_many_are_taken_by_whom(self, places, most):
        chance = random.Random(most)
        held: Counter[TenantId] = Counter()
        for number in range(3 * most):
            tenant = chance.choice([BUSY, BUSY, CALM, TenantId("bus")])
            expected = verdict(most=most, held=held.total(), own=held[tenant])
            assert places.take(tenant, str(number), place(most=most)) is expected
            held[tenant] += expected is TAKEN

    def it_has_places_for_each_kind_of_work(self, places):
        assert taken(places, BUSY, 9) == 4
        assert places.take(BUSY, "slow", Place(pool="model", most=8, left_s=60)) is TAKEN

    def it_gives_out_again_what_was_given_back(self, places):
        taken(places, BUSY, 9)
        assert places.take(BUSY, "next", place()) is SHARE
        places.give_back(BUSY, "busy0", "query")
        assert places.take(BUSY, "next", place()) is TAKEN

    def it_frees_the_places_of_a_gateway_that_died_when_their_time_is_over(self, places, redis):
        taken(places, BUSY, 9)
        for entry, ends_at in redis.zrange(pool_key("query"), 0, -1, withscores=True):
            redis.zadd(pool_key("query"), {entry: ends_at - 3.5})
        assert places.held(["query"]) == {"query": 0}
        assert taken(places, BUSY, 9) == 4

    def it_leaves_nothing_behind(self, places, redis):
        taken(places, BUSY, 1, left_s=3.0)
        taken(places, BUSY, 1, left_s=1.0)
        assert all(0 < redis.ttl(key) <= 6 * 3600 for key in redis.scan_iter())


class DescribeThePlaceOfAQuery:
    def it_is_held_until_the_answer_is_stored(self, places, redis):
        queries = Queries(redis, BUSY, ttl_s=60)
        query = query_of("绿茶", tenant_id=BUSY)
        assert queries.open(query, place()) is TAKEN
        assert places.held(["query"]) == {"query": 1}
        assert queries.load(query.query_id) == query
        queries.answer(query, b"{}")
        assert places.held(["query"]) == {"query": 0}

    def it_is_given_back_when_the_query_is_cancelled(self, places, redis):
        queries = Queries(redis, BUSY, ttl_s=60)
        query = query_of("绿茶", tenant_id=BUSY)
        queries.open(query, place())
        assert queries.cancel(query.query_id)
        assert places.held(["query"]) == {"query": 0}

    def it_stores_nothing_without_a_place(self, places, redis):
        taken(places, BUSY, 9)
        queries = Queries(redis, BUSY, ttl_s=60)
        query = query_of("绿茶", tenant_id=BUSY)
        assert queries.open(query, place()) is SHARE
        assert queries.load(query.query_id) is None


class DescribeRefusals:
    @pytest.mark.parametrize(("refused", "seconds"), [(1, 0.115), (30, 0.115), (300, 1.0), (1500, 5.0)])
    def it_holds_those_of_a_large_crowd_back_for_longer(self, refused, seconds):
        """A gateway that refuses 800 a second has little time left for answers."""
        assert held_back_s(refused, jitter=lambda: 0.5) == pytest.approx(seconds)
