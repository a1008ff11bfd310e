"""The supervisor, with made-up processes and a made-up clock."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compose.localstack import processes
from compose.localstack.processes import Identity, Program
from compose.localstack.progress import Failure
from compose.localstack.supervisor import Supervisor, wait_before_restart


@dataclass
class FakeProcess:
    """``dies_at`` is the moment on the world's clock at which it is found dead."""

    dies_at: float
    pid: int = 0
    returncode: int = 1


@dataclass
class World:
    """A clock that only pauses move, and a list of how long each next process lives."""

    lives: list[float]
    now: float = 0.0
    starts: list[float] = field(default_factory=list)
    recorded: list[dict[str, Identity]] = field(default_factory=list)
    ready_after: float = 0.0

    def supervisor(self) -> Supervisor:
        return Supervisor(
            lambda running: self.recorded.append(dict(running)),
            spawn=self._spawn,
            finished=lambda process: self.now >= process.dies_at,  # type: ignore[attr-defined]
            clock=lambda: self.now,
            pause=self._pause,
        )

    def program(self, folder: Path) -> Program:
        def ready(_log: Path, _offset: int) -> bool:
            return self.now - self.starts[-1] >= self.ready_after

        return Program(name="it", command=("it",), log=folder / "it.log", ready=ready)

    def run_until(self, supervisor: Supervisor, moment: float) -> None:
        while self.now < moment:
            supervisor.tick()
            self._pause(0.5)

    def _spawn(self, _program: Program) -> Any:
        self.starts.append(self.now)
        return FakeProcess(dies_at=self.now + (self.lives.pop(0) if self.lives else float("inf")))

    def _pause(self, seconds: float) -> None:
        self.now += seconds


class DescribeTheSupervisor:
    @pytest.mark.parametrize(
        ("deaths", "seconds"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (7, 30), (100, 30), (1025, 30)]
    )
    def it_waits_longer_after_each_death_up_to_half_a_minute(self, deaths: int, seconds: int) -> None:
        assert wait_before_restart(deaths) == seconds

    def it_returns_once_everything_is_ready(self, tmp_path: Path) -> None:
        world = World(lives=[], ready_after=3.0)
        world.supervisor().start([world.program(tmp_path)], within_s=10)
        assert 3.0 <= world.now < 4.0

    def it_gives_up_on_what_dies_three_times_before_it_was_ready(self, tmp_path: Path) -> None:
        world = World(lives=[0.1, 0.1, 0.1], ready_after=5.0)
        with pytest.raises(Failure, match="it ended 3 times before it was ready") as failure:
            world.supervisor().start([world.program(tmp_path)], within_s=60)
        assert failure.value.log == tmp_path / "it.log"

    def it_gives_up_on_what_is_not_ready_in_time(self, tmp_path: Path) -> None:
        world = World(lives=[], ready_after=float("inf"))
        with pytest.raises(Failure, match="not ready within 10 s"):
            world.supervisor().start([world.program(tmp_path)], within_s=10)

    def it_starts_a_dead_one_again_for_ever_once_it_was_ready(self, tmp_path: Path) -> None:
        world = World(lives=[1.0] * 6)
        supervisor = world.supervisor()
        supervisor.start([world.program(tmp_path)], within_s=10)
        world.run_until(supervisor, 120.0)
        gaps = [round(after - before) for before, after in zip(world.starts, world.starts[1:], strict=False)]
        assert len(gaps) == 6
        assert gaps == sorted(gaps)
        assert gaps[0] <= 3
        assert gaps[-1] >= 30

    def it_forgives_earlier_deaths_after_a_steady_minute(self, tmp_path: Path) -> None:
        world = World(lives=[1.0, 1.0, 1.0, 100.0])
        supervisor = world.supervisor()
        supervisor.start([world.program(tmp_path)], within_s=10)
        world.run_until(supervisor, 130.0)
        assert world.starts[-1] - (world.starts[-2] + 100.0) <= 2.0

    def it_rotates_long_logs(self, tmp_path: Path) -> None:
        world = World(lives=[100.0])
        supervisor = world.supervisor()
        supervisor.start([world.program(tmp_path)], within_s=5)
        log = tmp_path / "it.log"
        with log.open("wb") as file:
            file.truncate(21 * 2**20)
        world.run_until(supervisor, 15)
        assert (log.stat().st_size, (tmp_path / "it.log.1").stat().st_size) == (0, 21 * 2**20)

    def it_reports_a_death_with_the_end_of_its_log(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        world = World(lives=[1.0])
        supervisor = world.supervisor()
        supervisor.start([world.program(tmp_path)], within_s=10)
        (tmp_path / "it.log").write_text("first\nno space left\n")
        world.run_until(supervisor, 10.0)
        said = capsys.readouterr().out
        assert "it ended (exit code 1), starting it again in 1 s" in said
        assert "no space left" in said
        assert "it: ready again" in said


class DescribeAnIdentity:
    def it_is_alive_as_long_as_its_process(self) -> None:
        ourselves = processes.identify(os.getpid())
        assert ourselves is not None
        assert ourselves.alive

    def it_is_not_taken_over_by_whoever_gets_its_number_next(self) -> None:
        assert not Identity(os.getpid(), "some other time").alive

    def it_is_nobody_when_there_is_no_such_process(self) -> None:
        assert processes.identify(2**22 + 1) is None
