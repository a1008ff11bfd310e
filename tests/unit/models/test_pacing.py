from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.models import service_pace
from pipeline.models.service_pace import (
    HEADROOM,
    ProviderLimits,
    ServicePace,
    admit,
    adopt,
    beginning,
    quickened,
    slowed,
)

SIXTY = ProviderLimits(requests=60 / HEADROOM, tokens=6000 / HEADROOM)  # one request and a hundred tokens a second
FELT = replace(beginning(SIXTY), slowed_at=995.0)
NOW = 1000.0


def ask(pace, *, now=NOW, tokens=1.0, urgent=False, horizon_s=100.0, limits=SIXTY):
    return admit(pace, limits, now=now, tokens=tokens, urgent=urgent, horizon_s=horizon_s)


class DescribeAdmit:
    def it_gives_places_one_after_the_other(self):
        pace, waits = beginning(SIXTY), []
        for _ in range(4):
            grant = ask(pace)
            pace, waits = grant.pace, [*waits, grant.wait_s]
        assert waits == pytest.approx([0.0, 0.9, 1.9, 2.9])  # a tenth of a second may be made up for

    def it_keeps_text_apart_as_far_as_its_tokens_ask_for(self):
        first = ask(beginning(SIXTY), tokens=500)
        assert ask(first.pace, tokens=1).wait_s == pytest.approx(4.9)

    def it_takes_nothing_where_the_place_is_too_far_away(self):
        pace = ask(ask(beginning(SIXTY)).pace).pace
        grant = ask(pace, horizon_s=1.0)
        assert (grant.granted, grant.pace) == (False, pace)
        assert grant.wait_s == pytest.approx(1.9)

    def it_lets_an_urgent_request_go_first_and_the_others_pay_for_it(self):
        pace = ask(ask(beginning(SIXTY)).pace).pace
        urgent = ask(pace, urgent=True)
        assert (urgent.granted, urgent.wait_s) == (True, 0.0)
        assert ask(urgent.pace).wait_s == pytest.approx(ask(pace).wait_s + 1.0)

    def it_bounds_how_far_urgent_requests_run_ahead(self):
        pace, sent = beginning(SIXTY), 0
        while (grant := ask(pace, urgent=True, horizon_s=0.0)).granted:
            pace, sent = grant.pace, sent + 1
        assert sent == service_pace.AHEAD_S + 1

    def it_lets_nobody_pass_while_the_service_is_closed(self):
        pace = service_pace.closed_for(beginning(SIXTY), now=NOW, seconds=30)
        assert ask(pace).wait_s == ask(pace, urgent=True).wait_s == 30.0

    @settings(max_examples=30)
    @given(
        gaps=st.lists(st.floats(0, 3), min_size=1, max_size=60),
        urgent=st.lists(st.booleans(), min_size=60, max_size=60),
        tokens=st.lists(st.integers(1, 300), min_size=60, max_size=60),
    )
    def it_never_exceeds_the_limit_in_the_long_run(self, gaps, urgent, tokens):
        pace, now, sent, text, last = beginning(SIXTY), NOW, 0, 0, NOW
        for gap, first, many in zip(gaps, urgent, tokens, strict=False):
            now += gap
            grant = ask(pace, now=now, tokens=many, urgent=first, horizon_s=1.0)
            pace = grant.pace
            if grant.granted:
                sent, last = sent + 1, max(last, now + grant.wait_s)
                text += 0 if first else many
        assert sent <= (last - NOW) + service_pace.BURST_S + service_pace.AHEAD_S + 1.001
        assert text <= 100 * (last - NOW + service_pace.BURST_S) + 300.001


class DescribeSlowed:
    def it_cuts_once_for_all_that_was_sent_before(self):
        pace = slowed(FELT, SIXTY, now=NOW, sent_at=NOW - 1, retry_after_s=2.0)
        assert (pace.requests, pace.tokens) == pytest.approx((0.8, 80.0))
        assert pace.closed_until == NOW + 2
        again = slowed(pace, SIXTY, now=NOW + 0.1, sent_at=NOW - 1, retry_after_s=5.0)
        assert (again.requests, again.closed_until) == (pace.requests, NOW + 5.1)
        later = slowed(pace, SIXTY, now=NOW + 9, sent_at=NOW + 8, retry_after_s=None)
        assert later.requests == pytest.approx(0.64)

    def it_takes_a_first_refusal_below_a_known_limit_for_chance(self):
        once = slowed(beginning(SIXTY), SIXTY, now=NOW, sent_at=NOW - 1, retry_after_s=0.0)
        assert once.requests == pytest.approx(0.95)
        assert slowed(once, SIXTY, now=NOW + 2, sent_at=NOW + 1, retry_after_s=0.0).requests == pytest.approx(0.76)
        unknown = slowed(beginning(ProviderLimits()), ProviderLimits(), now=NOW, sent_at=NOW - 1, retry_after_s=0.0)
        assert unknown.requests == pytest.approx(0.8 * service_pace.START_REQUESTS)

    def it_pauses_longer_each_time_where_no_time_is_named(self):
        pace, pauses = beginning(SIXTY), []
        for turn in range(8):
            now = NOW + 100 * turn
            pace = slowed(pace, SIXTY, now=now, sent_at=now, retry_after_s=None)
            pauses.append(pace.closed_until - now)
        assert pauses == [0.5, 1, 2, 4, 8, 16, 20, 20]

    def it_never_stops_altogether(self):
        pace = beginning(SIXTY)
        for turn in range(100):
            pace = slowed(pace, SIXTY, now=NOW + turn, sent_at=NOW + turn, retry_after_s=1e9)
        assert (pace.requests, pace.tokens) == (service_pace.LEAST_REQUESTS, service_pace.LEAST_TOKENS)
        assert pace.closed_until <= NOW + 99 + service_pace.LONGEST_CLOSED_S

    def it_is_open_again_ten_minutes_after_a_service_asked_for_a_day(self):
        pace = slowed(FELT, SIXTY, now=NOW, sent_at=NOW, retry_after_s=86_400.0)
        pace = replace(pace, looked_at=NOW + 589)
        assert not ask(pace, now=NOW + 590, urgent=True, horizon_s=1.0).granted
        assert ask(pace, now=NOW + 600, urgent=True, horizon_s=1.0).granted

    def it_sends_one_request_a_minute_in_a_longer_pause_whose_answer_ends_it(self):
        pace = slowed(FELT, SIXTY, now=NOW, sent_at=NOW, retry_after_s=86_400.0)
        assert ask(pace, now=NOW + 20, horizon_s=1.0).wait_s == 40.0
        look = ask(pace, now=NOW + 60, horizon_s=1.0)
        assert (look.granted, look.wait_s) == (True, 0.0)
        other = ask(look.pace, now=NOW + 60.1, urgent=True, horizon_s=1.0)
        assert (other.granted, other.wait_s) == (False, pytest.approx(59.9))
        refused = slowed(look.pace, SIXTY, now=NOW + 61, sent_at=NOW + 60, retry_after_s=86_400.0)
        assert not ask(refused, now=NOW + 120, horizon_s=1.0).granted
        answered = service_pace.reopened(look.pace, now=NOW + 61)
        assert ask(answered, now=NOW + 61, horizon_s=1.0).granted

    def it_sends_nothing_in_a_pause_of_a_minute(self):
        pace = slowed(FELT, SIXTY, now=NOW, sent_at=NOW, retry_after_s=60.0)
        assert not any(ask(pace, now=NOW + second, horizon_s=0.5).granted for second in range(59))

    def it_recovers_from_a_clock_that_was_set_back_and_from_large_requests_at_the_least_rate(self):
        late = replace(FELT, closed_until=NOW + 1e6, request_at=NOW + 1e6, token_at=NOW + 1e6)
        for urgent in (False, True):
            grant = admit(late, SIXTY, now=NOW, tokens=1e9, urgent=urgent, horizon_s=600.0)
            assert grant.granted
            assert grant.wait_s <= 600.0


class DescribeQuickened:
    def it_comes_back_to_the_limit_that_is_known_and_no_further(self):
        pace = slowed(FELT, SIXTY, now=NOW, sent_at=NOW, retry_after_s=0.0)
        rates = []
        for second in range(1, 9):
            pace = quickened(pace, SIXTY, now=NOW + second, waited=False)
            rates.append(pace.requests)
        assert rates[:3] == pytest.approx([0.8 + n / 30 for n in (1, 2, 3)])
        assert rates[-1] == pytest.approx(1.0)
        assert pace.refusals == 0

    def it_does_not_grow_with_every_answer(self):
        pace = slowed(beginning(SIXTY), SIXTY, now=NOW, sent_at=NOW, retry_after_s=0.0)
        assert quickened(pace, SIXTY, now=NOW + 0.1, waited=True).requests == pace.requests

    def it_looks_for_a_limit_nobody_told_and_creeps_once_it_felt_one(self):
        unknown, pace = ProviderLimits(), beginning(ProviderLimits())
        assert quickened(pace, unknown, now=NOW, waited=False) == pace
        found = quickened(pace, unknown, now=NOW, waited=True)
        assert found.requests == 2 * service_pace.START_REQUESTS
        felt = slowed(found, unknown, now=NOW + 1, sent_at=NOW + 1, retry_after_s=0.0)
        after = quickened(felt, unknown, now=NOW + 2, waited=True)
        assert after.requests - felt.requests == pytest.approx(service_pace.START_REQUESTS / service_pace.CREEPING_S)

    @settings(max_examples=30)
    @given(
        steps=st.lists(st.tuples(st.floats(0, 5), st.booleans()), max_size=80),
        limits=st.sampled_from([SIXTY, ProviderLimits()]),
    )
    def it_stays_within_its_bounds_whatever_happens(self, steps, limits):
        pace, now = beginning(limits), NOW
        for gap, well in steps:
            now += gap
            if well:
                pace = quickened(pace, limits, now=now, waited=True)
            else:
                pace = slowed(pace, limits, now=now, sent_at=now, retry_after_s=None)
            most_requests, most_tokens = service_pace.most(limits, pace.reported)
            assert service_pace.LEAST_REQUESTS <= pace.requests <= (most_requests or service_pace.MOST_REQUESTS) + 1e-9
            assert service_pace.LEAST_TOKENS <= pace.tokens <= (most_tokens or service_pace.MOST_TOKENS) + 1e-9


class DescribeTold:
    def it_takes_a_first_limit_up_at_once(self):
        pace = adopt(beginning(ProviderLimits()), ProviderLimits(), ProviderLimits(requests=3000))
        assert pace.requests == pytest.approx(50 * HEADROOM)
        assert pace.tokens == service_pace.START_TOKENS

    def it_holds_to_the_lower_one_of_what_is_set_and_told(self):
        assert adopt(beginning(SIXTY), SIXTY, ProviderLimits(requests=3000)).requests == pytest.approx(1.0)
        assert adopt(beginning(SIXTY), SIXTY, ProviderLimits(requests=30)).requests == pytest.approx(0.5 * HEADROOM)

    def it_does_not_forget_a_limit_that_an_answer_leaves_out(self):
        pace = adopt(beginning(ProviderLimits()), ProviderLimits(), ProviderLimits(requests=600, tokens=60_000))
        assert adopt(pace, ProviderLimits(), ProviderLimits(requests=600)) == pace


class DescribeAlone:
    def it_takes_a_tenth(self):
        pace = service_pace.alone(adopt(ServicePace(), ProviderLimits(), ProviderLimits(requests=600, tokens=60_000)))
        assert pace.requests == pytest.approx(HEADROOM)
        assert ask(pace, limits=SIXTY.shared_by(service_pace.ALONE)).granted


class DescribeLimitsIn:
    @pytest.mark.parametrize(
        ("headers", "limits"),
        [
            ({}, (0, 0)),
            ({"limit-requests": "3000", "limit-tokens": "1000000"}, (3000, 1_000_000)),
            ({"limit-requests": "3000", "remaining-requests": "2999", "reset-requests": "20ms"}, (3000, 0)),
            ({"limit-tokens": "150000", "remaining-tokens": "149984", "reset-tokens": "6ms"}, (0, 150_000)),
            ({"limit-requests": "200", "remaining-requests": "199", "reset-requests": "7m12s"}, (0, 0)),  # of a day
            ({"limit-requests": "10000", "remaining-requests": "9999", "reset-requests": "8.64s"}, (0, 0)),
            ({"limit-requests": "60", "remaining-requests": "0", "reset-requests": "1m0s"}, (60, 0)),
            ({"limit-requests": "60", "remaining-requests": "60", "reset-requests": "0s"}, (60, 0)),
            ({"limit-requests": "many", "limit-tokens": "-5"}, (0, 0)),
            ({"limit-requests": "60", "reset-requests": "soon"}, (60, 0)),
        ],
    )
    def it_reads_what_services_say(self, headers, limits):
        found = service_pace.limits_in({f"x-ratelimit-{name}": value for name, value in headers.items()})
        assert (found.requests, found.tokens) == limits
