"""Several clocks of one installation: one sends, the others stand by and take over."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from pipeline.jobs.clock_lock_store import KEY
from pipeline.settings import Settings
from tests.conftest import redis_of_its_own
from tests.support.stacks.processes import process, wait_for_log
from workers.clock import LOCK_S


class DescribeClocks:
    @pytest.mark.parametrize(
        "ending",
        [
            pytest.param(signal.SIGKILL, id="killed"),
            pytest.param(signal.SIGTERM, id="ended", marks=pytest.mark.thorough),
        ],
    )
    def it_has_one_active_and_another_that_takes_over(self, settings: Settings, tmp_path: Path, ending: signal.Signals):
        """The other one is a worker that is a clock as well. It takes over at once from a clock that is ended, and from one
        that is killed once its lock expires; the test brings the expiry forward instead of waiting for it."""

        def clock(name: str):  # type: ignore[no-untyped-def]
            urls = {"CHORDWISE_REDIS_URL": redis_url, "CHORDWISE_BROKER_URL": redis_url}
            schedule = str(tmp_path / f"{name}-schedule")
            arguments = ("workers.server", "clock", "--schedule", schedule)
            if name == "second":
                arguments = ("workers.server", "worker", "--role", "upkeep", "--concurrency", "2", "--clock", schedule)
            return process(*arguments, log=tmp_path / f"{name}.log", **urls)

        first, second = (tmp_path / f"{name}.log" for name in ("first", "second"))
        with redis_of_its_own(settings) as redis_url, ExitStack() as whole:
            active = whole.enter_context(clock("first"))
            wait_for_log(first, "clock_active")
            wait_for_log(first, "Sending due task")
            whole.enter_context(clock("second"))
            wait_for_log(second, "clock_standby")
            assert "Sending due task" not in second.read_text()
            os.killpg(active.pid, ending)
            active.wait(timeout=15)
            if ending is signal.SIGKILL:
                with redis.Redis.from_url(redis_url) as client:
                    assert 0 < client.pttl(KEY) <= LOCK_S * 1000
                    client.pexpire(KEY, 1)
            wait_for_log(second, "clock_active", seconds=5)
            wait_for_log(second, "Sending due task")
