"""A cache of values that every request needs from MySQL: kept briefly, and longer while MySQL is away."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import structlog

from api_gateway.http.problems import Problem
from pipeline.errors import StoreUnavailable, Unavailable

log = structlog.get_logger(__name__)

STALE_S: Final = 300.0  # lifetime of a cached value while MySQL is away
PATIENCE_S: Final = 0.25  # for values that a request can do without
FIRST_S: Final = 1.0  # for a value that was never read, so that a request that needs it is refused in time
PAUSE_S: Final = 3.0  # after a failed or slow read, requests do not wait for this long; longer than a read may take

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Known(Generic[V]):
    value: V
    at: float


class Remembered(Generic[K, V]):
    """Values by key, read again when they are older than ``fresh_s``, by one reader of each key at a time.

    While a value is read again, callers wait for the new one for ``patience_s``, and get the old one after that, or if
    the read fails; the old one holds for ``STALE_S``. After a failed read callers get the old value at once, and one
    read at a time goes on beside them until one succeeds, or until no caller has come for ``PAUSE_S``. ``away`` returns
    whether MySQL is known to be unavailable. None, which stands for a missing row, is never served after it is old.
    """

    def __init__(
        self,
        what: str,
        *,
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        away: Callable[[], bool] = lambda: False,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._known_away = away
        self._most = most
        self._clock = clock
        self._known: OrderedDict[K, _Known[V]] = OrderedDict()
        self._reading: dict[K, asyncio.Task[V]] = {}
        self._away_until = float("-inf")

    def __len__(self) -> int:
        return len(self._known)

    def is_away(self) -> bool:
        """Return whether the last read timed out or failed."""
        return self._clock() < self._away_until

    def last(self, key: K) -> V | None:
        """Return the value that was read last, however old; None if none was ever read."""
        known = self._known.get(key)
        return None if known is None else known.value

    async def of(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Return the key's value. Raises the errors of ``read``; Unavailable only if no usable value is cached."""
        known = self._known.get(key)
        age_s = float("inf") if known is None else self._clock() - known.at
        if known is not None and age_s < self._fresh_s:
            return known.value
        if known is None or known.value is None or age_s > STALE_S:
            return await self._first(key, read)
        if self.is_away() or self._known_away():
            if not self._reading:
                self._begin(key, read)
            return known.value
        reading = self._reading.get(key) or self._begin(key, read)
        try:
            return await asyncio.wait_for(asyncio.shield(reading), self._patience_s)
        except (Unavailable, TimeoutError) as error:
            self._note_away()
            log.warning("answered_from_memory", what=self._what, age_s=round(age_s, 1), error=type(error).__name__)
            return known.value

    async def _first(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Read a value for which the cache holds nothing usable. Raises Unavailable if it cannot be read within
        FIRST_S, or, shortly after a failed read, within the patience."""
        reading = self._reading.get(key) or self._begin(key, read)
        patience_s = self._patience_s if self.is_away() or self._known_away() else FIRST_S
        try:
            return await asyncio.wait_for(asyncio.shield(reading), patience_s)
        except TimeoutError:
            self._note_away()
            raise StoreUnavailable(f"MySQL did not answer within {patience_s:g} s ({self._what})") from None

    def forget(self, forgotten: Callable[[K], bool]) -> None:
        """Drop these keys after a change; the next read is fresh."""
        for of_keys in (self._known, self._reading):
            for key in [key for key in of_keys if forgotten(key)]:
                del of_keys[key]

    def _begin(self, key: K, read: Callable[[], Awaitable[V]]) -> asyncio.Task[V]:
        reading = self._reading[key] = asyncio.ensure_future(self._read(key, read))
        reading.add_done_callback(_look_at)
        return reading

    def _note_away(self) -> None:
        self._away_until = self._clock() + PAUSE_S

    async def _read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        reading = asyncio.current_task()
        try:
            value = await read()
        except Unavailable:
            self._note_away()
            raise
        except Problem:  # the row no longer exists, whether or not anyone waited for the read
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
            self._away_until = float("-inf")
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return value


def _look_at(reading: asyncio.Task[V]) -> None:
    """Retrieve the result of a read that nobody may have awaited, so that asyncio does not report it."""
    if not reading.cancelled():
        reading.exception()
