"""What stands in front of every request and is read from MySQL: remembered for a moment, and longer while MySQL is away."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from api_gateway.problems import Problem
from pipeline.errors import Unavailable

log = structlog.get_logger(__name__)

STALE_S: Final = 300.0  # how long what is known goes on holding while MySQL is away
PATIENCE_S: Final = 0.25  # for what a request could go on without
PAUSE_S: Final = 1.0  # after somebody waited in vain, nobody else does

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Away:
    """Whether MySQL was lately waited for in vain: then nobody else waits, whatever it is that he wants to know."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")

    def __bool__(self) -> bool:
        return self._clock() < self._until

    def note(self) -> None:
        """Somebody waited in vain."""
        self._until = self._clock() + PAUSE_S

    def clear(self) -> None:
        """It answered."""
        self._until = float("-inf")


@dataclass(frozen=True, slots=True)
class _Known(Generic[V]):
    value: V
    at: float


class Remembered(Generic[K, V]):
    """Values by key, read again when they are older than ``fresh_s``, by one reader of each key at a time.

    While a value is read again, the old one is there: who asks waits for the new one for ``patience_s`` and takes the old
    one then, or if the reading fails, up to ``STALE_S``. That there is nothing (None) is not held on to so.
    """

    def __init__(
        self,
        what: str,
        *,
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        away: Away | None = None,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._away = Away(clock) if away is None else away
        self._most = most
        self._clock = clock
        self._known: OrderedDict[K, _Known[V]] = OrderedDict()
        self._reading: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def of(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """The key's value. Raises what ``read`` raises; Unavailable only if nothing usable is known."""
        known = self._known.get(key)
        age_s = float("inf") if known is None else self._clock() - known.at
        if known is not None and age_s < self._fresh_s:
            return known.value
        usable = known is not None and known.value is not None and age_s <= STALE_S
        if usable and self._away:
            assert known is not None
            return known.value
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.ensure_future(self._read(key, read))
            reading.add_done_callback(_look_at)
        try:
            return await asyncio.wait_for(asyncio.shield(reading), self._patience_s if usable else None)
        except (Unavailable, TimeoutError) as error:
            self._away.note()
            if not usable or known is None:
                raise
            log.warning("answered_from_memory", what=self._what, age_s=round(age_s, 1), error=type(error).__name__)
            return known.value

    def forget(self, forgotten: Callable[[K], bool]) -> None:
        """Something was changed here: what is read of these keys from now on is new."""
        for of_keys in (self._known, self._reading):
            for key in [key for key in of_keys if forgotten(key)]:
                del of_keys[key]

    async def _read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        reading = asyncio.current_task()
        try:
            value = await read()
        except Problem:  # it is not there any more, whoever waited to hear that
            if self._reading.get(key) is reading:
                self._known.pop(key, None)
            raise
        finally:
            newest = self._reading.get(key) is reading
            if newest:
                del self._reading[key]
        if newest:
            self._known[key] = _Known(value, self._clock())
            self._known.move_to_end(key)
            self._away.clear()
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return value


def _look_at(reading: asyncio.Task[V]) -> None:
    """Take note of how a reading ended for which nobody may have waited."""
    if not reading.cancelled():
        reading.exception()
