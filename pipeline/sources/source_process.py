"""The process that reads a source, as seen by the run that started it: every wait has an end, and so has the process."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import pipeline
from pipeline.deadline import Deadline
from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.addresses import Network
from pipeline.sandbox.pipes import BrokenFrame, packed, read_frame
from pipeline.sandbox.process import clean_environment
from pipeline.sources.entry import Entry

_ROOT = Path(pipeline.__file__).parent.parent
_AT_ONCE = 1024 * 1024  # bytes of a pipe between two looks at the clock
_MEANWHILE_S: Final = 1.0  # between two calls of ``meanwhile``
# Seconds until the first files come, since a repository is cloned before; then between two parts of a listing, and for a file.
PATIENCE: Final = (660.0, 120.0)
_ERRORS = {kind.__name__: kind for kind in (FetchRefused, FetchFailed, FetchUnavailable)}


class SourceProcess:
    """One running `pipeline.sources.read`; use it with ``with``."""

    def __init__(
        self,
        url: str,
        secret: Mapping[str, str],
        *,
        networks: Sequence[Network],
        folders: Sequence[Path],
        most_bytes: int,
        meanwhile: Callable[[], object],
        patience: tuple[float, float] = PATIENCE,
    ) -> None:
        """Start it. ``meanwhile`` is called while it is waited for, and may end the waiting by an error."""
        self._meanwhile, (self._first_s, self._pause_s) = meanwhile, patience
        self._scratch = tempfile.mkdtemp(prefix="chordwise-run-")
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pipeline.sources.read"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=_ROOT,
            env={**clean_environment(), "PATH": os.environ.get("PATH", os.defpath), "HOME": self._scratch},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for stream in (self._stdin, self._stdout):
            os.set_blocking(stream.fileno(), False)
        order = {"url": url, "secret": dict(secret), "most_bytes": most_bytes, "scratch": self._scratch}
        order |= {"networks": ",".join(map(str, networks)), "folders": [str(folder) for folder in folders]}
        self._ask(order)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process with the programs it runs, and drop its files."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            with suppress(BrokenPipeError):
                stream.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def entries(self) -> Iterator[Sequence[Entry]]:
        """Yield the files as they are listed, some hundred at a time. Raises FetchRefused, FetchFailed, FetchUnavailable."""
        allowed_s = self._first_s
        while True:
            header, _ = self._next(allowed_s)
            if "listed" in header:
                return
            allowed_s = self._pause_s
            names = ("path", "version", "size", "skipped", "hides")
            yield [Entry(**dict(zip(names, values, strict=True))) for values in header["entries"]]

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """Return the content of a file; None if it is gone. Raises FetchFailed for one that is too large, and as `entries`."""
        self._ask({"read": path})
        header, body = self._next(self._pause_s)
        if "gone" in header:
            return None
        if header["size"] > most_bytes:
            raise FetchFailed(f"it has more than {most_bytes} bytes")
        return body

    def _ask(self, header: dict[str, Any]) -> None:
        view, deadline = memoryview(packed(json.loads(json.dumps(header)))), Deadline.after(self._pause_s)
        try:
            while view:
                self._wait(self._stdin.fileno(), select.POLLOUT, deadline)
                with suppress(BlockingIOError):
                    view = view[os.write(self._stdin.fileno(), view[:_AT_ONCE]) :]
        except BrokenPipeError:
            raise FetchUnavailable("reading the source ended before its time") from None

    def _next(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        try:
            header, body = read_frame(partial(self._read, deadline=Deadline.after(seconds)))
        except (EOFError, BrokenFrame):
            raise FetchUnavailable("reading the source ended before its time, perhaps for lack of memory") from None
        if "error" in header:
            raise _ERRORS.get(header["error"], FetchUnavailable)(header["detail"])
        return header, body

    def _read(self, count: int, *, deadline: Deadline) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait(self._stdout.fileno(), select.POLLIN, deadline)
            with suppress(BlockingIOError):
                piece = os.read(self._stdout.fileno(), min(_AT_ONCE, count - len(data)))
                if not piece:
                    raise EOFError
                data += piece
        return bytes(data)

    def _wait(self, stream: int, event: int, deadline: Deadline) -> None:
        poll = select.poll()
        poll.register(stream, event)
        while not poll.poll(min(_MEANWHILE_S, deadline.left_s()) * 1000):
            if deadline.has_passed:
                raise FetchUnavailable("the source did not answer in time")
            self._meanwhile()
