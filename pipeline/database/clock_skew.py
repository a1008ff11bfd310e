"""The distance between this host's clock and another one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import redis

if TYPE_CHECKING:
    from pipeline.database.store_errors import Location

# From here on queries end at once, documents wait for their time, and workers drop periodic messages as expired.
WORST_SKEW_S: Final = 10.0
ADVICE: Final = "have NTP or chrony keep the time on both"


def distance(moment: float, earliest: float, latest: float) -> float:
    """Return how far ``moment`` lies outside of a span of time; 0 within."""
    return min(0.0, moment - earliest) or max(0.0, moment - latest)


def skew(ask: Callable[[], float], *, clock: Callable[[], float] = time.time) -> float:
    """Return the seconds that the clock of ``ask`` is ahead at least; 0 if its time lies within the call."""
    before = clock()
    theirs = ask()
    return distance(theirs, before, clock())


def redis_skew(client: redis.Redis, *, clock: Callable[[], float] = time.time) -> float:
    """Return the skew of Redis' clock; see `skew`. Raises redis.RedisError."""
    client.ping()  # on a connection that is open, the answer comes at once
    return distance(0.0, *seconds_ahead(client, clock=clock))


def seconds_ahead(client: redis.Redis, *, clock: Callable[[], float] = time.time) -> tuple[float, float]:
    """Return by how many seconds this host's clock is ahead of that of Redis, at least and at most. Raises
    redis.RedisError."""
    before = clock()
    seconds, microseconds = client.time()  # type: ignore[misc]
    theirs = float(seconds + microseconds / 1e6)
    return before - theirs, clock() - theirs


def refuse_skew(at: Location, skew_s: float) -> None:
    """Raise StoreMisconfigured if a server's clock is too far from this host's."""
    if abs(skew_s) >= WORST_SKEW_S:
        order = "behind" if skew_s < 0 else "ahead of"
        raise at.refused(f"its clock is {abs(skew_s):.0f} s {order} this host's; {ADVICE}")
