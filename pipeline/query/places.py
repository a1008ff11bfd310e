"""Places for work under way: how many there are, how long a line takes, and when more work is refused.

A place is held from the moment that work is sent to workers until its answer is stored. There are as many places as
threads that serve the work, twice as many for queries. A tenant may hold as many places as are free: one busy
tenant gets half of them, two get a third each, and a tenant without work under way finds one free at once.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pipeline.records import TenantId

LEAST_PLACES: Final = 4  # so that several tenants find one where a single worker has a thread or two
UNKNOWN_SERVICE_S: Final = 0.1  # of work that was not measured yet
LONGEST_RETRY_S: Final = 60
_SHARE_OF_TIME: Final = 0.7  # of the time left that waiting and answering may be predicted to take
_RECENT: Final = 0.2  # the weight of a new measurement


class WorkKind(enum.StrEnum):
    """Kinds of work that have places of their own, so that slow work of one kind does not hold up another."""

    QUERY = "query"  # queries of the workers' threads for channels and answers
    MODEL = "model"  # work that waits for a language model or a rerank service
    COMPUTE = "compute"  # computations in processes


class Verdict(enum.IntEnum):
    """The reply to a request for a place."""

    NOT_NEEDED = 2  # there is an answer already
    TAKEN = 1
    ALL_TAKEN = 0
    SHARE_TAKEN = -1  # others may still get one


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place to ask for. ``pool``: where, a kind of work or a process that does it; ``most``: the places of the pool,
    0 without a bound; ``left_s``: seconds after which the place is free even if nobody gives it back."""

    pool: str
    most: int
    left_s: float


def most_places(slots: int) -> int:
    """Return the places for a number of threads or processes; 0, no bound, if there are none: then nothing would free
    one, and each piece of work reports by itself that nobody does it."""
    return max(LEAST_PLACES, slots) if slots else 0


def verdict(*, most: int, held: int, own: int) -> Verdict:
    """Return whether a tenant that holds ``own`` of the ``held`` places gets another one. The script in `place_store`
    follows the same rule."""
    if not most:
        return Verdict.TAKEN
    if held >= most:
        return Verdict.ALL_TAKEN
    return Verdict.TAKEN if own < most - held else Verdict.SHARE_TAKEN


@dataclass(slots=True)
class Pace:
    """The measured speed of one tenant's work in a pool. ``service_s``: from a place to its answer; ``turn_s``: from one
    turn of those waiting to the next, None before any. Moving averages."""

    service_s: float | None = None
    turn_s: float | None = None

    def served(self, seconds: float) -> None:
        """Note the service time of one piece of work."""
        self.service_s = _average(self.service_s, seconds)

    def turned(self, seconds: float) -> None:
        """Note the time between two turns while requests waited."""
        self.turn_s = _average(self.turn_s, seconds)

    def expected_service_s(self, *, stalled_s: float = 0.0) -> float:
        """Return the service time to expect. ``stalled_s``: seconds since the last place was taken; with all places taken,
        no work under way is shorter."""
        return max(UNKNOWN_SERVICE_S if self.service_s is None else self.service_s, stalled_s)

    def wait_s(self, before: int, *, share: int, stalled_s: float = 0.0) -> float:
        """Return the seconds until a request with ``before`` others ahead gets a place: by Little's law, if ``share``
        places are served at once, or by the measured turns if they are slower."""
        by_law = self.expected_service_s(stalled_s=stalled_s) / max(1, share)
        return (before + 1) * max(by_law, self.turn_s or 0.0)


def fits(wait_s: float, service_s: float, left_s: float) -> bool:
    """Return whether work that waits and is then done ends well before its time is over."""
    return wait_s + service_s <= left_s * _SHARE_OF_TIME


def retry_after_s(wait_s: float, *, jitter: Callable[[], float]) -> int:
    """Return whole seconds until a place is expected, between 1 and a minute, spread so that the refused do not come back
    together. ``jitter`` returns a number from 0 to 1."""
    return max(1, min(LONGEST_RETRY_S, math.ceil(wait_s * (1 + jitter()))))


def _average(so_far: float | None, new: float) -> float:
    return new if so_far is None else so_far + _RECENT * (new - so_far)


def pool_key(pool: str) -> str:
    """Return the Redis key of all places of a pool that are held."""
    return f"chordwise:places:{pool}"


def own_key(tenant_id: TenantId, pool: str) -> str:
    """Return the Redis key of those that a tenant holds."""
    return f"{tenant_id}:places:{pool}"


def place_id(tenant_id: TenantId, work_id: str) -> str:
    """Return the entry of a piece of work."""
    return f"{tenant_id}/{work_id}"
