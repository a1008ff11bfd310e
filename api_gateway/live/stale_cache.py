"""A cache of values that every request needs from MySQL: kept briefly, and longer while MySQL is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import structlog
from cachetools import FIFOCache

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
class _Reading(Generic[V]):
    value: V
    at: float


class StaleCache(Generic[K, V]):
    """Values by key, read again when they are older than ``fresh_s``, by one reader of each key at a time.

    While a value is read again, callers wait for the new one for ``patience_s``, and get the old one after that, or if
    the read fails; the old one holds for ``STALE_S``. After a failed read callers get the old value at once, and one
    read at a time goes on beside them until one succeeds, or until no caller has come for ``PAUSE_S``. ``away`` returns
    whether MySQL is known to be unavailable. None, which stands for a missing row, is never served after it is old.
    """

    def __init__(
        self,
        name: str,
        *,
        fresh_s: float,
        patience_s: float = PATIENCE_S,
        away: Callable[[], bool] = lambda: False,
        most: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._fresh_s = fresh_s
        self._patience_s = patience_s
        self._mysql_is_away = away
        self._clock = clock
        self._cached: FIFOCache[K, _Reading[V]] = FIFOCache(most)
        self._tasks: dict[K, asyncio.Task[V]] = {}
        self._away_until = float("-inf")

    def __len__(self) -> int:
        return len(self._cached)

    def is_away(self) -> bool:
        """Return whether the last read timed out or failed."""
        return self._clock() < self._away_until

    def last(self, key: K) -> V | None:
        """Return the value that was read last, however old; None if none was ever read."""
        cached = self._cached.get(key)
        return None if cached is None else cached.value

    async def of(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Return the key's value. Raises the errors of ``read``; Unavailable only if no usable value is cached."""
        cached = self._cached.get(key)
        age_s = float("inf") if cached is None else self._clock() - cached.at
        if cached is not None and age_s < self._fresh_s:
            return cached.value
        if cached is None or cached.value is None or age_s > STALE_S:
            return await self._read_first(key, read)
        if self.is_away() or self._mysql_is_away():
            if not self._tasks:
                self._begin(key, read)
            return cached.value
        task = self._tasks.get(key) or self._begin(key, read)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._patience_s)
        except (Unavailable, TimeoutError) as error:
            self._note_outage()
            log.warning("stale_value_served", cache=self._name, age_s=round(age_s, 1), error=type(error).__name__)
            return cached.value

    async def _read_first(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Read a value for which the cache holds nothing usable. Raises Unavailable if it cannot be read within
        FIRST_S, or, shortly after a failed read, within the patience."""
        task = self._tasks.get(key) or self._begin(key, read)
        patience_s = self._patience_s if self.is_away() or self._mysql_is_away() else FIRST_S
        try:
            return await asyncio.wait_for(asyncio.shield(task), patience_s)
        except TimeoutError:
            self._note_outage()
            raise StoreUnavailable(f"MySQL did not answer within {patience_s:g} s ({self._name})") from None

    def forget(self, is_forgotten: Callable[[K], bool]) -> None:
        """Drop these keys after a change; the next read is fresh."""
        mappings: tuple[MutableMapping[K, Any], ...] = (self._cached, self._tasks)
        for by_key in mappings:
            for key in filter(is_forgotten, list(by_key)):
                del by_key[key]

    def _begin(self, key: K, read: Callable[[], Awaitable[V]]) -> asyncio.Task[V]:
        task = self._tasks[key] = asyncio.ensure_future(self._read(key, read))
        task.add_done_callback(_retrieve_result)
        return task

    def _note_outage(self) -> None:
        self._away_until = self._clock() + PAUSE_S

    async def _read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        task = asyncio.current_task()
        try:
            value = await read()
        except Unavailable:
            self._note_outage()
            raise
        except Problem:  # the row no longer exists, whether or not anyone waited for the read
            if self._tasks.get(key) is task:
                self._cached.pop(key, None)
            raise
        finally:
            is_newest = self._tasks.get(key) is task
            if is_newest:
                del self._tasks[key]
        if is_newest:
            self._cached[key] = _Reading(value, self._clock())
            self._away_until = float("-inf")
        return value


def _retrieve_result(task: asyncio.Task[V]) -> None:
    """Retrieve the result of a read that nobody may have awaited, so that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
