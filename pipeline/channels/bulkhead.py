"""The limit on the threads that calls to a slow part may hold in one process."""

import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pipeline.errors import CircuitOpen

SLOW_S: Final = 0.3  # seconds after which a call counts as slow: less than half of the usual timeout of a channel


class Bulkhead:
    """The threads that calls to each part (a channel, or reading texts) may hold in this process; thread-safe. A part
    may hold ``most`` threads; a further call waits, and is refused once the oldest call is slow and none has succeeded
    for as long (Nygard, "Release It!", 2018)."""

    def __init__(self, most: int, *, slow_s: float = SLOW_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._slow_s = slow_s
        self._clock = clock
        self._begun: defaultdict[str, list[float]] = defaultdict(list)
        self._succeeded_at: defaultdict[str, float] = defaultdict(lambda: -math.inf)
        self._changed = threading.Condition()

    def resize(self, threads: int) -> None:
        """Set ``most`` so that one of ``threads`` remains for the other parts."""
        with self._changed:
            self._most = max(1, threads - 1)
            self._changed.notify_all()

    @contextmanager
    def place(self, part: str) -> Iterator[None]:
        """Hold a thread for a call to ``part``. Raises CircuitOpen if slow calls hold all its threads."""
        begun = self._take(part)
        try:
            yield
            self._succeeded_at[part] = self._clock()  # slow calls that end need no refusals: a place is free soon
        finally:
            with self._changed:
                self._begun[part].remove(begun)
                self._changed.notify_all()

    def _take(self, part: str) -> float:
        with self._changed:
            calls = self._begun[part]
            while len(calls) >= self._most:
                left_s = max(min(calls), self._succeeded_at[part]) + self._slow_s - self._clock()
                if left_s <= 0:
                    raise CircuitOpen(
                        f"{len(calls)} calls of {part} are slow in this process; no further call was started"
                    )
                self._changed.wait(left_s)
            now = self._clock()
            calls.append(now)
            return now
