"""The process that reads a source, as seen by the run that started it: every wait has an end, and so has the process."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from pipeline.deadline import Deadline
from pipeline.errors import FetchFailed, FetchRefused, FetchUnavailable
from pipeline.outbound.addresses import Network
from pipeline.sandbox.pipes import BrokenFrame
from pipeline.sandbox.process import ChildProcess, Overdue, WaitLimit
from pipeline.sources.entry import Entry

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
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self._scratch}
        self._child = ChildProcess("pipeline.sources.read", environment=environment)
        order = {"url": url, "secret": dict(secret), "most_bytes": most_bytes, "scratch": self._scratch}
        order |= {"networks": ",".join(map(str, networks)), "folders": [str(folder) for folder in folders]}
        self._ask(order)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process with the programs it runs, and drop its files."""
        self._child.end()
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
        with self._translated():
            self._child.send(header, WaitLimit(Deadline.after(self._pause_s), self._meanwhile))

    def _next(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        with self._translated():
            header, body = self._child.receive(WaitLimit(Deadline.after(seconds), self._meanwhile))
        if "error" in header:
            raise _ERRORS.get(header["error"], FetchUnavailable)(header["detail"])
        return header, body

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Overdue:
            raise FetchUnavailable("the source did not answer in time") from None
        except (EOFError, BrokenPipeError, BrokenFrame):
            raise FetchUnavailable("reading the source ended before its time, perhaps for lack of memory") from None
