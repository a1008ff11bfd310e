from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from pipeline.caches import RecentValues, RefreshingValue
from pipeline.errors import PipelineError, StoreUnavailable

SOON_S = 5.0  # within which a thread of a test goes on, on a busy machine


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Source:
    """Numbers its readings from 1. ``gate`` holds them up, ``error`` fails them."""

    def __init__(self) -> None:
        self.readings = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.began = threading.Event()
        self.failures: list[PipelineError] = []

    def read(self) -> int:
        self.readings += 1
        self.began.set()
        assert self.gate.wait(SOON_S)
        if self.error is not None:
            raise self.error
        return self.readings

    def hold(self) -> None:
        self.gate.clear()
        self.began.clear()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def refreshing(source, clock) -> Callable[..., RefreshingValue[int]]:
    def make(**options: object) -> RefreshingValue[int]:
        return RefreshingValue(source.read, fresh_s=1.0, on_failure=source.failures.append, clock=clock, **options)

    return make


def in_threads(call: Callable[[], object], count: int) -> tuple[list[threading.Thread], list[object]]:
    results: list[object] = []

    def run() -> None:
        try:
            results.append(call())
        except StoreUnavailable as error:
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads, results


def until(is_true: Callable[[], bool]) -> None:
    ends = time.monotonic() + SOON_S
    while not is_true():
        assert time.monotonic() < ends
        time.sleep(0.001)


@pytest.mark.parametrize("patience_s", [None, SOON_S])
class DescribeARefreshingValue:
    def it_reads_again_once_the_value_is_old(self, refreshing, clock, patience_s):
        value = refreshing(patience_s=patience_s)
        seen = []
        for clock.now in (0.0, 0.9, 1.0, 1.5, 2.1):
            seen.append(value.get())
        assert seen == [1, 1, 2, 2, 3]
        assert value.last == 3

    def it_returns_the_old_value_while_readings_fail(self, refreshing, source, clock, patience_s):
        value = refreshing(patience_s=patience_s)
        assert value.get() == 1
        source.error = StoreUnavailable("away")
        seen = []
        for clock.now in (2.0, 2.5, 3.5):
            seen.append(value.get())
            until(lambda: value._refresh is None)
        assert seen == [1, 1, 1]
        assert (source.readings, len(source.failures)) == (3, 2)
        source.error = None
        clock.now = 5.0
        value.get()
        until(lambda: value._refresh is None)
        assert value.get() == 4

    def it_raises_while_there_is_no_value(self, refreshing, source, clock, patience_s):
        value = refreshing(patience_s=patience_s)
        source.error = StoreUnavailable("away")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                value.get()
        assert (source.readings, source.failures, value.last) == (2, [], None)
        source.error = None
        assert value.get() == 3

    def it_gives_concurrent_callers_the_old_value(self, refreshing, source, clock, patience_s):
        value = refreshing(patience_s=patience_s)
        value.get()
        source.hold()
        clock.now = 2.0
        [first], results = in_threads(value.get, 1)
        assert source.began.wait(SOON_S)
        assert [value.get() for _ in range(3)] == [1, 1, 1]
        source.gate.set()
        first.join()
        assert (results, source.readings, value.get()) == ([2], 2, 2)

    @pytest.mark.parametrize("error", [None, StoreUnavailable("away")])
    def it_shares_the_very_first_reading(self, refreshing, source, patience_s, error):
        source.hold()
        source.error = error
        value = refreshing(patience_s=patience_s)
        threads, results = in_threads(value.get, 4)
        assert source.began.wait(SOON_S)
        time.sleep(0.05)
        source.gate.set()
        for thread in threads:
            thread.join()
        assert (results, source.readings) == ([error or 1] * 4, 1)

    def it_reads_at_once_when_told_to(self, refreshing, source, patience_s):
        value = refreshing(patience_s=patience_s)
        assert [value.get(), value.refresh(), value.get()] == [1, 2, 2]
        source.error = StoreUnavailable("away")
        assert value.refresh() == 2

    def it_takes_a_value_that_is_known_from_elsewhere(self, refreshing, clock, patience_s):
        value = refreshing(patience_s=patience_s)
        value.get()
        value.put(40)
        assert value.get() == 40
        clock.now = 1.0
        assert value.get() == 2

    def it_does_not_block_with_an_initial_value(self, refreshing, source, patience_s):
        value = refreshing(patience_s=patience_s, initial=(0,))
        source.hold()
        [first], _ = in_threads(value.get, 1)
        assert source.began.wait(SOON_S)
        assert value.get() == 0
        source.gate.set()
        first.join()
        assert value.get() == 1


class DescribeABug:
    def it_is_raised_although_there_is_an_old_value(self, refreshing, source, clock):
        value = refreshing()
        value.get()
        source.error = ZeroDivisionError()
        clock.now = 2.0
        with pytest.raises(ZeroDivisionError):
            value.get()
        assert (value.last, source.failures) == (1, [])


class DescribePatience:
    def it_waits_shortly_for_a_reading_that_hangs_and_then_not_at_all(self, refreshing, source, clock):
        value = refreshing(patience_s=0.05)
        value.get()
        source.hold()
        clock.now = 2.0
        began = time.monotonic()
        assert [value.get() for _ in range(3)] == [1, 1, 1]
        assert time.monotonic() - began < SOON_S / 2
        source.gate.set()
        until(lambda: value.last == 2)
        assert value.get() == 2

    def it_does_not_wait_when_told_not_to(self, refreshing, source, clock):
        value = refreshing(patience_s=SOON_S)
        value.get()
        source.hold()
        clock.now = 2.0
        began = time.monotonic()
        assert value.get(patient=False) == 1
        assert time.monotonic() - began < SOON_S / 2
        source.gate.set()
        until(lambda: value.last == 2)


class DescribeRecentValues:
    def it_makes_each_value_once_and_forgets_the_one_unused_for_longest(self):
        recent: RecentValues[str, str] = RecentValues(2)
        made: list[str] = []

        def make(name: str) -> str:
            made.append(name)
            return name

        for name in "abacab":
            assert recent.get(name, lambda name=name: make(name)) == name
        assert made == ["a", "b", "c", "b"]

    def it_makes_missing_values_in_one_call(self):
        recent: RecentValues[str, str] = RecentValues(8)
        recent.put("b", "B")
        asked: list[list[str]] = []

        def make(keys: list[str]) -> list[str]:
            asked.append(keys)
            return [key.upper() for key in keys]

        assert recent.get_many(["c", "b", "a", "c"], make) == ["C", "B", "A", "C"]
        assert recent.get_many(["a", "b"], make) == ["A", "B"]
        assert asked == [["c", "a"]]

    def it_keeps_values_for_a_time(self, clock):
        recent: RecentValues[str, int] = RecentValues(8, ttl_s=60.0, clock=clock)
        recent.put("a", 1)
        clock.now = 59.0
        assert recent.get("a", lambda: 2) == 1
        clock.now = 60.0
        assert recent.get("a", lambda: 2) == 2

    def it_forgets(self):
        recent: RecentValues[str, int] = RecentValues(8)
        recent.put("a", 1)
        recent.put("a", 2)
        assert ("a" in recent, recent.get("a", lambda: 3)) == (True, 1)
        recent.forget("a")
        recent.forget("a")
        assert "a" not in recent
