"""The folder of a host's keyword indexes: the lock of its one writer, the installation it belongs to, and a sign of life.

The sign is a file whose time of modification is a promise: until then, by the host's monotonic clock, the indexer looks
for changes. A wall clock that jumps changes nothing about it, and after a restart of the host it lies too far ahead to be
believed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

    def promise(self, seconds: float) -> None:
        """Say that somebody looks for changes within ``seconds`` from now on. Raises OSError."""
        until = int((self._clock() + min(seconds, _LONGEST_PROMISE_S)) * 1e9)
        try:
            os.utime(self._sign, ns=(until, until))
        except FileNotFoundError:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._sign.touch(mode=0o600)
            os.utime(self._sign, ns=(until, until))

    def is_served(self) -> bool:
        """Whether an indexer has promised to look for changes. Costs one look at a file."""
        try:
            remaining = os.stat(self._sign).st_mtime - self._clock()
        except OSError:
            return False
        return 0 < remaining <= _LONGEST_PROMISE_S

    @contextmanager
    def alone(self, stop: threading.Event, waits: Callable[[], object]) -> Iterator[bool]:
        """Hold the folder's lock, waiting for it; gives False if ``stop`` is set first. ``waits`` is called once if another
        process has it. The lock ends with the process, however that ends. Raises OSError."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.root / "indexer.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            is_told = False
            while not _locked(lock):
                if not is_told:
                    waits()
                    is_told = True
                if stop.wait(_LOCK_LOOKED_AT_S):
                    yield False
                    return
            yield True
        finally:
            os.close(lock)

    def belong_to(self, installation_id: str, *, is_alone: bool) -> None:
        """Note whose chunks are in here, and as the one writer delete those of another installation. Raises
        WrongInstallation if another one's indexer is at work here, and OSError."""
        note = self.root / "installation"
        theirs = note.read_text().strip() if note.exists() else installation_id
        if theirs != installation_id and not is_alone:
            raise WrongInstallation(
                f"the indexer of installation {theirs} works in {self.root}, and this one belongs to {installation_id}:"
                " set CHORDWISE_KEYWORD_INDEX_DIR to a folder for each"
            )
        if is_alone:
            for folder in self.root.glob("format-*") if theirs != installation_id else ():
                shutil.rmtree(folder)
            note.write_text(installation_id)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
