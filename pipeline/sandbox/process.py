"""The parser process as seen by its parent: a plain subprocess, as Celery's children may not use `multiprocessing`."""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pipeline
from pipeline.deadline import Deadline
from pipeline.parsing.recognition import Recognition
from pipeline.sandbox.pipes import BrokenFrame, packed, read_frame

_ROOT = Path(pipeline.__file__).parent.parent
_AT_ONCE = 1024 * 1024  # bytes read or written between two checks of the clock
_START_S = 60.0  # for starting on a busy host, where a replacement would take as long
_MEANWHILE_S = 0.25  # seconds between two calls of ``meanwhile``


class NotStarted(Exception):
    """The process did not start."""


class ProcessOverdue(Exception):
    """The answer did not come in time, and the process was ended; ``cpu_s``: processor time that the stage used."""

    def __init__(self, cpu_s: float, *, stage: str | None) -> None:
        super().__init__(f"{cpu_s:.1f} s of processor time")
        self.cpu_s = cpu_s
        self.stage = stage


class ProcessDied(Exception):
    """The process ended instead of answering."""

    def __init__(self, exit_code: int, *, peak_bytes: int, cpu_s: float, stage: str | None) -> None:
        super().__init__(f"exit code {exit_code}")
        self.stage = stage
        self.exit_code = exit_code
        self.peak_bytes = peak_bytes
        self.cpu_s = cpu_s

    @property
    def out_of_time(self) -> bool:
        """Return whether it had used up its processor time."""
        return self.exit_code == -signal.SIGXCPU

    @property
    def killed_from_outside(self) -> bool:
        """Return whether another process killed it, perhaps for a reason unrelated to its document."""
        return self.exit_code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


class Overdue(Exception):
    """A pipe was not ready in time."""


@dataclass
class WaitLimit:
    """The deadline for an answer, and the function to call while waiting, whose time does not count."""

    deadline: Deadline
    meanwhile: Callable[[], object] | None = None

    def wait_for(self, stream: int, event: int) -> None:
        """Return once the stream is ready. Raises Overdue, and what ``meanwhile`` raises."""
        poll = select.poll()
        poll.register(stream, event)
        while True:
            left = self.deadline.left_s()
            if poll.poll((left if self.meanwhile is None else min(left, _MEANWHILE_S)) * 1000):
                return
            if left <= _MEANWHILE_S or self.meanwhile is None:
                raise Overdue
            left = self.deadline.left_s()
            self.meanwhile()
            self.deadline = Deadline.after(left)


class ChildProcess:
    """A module of ours in a process of its own, with frames on its standard streams. No wait is longer than its limit."""

    def __init__(self, module: str, *arguments: object, environment: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start the process and do not wait for it. Raises OSError."""
        self.owner = os.getpid()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={**_clean_environment(), **environment},
            start_new_session=True,  # Ctrl-C ends the worker, which ends this process and its own children
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.end = weakref.finalize(self, _end, self.process, self.owner)  # also if no caller ends it
        self._stdin, self._stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)

    def send(self, header: dict[str, Any], limit: WaitLimit, body: bytes = b"") -> None:
        """Write a frame. Raises Overdue, BrokenPipeError."""
        view = memoryview(packed(header, body))
        while view:
            limit.wait_for(self._stdin, select.POLLOUT)
            with suppress(BlockingIOError):
                view = view[os.write(self._stdin, view[:_AT_ONCE]) :]

    def receive(self, limit: WaitLimit) -> tuple[dict[str, Any], bytes]:
        """Read a frame. Raises Overdue, EOFError, BrokenFrame."""
        return read_frame(partial(self._read, limit=limit))

    def _read(self, count: int, limit: WaitLimit) -> bytes:
        data = bytearray()
        while len(data) < count:
            limit.wait_for(self._stdout, select.POLLIN)
            with suppress(BlockingIOError):
                piece = os.read(self._stdout, min(_AT_ONCE, count - len(data)))
                if not piece:
                    raise EOFError
                data += piece
        return bytes(data)


class ParserProcess:
    """One running `pipeline.sandbox.parse`."""

    def __init__(
        self, *, memory_bytes: int, parsing_s: float, cutting_s: float, recognition: Recognition | None = None
    ) -> None:
        """Start the process and do not wait for it. Raises OSError."""
        self.asked = 0
        self._stage: str | None = None
        self._cpu_s = 0.0  # at the beginning of its stage
        recognising = json.dumps(asdict(recognition)) if recognition else ""
        self._child = ChildProcess("pipeline.sandbox.parse", memory_bytes, parsing_s, cutting_s, recognising)
        self._is_ready = False
        self.unconfined: tuple[str, ...] = ()  # the layers that this system does not allow

    def wait_until_ready(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Return once it can be asked; ``meanwhile`` is called until then, and may end the waiting. Raises NotStarted, and
        what ``meanwhile`` raises."""
        if self._is_ready:
            return
        try:
            ready, _ = self._child.receive(WaitLimit(Deadline.after(_START_S), meanwhile))
        except (EOFError, Overdue, BrokenFrame) as error:
            self.end()
            raise NotStarted(f"exit code {self._child.process.returncode}") from error
        self.unconfined, self._is_ready = tuple(ready.get("unconfined", ())), True

    def is_ours(self) -> bool:
        """Return whether this process started it. A forked child would read answers to its parent's requests."""
        return self._child.owner == os.getpid()

    def ask(
        self,
        header: dict[str, Any],
        body: bytes,
        *,
        timeout_s: float,
        stages_s: Mapping[str, float] = MappingProxyType({}),
        meanwhile: Callable[[], None] | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """Send one frame and return its answer. ``stages_s``: the time limits of stages, from the beginning of each.
        Raises ProcessOverdue or ProcessDied. ``meanwhile`` is called until then; end the process if it raises."""
        limit = WaitLimit(Deadline.after(timeout_s), meanwhile)
        self.asked += 1
        self._stage = None
        try:
            self._child.send({**header, "number": self.asked}, limit, body)
            answer, text = self._next(limit)
            while "stage" in answer:
                self._stage, self._cpu_s = answer["stage"], answer["cpu_s"]
                limit.deadline = Deadline.after(stages_s[answer["stage"]])
                answer, text = self._next(limit)
        except Overdue:
            _kill(self._child.process)
            raise ProcessOverdue(self._buried().cpu_s - self._cpu_s, stage=self._stage) from None
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise self._buried() from None
        self._cpu_s = answer.get("cpu_s", 0.0)
        return answer, text

    def _next(self, limit: WaitLimit) -> tuple[dict[str, Any], bytes]:
        answer, text = self._child.receive(limit)
        if answer.get("number") != self.asked:
            raise BrokenFrame("the answer is to another question")
        return answer, text

    def end(self) -> None:
        """Kill the process. It holds no state that could be lost."""
        self._child.end()

    def _buried(self) -> ProcessDied:
        """Collect a dead or dying process, and return the cause, its memory and its time."""
        _, status, usage = os.wait4(self._child.process.pid, 0)
        self._child.process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss * 1024
        if usage.ru_maxrss <= resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            peak = 0  # unknown: the kernel includes this process's own memory at the start of the other
        cpu_s = usage.ru_utime + usage.ru_stime
        return ProcessDied(self._child.process.returncode, peak_bytes=peak, cpu_s=cpu_s, stage=self._stage)


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if owner == os.getpid() and process.returncode is None:
        _kill(process)
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that was not waited for yet, and the programs it runs: they are one session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def _clean_environment() -> dict[str, str]:
    """Return an environment without settings or keys but with the same packages, and one thread for numpy."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *(folder for folder in sys.path if os.path.isabs(folder))]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUTF8": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
