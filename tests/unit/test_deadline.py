from __future__ import annotations

import math
import time

import pytest

from pipeline.deadline import Deadline


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


class DescribeDeadline:
    @pytest.mark.parametrize(
        ("now", "left_s", "overdue_s", "has_passed"),
        [(100.0, 2.0, 0.0, False), (101.5, 0.5, 0.0, False), (102.0, 0.0, 0.0, True), (105.0, 0.0, 3.0, True)],
    )
    def it_counts_down_and_never_below_zero(self, clock, now, left_s, overdue_s, has_passed):
        deadline = Deadline.after(2.0, clock=clock)
        clock.now = now
        assert (deadline.left_s(), deadline.overdue_s(), deadline.has_passed) == (left_s, overdue_s, has_passed)

    def it_bounds_steps_that_are_shorter_and_longer(self, clock):
        deadline = Deadline.after(2.0, clock=clock)
        assert (deadline.left_s(), deadline.within(5.0), deadline.within(1.0)) == (2.0, 2.0, 1.0)

    def it_is_never_reached_without_seconds(self, clock):
        deadline = Deadline.after(None, clock=clock)
        clock.now = 1e12
        assert (deadline.left_s(), deadline.overdue_s(), deadline.has_passed) == (math.inf, 0.0, False)
        assert deadline.within(3.0) == 3.0
        assert deadline.at_most(3.0).left_s() == 3.0

    def it_is_a_moment_of_the_wall_clock_in_messages(self):
        assert Deadline(time.time() + 5.0).left_s() == pytest.approx(5.0, abs=1.0)
        assert Deadline(time.time() - 5.0).has_passed

    @pytest.mark.parametrize(("seconds", "allowed_s"), [(0.5, 0.5), (2.0, 2.0), (9.0, 2.0)])
    def it_bounds_the_timeout_of_a_step(self, clock, seconds, allowed_s):
        deadline = Deadline.after(2.0, clock=clock)
        assert deadline.within(seconds) == allowed_s
        assert deadline.at_most(seconds).left_s() == allowed_s

    def it_leaves_time_for_what_follows(self, clock):
        deadline = Deadline.after(2.0, clock=clock)
        assert deadline.before(0.5).left_s() == 1.5
        assert deadline.before(3.0).has_passed

    def it_gives_a_share_of_what_is_left(self, clock):
        deadline = Deadline.after(4.0, clock=clock)
        clock.now = 102.0
        assert deadline.share(0.25).left_s() == 0.5

    def it_keeps_its_clock(self, clock):
        for made in (Deadline.after(1.0, clock=clock), Deadline(200.0, clock)):
            assert {each.clock for each in (made.at_most(1.0), made.share(0.5), made.before(1.0))} == {clock}
