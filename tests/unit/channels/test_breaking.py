"""The state machine of circuit breakers: a table of what follows from what, and the laws it keeps to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.channels.circuit_breaker_store import (
    CLOSED,
    BreakerLimits,
    Circuit,
    CircuitState,
    Permission,
)

LIMITS = BreakerLimits(failures=3, open_s=10.0)
SHARED = BreakerLimits(failures=4, open_s=10.0).between_callers()


def told(story: str, limits: BreakerLimits = LIMITS) -> Circuit:
    """The circuit after a story, one letter a second: ``s`` a success, ``p`` a probe is let through, another letter is
    the failure of the caller of this name."""
    circuit = CLOSED
    for now, letter in enumerate(story):
        if letter == "s":
            circuit = CLOSED
        elif letter == "p":
            circuit = circuit.probed(limits, now=float(now))
        elif letter != " ":
            circuit = circuit.failed(limits, now=float(now), caller=letter)
    return circuit


class DescribeACircuit:
    @pytest.mark.parametrize(
        ("story", "state"),
        [
            ("", "closed"),
            ("aa", "closed"),
            ("aaa", "open"),
            ("aasaa", "closed"),
            ("abc", "open"),
            ("aaas", "closed"),
            ("aaap", "half_open"),
            ("aaaps", "closed"),
            ("aaapa", "open"),
            ("aaapap", "half_open"),
        ],
    )
    def it_is(self, story, state):
        assert told(story).state == state

    @pytest.mark.parametrize(
        ("story", "now", "allowed"),
        [
            ("aa", 2.0, "call"),
            ("aaa", 2.0, "refused"),
            ("aaa", 11.9, "refused"),
            ("aaa", 12.0, "probe"),
            ("aaap", 12.9, "refused"),  # one probe at a time
            ("aaap", 13.0, "probe"),  # whose process may have died
            ("aaapa", 13.9, "refused"),
            ("aaapa", 14.0, "probe"),
        ],
    )
    def it_answers_who_asks(self, story, now, allowed):
        assert told(story).permission(now=now) == allowed

    @pytest.mark.parametrize(("ahead_s", "allowed"), [(10.0, "refused"), (10.1, "probe"), (7200.0, "probe")])
    def it_is_probed_if_another_process_opened_it_for_longer_than_anybody_may(self, ahead_s, allowed):
        assert Circuit(open_until=100.0 + ahead_s).permission(now=100.0, longest_s=10.0) == allowed

    def it_is_not_kept_open_by_calls_that_were_under_way(self):
        assert told("aaaaaa").open_until == told("aaa").open_until

    @pytest.mark.parametrize(
        ("story", "state"),
        [("aaaaaaaaaa", "closed"), ("aab", "closed"), ("aabb", "open"), ("aaaaaaab", "closed"), ("abcd", "open")],
    )
    def it_is_not_opened_by_one_of_those_who_share_it(self, story, state):
        assert told(story, SHARED).state == state

    @pytest.mark.parametrize("failures", range(1, 12))
    def it_takes_two_callers_whatever_the_limit(self, failures):
        limits = BreakerLimits(failures=failures, open_s=1.0).between_callers()
        assert told("a" * 50, limits).state == CircuitState.CLOSED
        assert told("ab" * 50, limits).state == CircuitState.OPEN


stories = st.text(alphabet="abcs ", max_size=60)


class DescribeLaws:
    @given(stories)
    def it_opens_only_after_enough_failures_in_a_row(self, story):
        if told(story).state is CircuitState.OPEN:
            assert len(story.replace(" ", "").rpartition("s")[2]) >= LIMITS.failures

    @given(stories)
    def it_is_clean_after_any_success(self, story):
        assert told(story + "s") == CLOSED

    @settings(max_examples=30)
    @given(stories, st.floats(min_value=0, max_value=1000))
    def it_never_refuses_for_longer_than_it_is_open(self, story, later):
        if later >= len(story) + LIMITS.open_s:
            assert told(story).permission(now=later) is not Permission.REFUSED

    @settings(max_examples=30)
    @given(stories)
    def it_remembers_no_more_than_matters(self, story):
        assert told(story).failures <= LIMITS.failures
        assert len(told(story, SHARED).counted) <= SHARED.failures
