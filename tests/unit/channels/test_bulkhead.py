"""Places for calls to one part: quick calls wait for each other, slow calls leave threads to the others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from pipeline.channels.bulkhead import Bulkhead
from pipeline.errors import CircuitOpen


class DescribePlaces:
    def it_refuses_a_call_where_slow_ones_hold_them_all(self):
        now = [0.0]
        bulkhead = Bulkhead(2, slow_s=0.3, clock=lambda: now[0])
        with ExitStack() as calls:
            calls.enter_context(bulkhead.place("semantic"))
            calls.enter_context(bulkhead.place("semantic"))
            now[0] = 0.31
            with pytest.raises(CircuitOpen, match="2 calls of semantic are slow"), bulkhead.place("semantic"):
                pass
            with bulkhead.place("keyword"):
                pass
        with bulkhead.place("semantic"):
            pass

    def it_does_not_refuse_while_slow_calls_succeed(self):
        now = [0.0]
        bulkhead = Bulkhead(2, slow_s=0.3, clock=lambda: now[0])
        with ExitStack() as calls:
            calls.enter_context(bulkhead.place("semantic"))
            now[0] = 0.4
            with bulkhead.place("semantic"):
                now[0] = 0.8
            calls.enter_context(bulkhead.place("semantic"))
            now[0] = 0.9
            third = threading.Timer(0.05, lambda: now.__setitem__(0, 1.11))  # no call has succeeded since 0.8
            third.start()
            with pytest.raises(CircuitOpen, match="2 calls of semantic are slow"), bulkhead.place("semantic"):
                pass
            assert now[0] == 1.11
            third.join()

    def it_counts_no_failed_call_as_a_success(self):
        now = [0.0]
        bulkhead = Bulkhead(1, slow_s=0.3, clock=lambda: now[0])

        def time_out() -> None:
            with bulkhead.place("semantic"):
                now[0] = 0.8
                raise KeyError("timed out")

        with pytest.raises(KeyError):
            time_out()
        with bulkhead.place("semantic"):
            now[0] = 1.2
            with pytest.raises(CircuitOpen), bulkhead.place("semantic"):
                pass

    def it_never_refuses_quick_calls_however_many(self):
        bulkhead = Bulkhead(2, slow_s=5.0)
        most, inside, lock = 0, 0, threading.Lock()
        both = threading.Barrier(2, timeout=5)

        def call(number: int) -> int:
            nonlocal most, inside
            with bulkhead.place("keyword"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                both.wait()
                with lock:
                    inside -= 1
            return number

        with ThreadPoolExecutor(6) as threads:
            assert sorted(threads.map(call, range(20))) == list(range(20))
        assert most == 2

    def it_gives_a_place_back_when_a_call_fails(self):
        bulkhead = Bulkhead(1, slow_s=0.0)
        for _ in range(3):
            with pytest.raises(KeyError), bulkhead.place("keyword"):
                raise KeyError("gone")

    @pytest.mark.parametrize(("threads", "places"), [(1, 1), (2, 1), (4, 3)])
    def it_leaves_one_thread_to_the_others(self, threads: int, places: int):
        bulkhead = Bulkhead(8, slow_s=0.0)
        bulkhead.resize(threads)
        with ExitStack() as calls:
            for _ in range(places):
                calls.enter_context(bulkhead.place("keyword"))
            with pytest.raises(CircuitOpen), bulkhead.place("keyword"):
                pass
