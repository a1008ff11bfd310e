"""An event loop whose clock a test turns: timers are due when nothing else is left to do, and nobody waits for them."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any


class _Selector(selectors.DefaultSelector):  # type: ignore[valid-type, misc]
    """Return at once, and turn the loop's clock to the next timer instead of waiting for it."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready: list[Any] = super().select(0)
        if not ready and timeout:
            self.passed_s += timeout
        return ready


class TurnedLoop(asyncio.SelectorEventLoop):
    """A loop for coroutines that wait for timers and for each other, and for nothing outside of the process."""

    def __init__(self) -> None:
        self._turned = _Selector()
        super().__init__(self._turned)

    def time(self) -> float:
        """Return the seconds that timers have taken so far."""
        return self._turned.passed_s
