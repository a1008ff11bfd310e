"""Places for work under way: how many there are, how long a line takes, and when more work is refused.

A place is held from the moment that work is sent to workers until its answer is stored. There are as many places as
threads that serve the work, twice as many for queries. A tenant may hold as many places as are free: one busy
tenant gets half of them, two get a third each, and a tenant without work under way finds one free at once. While
several tenants ask, no more queries are sent than are worth having under way (`Concurrency`).
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pipeline.records import TenantId

LEAST_PLACES: Final = 4  # so that several tenants find one where a single worker has a thread or two
FIRST_PLACES: Final = 8  # before anything was measured, and one more for each piece of work that was
UNKNOWN_SERVICE_S: Final = 0.1  # of work that was not measured yet
LONGEST_RETRY_S: Final = 60
NEW, WAITING = 0.35, 0.6  # shares of the time left beside the work's own that waiting may be predicted to take
LONGEST_WAIT: Final = 0.65  # the share of its time that a request waits for a place at most
_NEARLY: Final = 0.9  # of the most that ended in a second: what a few more at once would add, everybody waits for
_PROBES: Final = (1.0, 1.25, 1.0, 1.0, 0.75, 1.0)  # times the number that is worth it, each tried for so many rounds
_ROUNDS: Final = 2
# A service time counts for so many pieces of work: one from before the uploads of others would stay the best for ever.
_REMEMBERED: Final = 256
_IN_PLACE, _ENDANGERED = 0.5, 0.4  # shares of its time that work may take in its place, and from which fewer get one
_HELD_BACK_S: Final = (0.09, 0.14)
_REFUSED_A_SECOND: Final = 300  # each takes processor time that answers need
_TURNS: Final = 16  # the last ones, over which their rate is measured
_SHORTEST_S: Final = 0.001
_HANGS_S, _HANGS_TIMES = 0.1, 5  # without a turn: at least, and in service times


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
    """The measured speed of one tenant's work in a pool. ``services``: the last times from a place to its answer;
    ``line_since``: when requests began to wait, None while none does; ``turns``: when the last of them got places. Times
    are seconds of one clock."""

    services: deque[float] = field(default_factory=lambda: deque(maxlen=_TURNS))
    line_since: float | None = None
    turns: deque[float] = field(default_factory=lambda: deque(maxlen=_TURNS))

    def served(self, seconds: float) -> None:
        """Note the service time of a piece of work."""
        self.services.append(seconds)

    def line_begins(self, now: float) -> None:
        """Note that requests begin to wait."""
        self.line_since = now
        self.turns.clear()

    def line_ends(self) -> None:
        """Note that nobody waits any more. Turns say nothing about a later line."""
        self.line_since = None
        self.turns.clear()

    def turned(self, now: float) -> None:
        """Note that a request got a place while others of its tenant waited."""
        if self.line_since is not None:
            self.turns.append(now)

    def expected_service_s(self) -> float:
        """Return the service time to expect: the shortest of the last ones, as some wait for a store that hangs."""
        return min(self.services, default=UNKNOWN_SERVICE_S)

    def usual_service_s(self) -> float:
        """Return the median of the last service times."""
        return statistics.median(self.services) if self.services else UNKNOWN_SERVICE_S

    def hangs(self, now: float) -> bool:
        """Return whether no request had its turn for far longer than work takes, so that work under way waits for
        something that hangs and not for a processor."""
        if self.line_since is None or not self.services:
            return False
        quiet_s = now - (self.turns[-1] if self.turns else self.line_since)
        return quiet_s >= max(_HANGS_S, _HANGS_TIMES * min(self.services))

    def wait_s(self, before: int, *, share: int, now: float) -> float:
        """Return the seconds until a request with ``before`` others ahead gets a place.

        Turns that were measured since the line began count; until each of the tenant's ``share`` places was given once, so
        does Little's law (places = rate of turns x service time). Without any turn the time since then grows the estimate.
        """
        places = max(1, share)
        turn_s = 0.0
        if len(self.turns) == _TURNS:
            turn_s = (now - self.turns[0]) / _TURNS
        elif self.line_since is not None:
            turn_s = (now - self.line_since) / max(places, len(self.turns))
        if len(self.turns) < places:
            turn_s = max(turn_s, self.expected_service_s() / places)
        return (before + 1) * turn_s

    def fits(
        self,
        before: int,
        *,
        share: int,
        most: int,
        left_s: float,
        patience_s: float,
        now: float,
        only_begins: bool,
        most_of: float,
    ) -> bool:
        """Return whether a request behind ``before`` others, in a pool of ``most`` places, gets a place in time.

        It may wait for ``patience_s``, and for the share ``most_of`` of the time that its work leaves: `NEW`, or the larger
        `WAITING` once it is in line, so that a slight change refuses nobody. With ``only_begins`` it only has to begin by
        then.

        Until a turn was measured, as in a burst, the requests of one more round of places are not judged by their wait.
        """
        service_s = 0.0 if only_begins else self.expected_service_s()
        if not self.turns and before < most and service_s <= left_s * LONGEST_WAIT:
            return True
        wait_s = self.wait_s(before, share=share, now=now)
        return wait_s <= min(patience_s, (left_s - service_s) * most_of)


@dataclass(slots=True)
class Concurrency:
    """The usual service time of a pool's work, by how many pieces of it were under way, and how many are worth it.

    Work that waits for a model or a store ends the more often the more of it is under way. Work that shares a busy processor
    does not: each piece takes as much longer as there are more, and so does the query of a tenant who asks for one at a time.
    """

    service_s: dict[int, tuple[float, int]] = field(default_factory=dict)  # and which piece of work it is from
    usual_s: float = 0.0  # of the last pieces, whatever their number
    rate: float = 0.0  # and how many of them ended in a second
    measured: int = 0

    def served(self, seconds: float, *, beside_s: float) -> None:
        """Note the service time of a piece of work, and how long it and others were under way meanwhile, all together."""
        under_way = max(1, round(beside_s / max(seconds, _SHORTEST_S)))
        usual_s, _ = self.service_s.get(under_way, (seconds, 0))
        self.measured += 1
        self.service_s[under_way] = usual_s + (seconds - usual_s) / _TURNS, self.measured
        for number in [each for each, (_, at) in self.service_s.items() if at <= self.measured - _REMEMBERED]:
            del self.service_s[number]
        weight = 1 / min(self.measured, _TURNS)
        self.usual_s += weight * (seconds - self.usual_s)
        self.rate += weight * (under_way / max(seconds, _SHORTEST_S) - self.rate)

    def worth(self, time_s: float, *, is_shared: bool) -> float:
        """Return how many pieces of work that have ``time_s`` each may be under way: no more than end within half of it, and
        where tenants share the pool the least number at which nearly as many end in a second as at any other (Little's law:
        rate = under way / service time), a quarter more or less for a while, to see what these would do. Infinity while the
        most were the best."""
        if not self.service_s:
            return math.inf
        in_time = _IN_PLACE * time_s * self.rate if self.usual_s > _ENDANGERED * time_s else math.inf
        rates = {number: number / max(seconds, _SHORTEST_S) for number, (seconds, _) in self.service_s.items()}
        nearly = _NEARLY * max(rates.values())
        enough = min(number for number, rate in rates.items() if rate >= nearly)
        change = enough * (_PROBES[self.measured // (_ROUNDS * enough) % len(_PROBES)] - 1)
        if not is_shared or (change >= 0 and enough == max(rates)):
            return in_time
        return min(enough + math.copysign(math.ceil(abs(change)), change), in_time)


def retry_after_s(wait_s: float, *, jitter: Callable[[], float]) -> int:
    """Return whole seconds until a place is expected, between 1 and a minute, spread so that the refused do not come back
    together. ``jitter`` returns a number from 0 to 1."""
    return max(1, min(LONGEST_RETRY_S, math.ceil(wait_s * (1 + jitter()))))


def held_back_s(refused: int, *, jitter: Callable[[], float]) -> float:
    """Return the seconds to hold a refusal back, so that clients which try again at once come less often.

    It is a tenth of a second, and more once a gateway would refuse over `_REFUSED_A_SECOND`. ``refused``: the refusals held
    back now, this one included. ``jitter`` returns a number from 0 to 1."""
    shortest, longest = _HELD_BACK_S
    return max(shortest + (longest - shortest) * jitter(), refused / _REFUSED_A_SECOND)


def hung_pool(pool: str) -> str:
    """Return the pool of further places for tenants whose work in a pool hangs, as for a store: it waits and takes no
    processor, and the answer of its other parts is better than a refusal."""
    return f"{pool}/hung"


def lane_pool(process_id: str) -> str:
    """Return the pool of the queries in the in-process lane of one gateway."""
    return f"lane/{process_id}"


def pool_key(pool: str) -> str:
    """Return the Redis key of all places of a pool that are held."""
    return f"chordwise:places:{pool}"


def place_id(tenant_id: TenantId, work_id: str) -> str:
    """Return the entry of a piece of work, whose id has no slash."""
    return f"{tenant_id}/{work_id}"
