"""Being asked to stop. Signals only leave a note; whoever waits looks at it, so no step is torn in the middle."""

from __future__ import annotations

import signal
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_asked: list[int] = []


class Stopped(Exception):
    """Someone pressed Ctrl-C or sent SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell expects of a program that a signal ended."""
        return 128 + self.number


def listen() -> None:
    """Take note of signals from now on instead of dying of them. Call once, from the main thread."""

    def note(number: int, _frame: FrameType | None) -> None:
        _asked.append(number)

    for number in _SIGNALS:
        signal.signal(number, note)


def check() -> None:
    """Raise Stopped if a signal has come."""
    if _asked:
        raise Stopped(_asked[0])


def forget() -> None:
    """Take the note as read, so that clearing up can wait for things in peace."""
    _asked.clear()


def pause(seconds: float) -> None:
    """Sleep, then raise Stopped if a signal has come."""
    time.sleep(seconds)
    check()
