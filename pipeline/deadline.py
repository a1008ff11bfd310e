"""A deadline: the moment by which an operation must be over."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment in seconds of ``clock``; ``math.inf`` is never reached.

    ``Deadline(query.deadline_at)`` is on the wall clock, because messages carry it to other hosts. `Deadline.after`
    uses this process's monotonic clock, which is never adjusted. Every method that returns a deadline keeps the clock.
    """

    at: float
    clock: Callable[[], float] = time.time

    @classmethod
    def after(cls, seconds: float | None, *, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """Return the deadline ``seconds`` from now; None is no deadline."""
        return cls(math.inf if seconds is None else clock() + seconds, clock)

    @property
    def has_passed(self) -> bool:
        """Whether no time is left."""
        return self.clock() >= self.at

    def left_s(self) -> float:
        """Return the seconds left, never negative; infinite without a deadline."""
        return max(0.0, self.at - self.clock())

    def overdue_s(self) -> float:
        """Return the seconds since the deadline, 0 before it."""
        return max(0.0, self.clock() - self.at)

    def within(self, seconds: float) -> float:
        """Return the smaller of ``seconds`` and the seconds left: the timeout of one step."""
        return min(seconds, self.left_s())

    def at_most(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and the moment ``seconds`` from now."""
        return Deadline(min(self.at, self.clock() + seconds), self.clock)

    def share(self, fraction: float) -> Deadline:
        """Return the deadline after this fraction of the time that is left."""
        return Deadline(self.clock() + self.left_s() * fraction, self.clock)

    def before(self, seconds: float) -> Deadline:
        """Return the deadline ``seconds`` earlier, which reserves them for later steps."""
        return Deadline(self.at - seconds, self.clock)
