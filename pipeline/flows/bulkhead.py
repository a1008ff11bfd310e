"""Keep threads free for the other parts while calls to one part hang."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pipeline.errors import CircuitOpen

SLOW_S: Final = 0.3  # seconds after which a call counts as slow: less than half of the usual timeout of a channel


class Bulkhead:
    """Places for calls to each part (a channel, or reading texts) in this process; thread-safe. A part may hold
    ``most`` threads; a further call waits until the oldest of them is slow, then it is refused (Nygard, "Release It!",
    2018: Bulkheads)."""

    def __init__(self, most: int, *, slow_s: float = SLOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._slow_s = slow_s
        self._clock = clock
        self._begun: defaultdict[str, list[float]] = defaultdict(list)
        self._changed = threading.Condition()

    def resize(self, threads: int) -> None:
        """Leave one of ``threads`` to the other parts."""
        with self._changed:
            self._most = max(1, threads - 1)
            self._changed.notify_all()

    @contextmanager
    def place(self, part: str) -> Iterator[None]:
        """Hold a thread for a call to ``part``. Raises CircuitOpen if slow calls hold all its places."""
        begun = self._take(part)
        try:
            yield
        finally:
            with self._changed:
                self._begun[part].remove(begun)
                self._changed.notify_all()

    def _take(self, part: str) -> float:
        with self._changed:
            calls = self._begun[part]
            while len(calls) >= self._most:
                left_s = min(calls) + self._slow_s - self._clock()
                if left_s <= 0:
                    raise CircuitOpen(f"{len(calls)} calls of {part} are slow in this process; no other was begun")
                self._changed.wait(left_s)
            now = self._clock()
            calls.append(now)
            return now
