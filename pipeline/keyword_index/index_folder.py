"""The folder of a host's keyword indexes: the lock of its one writer, its installation's id, a liveness file, and a pipe: a
named pipe by which the host's other processes wake the indexer.

The liveness file's modification time is a promise: until then, by the host's monotonic clock, the indexer looks for
changes. Its access time is when the indexes last matched MySQL. A wall clock that jumps affects neither, and after a
restart of the host both lie too far in the future to be believed.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipeline.errors import WrongInstallation

_LOCK_LOOKED_AT_S = 1.0
_LONGEST_PROMISE_S = 120.0


class IndexFolder:
    """The folder ``root``; ``clock`` is the host's monotonic clock, in seconds."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self._clock = clock
        self._sign = root / "indexer.alive"
        self._pipe = root / "indexer.pipe"

    def promise(self, seconds: float, *, is_current: bool = False) -> None:
        """Promise to look for changes in ``seconds``; ``is_current``: the indexes match MySQL now. Raises OSError."""
        now = self._clock()
        until = int((now + min(seconds, _LONGEST_PROMISE_S)) * 1e9)
        try:
            current = int(now * 1e9) if is_current else os.stat(self._sign).st_atime_ns
            os.utime(self._sign, ns=(current, until))
        except FileNotFoundError:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sign.touch(mode=0o600)
            os.utime(self._sign, ns=(int(now * 1e9) if is_current else 0, until))

    def behind_s(self) -> float | None:
        """Return the seconds since the indexes were last current; None if they never were since the host started."""
        try:
            seconds = self._clock() - os.stat(self._sign).st_atime
        except OSError:
            return None
        return seconds if 0 <= seconds < self._clock() else None

    def is_served(self) -> bool:
        """Return whether an indexer has promised to look for changes. Costs one `stat`."""
        try:
            remaining = os.stat(self._sign).st_mtime - self._clock()
        except OSError:
            return False
        return 0 < remaining <= _LONGEST_PROMISE_S

    def wake(self) -> None:
        """Have this host's indexer look for changes now; without one, do nothing. Never waits."""
        with suppress(OSError):
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"!")
            finally:
                os.close(pipe)

    @contextmanager
    def wake_pipe(self) -> Iterator[WakePipe]:
        """Yield the pipe that `wake` writes to; one that stays silent where the file system has no named pipes."""
        descriptor: int | None = None
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkfifo(self._pipe, 0o600)
            descriptor = os.open(self._pipe, os.O_RDWR | os.O_NONBLOCK)  # a second end of ours: others may close theirs
        try:
            yield WakePipe(descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextmanager
    def alone(self, stop: threading.Event, waits: Callable[[], object]) -> Iterator[bool]:
        """Hold the folder's lock, waiting for it (call ``waits`` once); yield False if ``stop`` is set first."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.root / "indexer.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            is_locked = _try_lock(lock)
            if not is_locked:
                waits()
            while not is_locked and not stop.wait(_LOCK_LOOKED_AT_S):
                is_locked = _try_lock(lock)
            yield is_locked
        finally:
            os.close(lock)

    def belong_to(self, installation_id: str, *, is_alone: bool) -> None:
        """Record the chunks' installation, deleting another's as the one writer. Raises WrongInstallation, OSError."""
        id_file = self.root / "installation"
        theirs = id_file.read_text().strip() if id_file.exists() else installation_id
        if theirs != installation_id and not is_alone:
            raise WrongInstallation(
                f"the indexer of installation {theirs} works in {self.root}, and this one belongs to {installation_id}:"
                " set CHORDWISE_KEYWORD_INDEX_DIR to a folder for each"
            )
        if is_alone:
            for folder in self.root.glob("format-*") if theirs != installation_id else ():
                shutil.rmtree(folder)
            id_file.write_text(installation_id)


class WakePipe:
    """A named pipe from whose ``descriptor`` is read; None for one that nobody can write to."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @property
    def can_wake(self) -> bool:
        """Return whether others can write to it."""
        return self._descriptor is not None

    def wait(self, seconds: float) -> bool:
        """Wait until somebody writes to it, or wrote since the last call, for ``seconds`` at most. Return whether one did."""
        if self._descriptor is None:
            time.sleep(seconds)
            return False
        is_woken = bool(select.select([self._descriptor], [], [], seconds)[0])
        if is_woken:
            os.read(self._descriptor, 4096)
        return is_woken


def disk_bytes(root: Path) -> int:
    """Return the bytes on disk of all indexes below ``root``; a file deleted meanwhile counts 0."""
    sizes = 0
    for folder, _, names in os.walk(root):
        for name in names:
            with suppress(OSError):
                sizes += os.stat(f"{folder}/{name}").st_size
    return sizes


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
