"""Keep programs running: start them together, notice when they are ready, restart the dead."""

import re
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from . import processes, stopping, variables
from .ports import PortTaken
from .processes import Identity, Program
from .progress import Failure, say, tail

_LONGEST_WAIT_S = 30.0
_STEADY_AFTER_S = 60.0  # a program that ran this long has recovered, and its next wait is the shortest again
_HOPELESS_AFTER_DEATHS = 3  # deaths before the program was ready even once
_TICK_S = 0.1
_LOOK_AT_LOGS_S = 10.0
_MOST_LOG_BYTES = 20 * 2**20  # of a file and of the one before it, as in compose.yaml
_ADDRESS_IN_USE = re.compile(r"address already in use", re.IGNORECASE)  # in every server's own words


def wait_before_restart(deaths: int) -> float:
    """Return the seconds to wait after the given number of deaths in a row, counted from 1: 1, 2, 4, 8, 16, 30, 30 ..."""
    return min(_LONGEST_WAIT_S, 2.0 ** min(deaths - 1, 10))  # 2.0 ** 1024 overflows a float


@dataclass(slots=True)
class _Child:
    program: Program
    process: subprocess.Popen[bytes] | None = None
    identity: Identity | None = None
    log_starts_at: int = 0
    started_at: float = 0.0
    ready: bool = False
    was_ready: bool = False
    deaths: int = 0
    restart_at: float = 0.0


def _is_ready(child: _Child, pid: int) -> bool:
    """Return whether the program reports ready and itself listens on its port."""
    program = child.program
    if not program.ready(program.log, child.log_starts_at):
        return False
    return program.port is None or processes.listens(pid, program.port)


class Supervisor:
    """One stack's processes. ``record`` receives every change as a mapping from name to identity."""

    def __init__(
        self,
        record: Callable[[Mapping[str, Identity]], None],
        *,
        spawn: Callable[[Program], subprocess.Popen[bytes]] = processes.spawn,
        finished: Callable[[subprocess.Popen[bytes]], bool] = processes.finished,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = stopping.pause,
    ) -> None:
        self._record = record
        self._spawn = spawn
        self._finished = finished
        self._clock = clock
        self._pause = pause
        self._children: list[_Child] = []
        self._logs_seen_at = clock()

    def start(self, programs: Iterable[Program], *, within_s: float) -> None:
        """Start ``programs`` side by side; return when all are ready.

        Raises PortTaken if one cannot listen, and Failure if one keeps dying before it was ever ready, or is not ready
        ``within_s`` seconds from now.
        """
        begun = self._clock()
        added = [_Child(program) for program in programs]
        for child in added:
            self._children.append(child)
            self._launch(child)
        while waiting := [child for child in added if not child.was_ready]:
            self.tick()
            for child in waiting:
                if child.ready:
                    say(f"  {child.program.name}: ready after {self._clock() - begun:.1f} s")
                elif self._clock() - begun > within_s:
                    raise Failure(f"{child.program.name} was not ready within {within_s:.0f} s", log=child.program.log)
            self._pause(_TICK_S)

    def tick(self) -> None:
        """Look at every process once: report and reschedule the dead, start those whose wait is over. Rotate long logs."""
        if self._clock() - self._logs_seen_at > _LOOK_AT_LOGS_S:
            self._logs_seen_at = self._clock()
            for log in {child.program.log for child in self._children}:
                variables.rotate(log, most=_MOST_LOG_BYTES)
        for child in self._children:
            if child.process is None:
                if self._clock() >= child.restart_at:
                    self._launch(child)
            elif self._finished(child.process):
                self._bury(child, child.process)
            elif not child.ready and _is_ready(child, child.process.pid):
                if child.was_ready:
                    say(f"  {child.program.name}: ready again")
                child.ready = child.was_ready = True

    @property
    def names(self) -> set[str]:
        """Return the names of the programs that the supervisor keeps running."""
        return {child.program.name for child in self._children}

    def stop(self, names: Iterable[str] | None = None) -> None:
        """End the programs called ``names``, or all of them, concurrently; return when they are gone."""
        wanted = self.names if names is None else set(names)
        leaving = [child for child in self._children if child.program.name in wanted]
        self._children = [child for child in self._children if child.program.name not in wanted]
        processes.end_children([(child.program, child.process) for child in leaving if child.process is not None])
        self._report()

    def _launch(self, child: _Child) -> None:
        log = child.program.log
        child.log_starts_at = log.stat().st_size if log.exists() else 0
        child.ready = False
        child.started_at = self._clock()
        try:
            child.process = self._spawn(child.program)
        except OSError as error:
            raise Failure(f"{child.program.name} could not be started: {error}", log=log) from error
        child.identity = processes.identify(child.process.pid)
        self._report()

    def _bury(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        program = child.program
        if child.ready and self._clock() - child.started_at > _STEADY_AFTER_S:
            child.deaths = 0
        child.deaths += 1
        child.process, child.identity, child.ready = None, None, False
        log_end = tail(program.log, since=child.log_starts_at)
        if not child.was_ready and program.port is not None and _ADDRESS_IN_USE.search(log_end):
            raise PortTaken(program.name, log=program.log)
        how = f"exit code {process.returncode}" if process.returncode >= 0 else f"signal {-process.returncode}"
        if not child.was_ready and child.deaths >= _HOPELESS_AFTER_DEATHS:
            say(f"  {program.name} ended ({how}); its log ends:\n{log_end}")
            raise Failure(f"{program.name} ended {child.deaths} times before it was ready", log=program.log)
        wait = wait_before_restart(child.deaths)
        child.restart_at = self._clock() + wait
        say(f"  {program.name} ended ({how}), starting it again in {wait:.0f} s; its log ends:\n{log_end}")
        self._report()

    def _report(self) -> None:
        self._record({child.program.name: child.identity for child in self._children if child.identity is not None})
