"""Token buckets that limit a tenant's requests: they fill evenly and hold a burst."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """``per_minute`` requests in the long run, up to ``burst`` at once. 0 ``per_minute`` is no limit."""

    per_minute: int
    burst: int

    @property
    def window_s(self) -> int:
        """The seconds until an empty bucket is full again."""
        return max(1, math.ceil(self.burst * 60 / self.per_minute)) if self.per_minute else 0

    @classmethod
    def of_tenant(cls, per_minute: int) -> Rate:
        """Return the rate of a tenant that may send ten seconds' worth at once."""
        return cls(per_minute=per_minute, burst=max(1, round(per_minute / 6)))


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketReply:
    """A bucket's reply. ``left``: whole requests that could follow at once; ``wait_s``: seconds until one may, 0 if now."""

    admitted: bool
    left: int
    wait_s: float


class LocalBuckets:
    """Buckets of one process, by name. The least recently used ones are dropped, which refills them."""

    def __init__(self, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: LRUCache[str, tuple[float, float]] = LRUCache(most)

    def take(self, name: str, rate: Rate) -> BucketReply:
        """Take one token from a bucket, if there is one."""
        at = self._clock()
        left, filled_at = self._buckets.get(name, (float(rate.burst), at))
        left = min(float(rate.burst), left + (at - filled_at) * rate.per_minute / 60)
        admitted = left >= 1
        left -= admitted
        self._buckets[name] = (left, at)
        wait_s = 0.0 if left >= 1 or not rate.per_minute else (1 - left) * 60 / rate.per_minute
        return BucketReply(admitted=admitted, left=int(left), wait_s=wait_s)
