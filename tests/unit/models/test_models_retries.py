from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis.strategies import text

from pipeline.deadline import Deadline
from pipeline.errors import Rejected, Unavailable
from pipeline.models.retries import keep_trying
from pipeline.outbound.web import retry_after_s

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


class Attempts:
    """Fails with each error in turn, then returns how often it was called."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.count


class DescribeRetryAfter:
    @pytest.mark.parametrize(
        ("headers", "seconds"),
        [
            ({"retry-after": "7"}, 7.0),
            ({"retry-after": " 1.5 "}, 1.5),
            ({"retry-after": "0"}, 0.0),
            ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
            ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
            ({"retry-after": "Sun, 01 Mar 2026 12:00:30 -0000"}, 30.0),
            ({"retry-after": "soon"}, None),
            ({"retry-after": "-5"}, None),
            ({"retry-after": "٣"}, None),
            ({}, None),
        ],
    )
    def it_reads_seconds_and_dates(self, headers: dict[str, str], seconds: float | None):
        assert retry_after_s(headers, now=NOW, most_s=1e9) == seconds

    @pytest.mark.parametrize("value", ["86400", "9" * 400, "Sun, 21 Nov 2027 12:00:00 GMT"])
    def it_is_ten_minutes_at_most(self, value):
        assert retry_after_s({"retry-after": value}, now=NOW) == 600.0

    @given(text(max_size=40))
    def it_takes_anything(self, value: str):
        seconds = retry_after_s({"retry-after": value}, now=NOW)
        assert seconds is None or seconds >= 0


class DescribeKeepTrying:
    def it_returns_what_comes_in_the_end(self):
        attempts = Attempts(Unavailable("1"), Unavailable("2", retry_after_s=0.0))
        assert keep_trying(attempts, retries=2, deadline=Deadline.after(None), first_wait_s=0.001) == 3

    def it_raises_the_last_error_when_retries_are_used_up(self):
        attempts = Attempts(Unavailable("1"), Unavailable("2"), Unavailable("3"))
        with pytest.raises(Unavailable, match="2"):
            keep_trying(attempts, retries=1, deadline=Deadline.after(None), first_wait_s=0.001)

    def it_does_not_repeat_what_cannot_help(self):
        attempts = Attempts(Rejected("no"))
        with pytest.raises(Rejected):
            keep_trying(attempts, retries=5, deadline=Deadline.after(None))
        assert attempts.count == 1

    @pytest.mark.parametrize("seconds", [0.2, None])
    def it_gives_up_at_once_when_asked_to_wait_for_too_long(self, seconds: float | None):
        attempts = Attempts(Unavailable("later", retry_after_s=61.0))
        with pytest.raises(Unavailable) as raised:
            keep_trying(attempts, retries=5, deadline=Deadline.after(seconds))
        assert raised.value.retry_after_s == 61.0
        assert attempts.count == 1

    def it_stops_waiting_when_told_to(self):
        stop = threading.Event()
        attempts = Attempts(*[Unavailable("later", retry_after_s=30.0)] * 3)
        timer = threading.Timer(0.05, stop.set)
        timer.start()
        started = time.monotonic()
        with pytest.raises(Unavailable):
            keep_trying(attempts, retries=5, deadline=Deadline.after(None), stop=stop)
        assert time.monotonic() - started < 5.0
        assert attempts.count == 2
        timer.join()
