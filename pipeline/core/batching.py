"""Pure decisions around batches of work: when to try again, and what to try alone."""

from __future__ import annotations

import random


def backoff_s(attempt: int, *, base_s: float = 1.0, cap_s: float = 600.0, jitter: float | None = None) -> float:
    """Return the seconds to wait after failed attempt number ``attempt``, from 1: ``base_s`` doubled up to ``cap_s``,
    times 0.5 to 1 so that failures spread. ``jitter`` in [0, 1) fixes the draw."""
    draw = random.random() if jitter is None else jitter
    ceiling = min(cap_s, base_s * 2.0 ** max(0, attempt - 1))
    return ceiling * (0.5 + draw / 2)
