"""How many requests a tenant may send: a bucket that fills evenly and holds a burst."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """``per_minute`` requests in the long run, and up to ``burst`` at once. 0 ``per_minute`` is no limit."""

    per_minute: int
    burst: int

    @property
    def window_s(self) -> int:
        """After how many seconds an empty bucket is full again."""
        return max(1, math.ceil(self.burst * 60 / self.per_minute)) if self.per_minute else 0

    def scaled_to(self, per_minute: int) -> Rate:
        """Another rate, whose burst stands to it as this one's does; a minute's worth if this one is no limit."""
        burst = round(self.burst * per_minute / self.per_minute) if self.per_minute else per_minute
        return Rate(per_minute=per_minute, burst=max(1, burst))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a bucket said to one request. ``left``: whole requests that could follow at once; ``wait_s``: seconds until
    there is room for one, 0 if there is."""

    admitted: bool
    left: int
    wait_s: float
