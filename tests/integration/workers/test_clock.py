"""Several clocks of one installation: one sends, the others stand by and take over."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from pipeline.settings import Settings
from tests.conftest import redis_of_its_own
from tests.support.stacks.processes import process, wait_for_log
from workers.clock import LOCK_S


class DescribeClocks:
    @pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
    def it_has_one_active_and_another_that_takes_over(self, settings: Settings, tmp_path: Path, ending: signal.Signals):
        def clock(name: str):  # type: ignore[no-untyped-def]
            urls = {"CHORDWISE_REDIS_URL": redis_url, "CHORDWISE_BROKER_URL": redis_url}
            arguments = ("workers.server", "clock", "--schedule", str(tmp_path / f"{name}-schedule"))
            return process(*arguments, log=tmp_path / f"{name}.log", **urls)

        first, second = tmp_path / "first.log", tmp_path / "second.log"
        with redis_of_its_own(settings) as redis_url, clock("first") as one:
            wait_for_log(first, "clock_active")
            wait_for_log(first, "Sending due task")
            with clock("second"):
                wait_for_log(second, "clock_standby")
                assert "Sending due task" not in second.read_text()
                os.killpg(one.pid, ending)
                one.wait(timeout=15)
                wait_for_log(second, "clock_active", seconds=5 if ending is signal.SIGTERM else LOCK_S + 10)
                wait_for_log(second, "Sending due task")
