"""A call that is repeated while something is done to the servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

PATIENCE_S = 60.0  # a process on a busy machine may take many seconds to start
_PAUSE_S = 0.02  # leaves the processors to the servers that start meanwhile


@dataclass
class Loop:
    """Repeats a call in a thread until the block ends, with short pauses; what it raises ends it."""

    call: Callable[[], object]
    done: int = 0
    slowest_s: float = 0.0
    errors: list[Exception] = field(default_factory=list)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def goes_on(self, rounds: int = 3) -> None:
        """Wait for some more calls that began from now on, and fail with the error of one."""
        goal = self.done + rounds + 1
        ends = time.monotonic() + PATIENCE_S
        while self.done < goal and not self.errors and time.monotonic() < ends:
            time.sleep(0.05)
        assert self.errors == []
        assert self.done >= goal

    def _run(self) -> None:
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self.call()
            except Exception as error:
                self.errors.append(error)
                return
            self.done += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self._stopping.wait(_PAUSE_S)
