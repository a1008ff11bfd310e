from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from pipeline.threads import CallThreads, DelayedCall

SOON_S = 5.0  # within which a thread of a test goes on, on a busy machine
REQUEST: ContextVar[str] = ContextVar("request", default="none")


class DescribeCallThreads:
    def it_gives_what_the_call_returns_or_raises(self):
        threads = CallThreads(2)
        assert threads.start(divmod, 7, 2).result(SOON_S) == (3, 1)
        assert isinstance(threads.start(divmod, 7, 0).exception(SOON_S), ZeroDivisionError)

    def it_calls_with_the_callers_context(self):
        REQUEST.set("a")
        assert CallThreads(1).start(REQUEST.get).result(SOON_S) == "a"

    def it_makes_a_thread_for_each_call_under_way(self):
        threads, meet = CallThreads(3), threading.Barrier(3)
        assert sorted(future.result(SOON_S) for future in [threads.start(meet.wait, SOON_S) for _ in range(3)]) == [
            0,
            1,
            2,
        ]

    def it_queues_calls_beyond_its_threads_and_skips_those_given_up(self):
        threads, go = CallThreads(1), threading.Event()
        first = threads.start(go.wait, SOON_S)
        given_up, last = threads.start(go.clear), threads.start(go.is_set)
        assert given_up.cancel()
        go.set()
        assert (first.result(SOON_S), last.result(SOON_S)) == (True, True)

    def it_neither_fails_a_forked_child_nor_delays_the_end_of_the_process(self):
        code = (
            "import os, sys, threading\n"
            "from pipeline.threads import start_call\n"
            "assert start_call(int, '7').result(5) == 7\n"
            "hanging = start_call(threading.Event().wait)\n"
            "if os.fork() == 0:\n"
            "    os._exit(start_call(int, '3').result(5))\n"
            "sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))\n"
        )
        assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=30, check=False).returncode == 3


class DescribeADelayedCall:
    def it_is_made_once_for_several_requests_and_again_for_later_ones(self):
        made = threading.Semaphore(0)
        delayed = DelayedCall(made.release, seconds=0.05)
        for _ in range(5):
            delayed.request()
        assert made.acquire(timeout=SOON_S)
        delayed.request()
        assert made.acquire(timeout=SOON_S)
        assert not made.acquire(blocking=False)

    @pytest.mark.parametrize("again", [False, True])
    def it_is_not_made_after_it_was_cancelled_unless_it_is_requested_again(self, again):
        made = threading.Event()
        delayed = DelayedCall(made.set, seconds=0.05 if again else 60.0)
        delayed.request()
        delayed.cancel()
        if again:
            delayed.request()
        assert made.wait(SOON_S if again else 0.0) is again
