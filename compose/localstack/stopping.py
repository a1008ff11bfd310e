"""Requests to stop. Signal handlers only set a flag, and waiting code checks it, so no step is interrupted in the
middle."""

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
        """Return the exit code that a shell expects of a program that a signal ended."""
        return 128 + self.number


def listen() -> None:
    """Record signals from now on instead of dying of them. Call once, from the main thread."""

    def record(number: int, _frame: FrameType | None) -> None:
        _asked.append(number)

    for number in _SIGNALS:
        signal.signal(number, record)


def check() -> None:
    """Raise Stopped if a signal has come."""
    if _asked:
        raise Stopped(_asked[0])


def forget() -> None:
    """Clear the flag, so that the cleanup can wait."""
    _asked.clear()


def pause(seconds: float) -> None:
    """Sleep, then raise Stopped if a signal has come."""
    time.sleep(seconds)
    check()
