"""Estimate the rate of a job, only if the recent past is a fair sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WINDOW_S = 30.0
_LEAST_S = 5.0
_LEAST_DONE = 10
_STEADY = 2.0  # how much faster one half of the sample may be than the other


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressRate:
    """``rate``: items per second over the last 30 s at most; ``eta_s``: seconds until the rest is done at this rate."""

    rate: float
    eta_s: float | None


def pace(seen: Sequence[tuple[float, int]], *, remaining: int) -> ProgressRate | None:
    """Return the pace from (seconds, ended items), oldest first; None below 5 s or 10 items, or if the halves of the
    sample differ by more than a factor of 2."""
    recent = [(at, done) for at, done in seen if seen[-1][0] - at <= WINDOW_S] if seen else []
    if len(recent) < 3:
        return None
    (first_at, first), (last_at, last) = recent[0], recent[-1]
    if last_at - first_at < _LEAST_S or last - first < _LEAST_DONE:
        return None
    rate = (last - first) / (last_at - first_at)
    middle_at, middle = min(recent[1:-1], key=lambda point: abs(point[0] - (first_at + last_at) / 2))
    halves = sorted([(middle - first) / (middle_at - first_at), (last - middle) / (last_at - middle_at)])
    steady = halves[0] > 0 and halves[1] / halves[0] <= _STEADY
    return ProgressRate(rate=rate, eta_s=remaining / rate if steady else None)
