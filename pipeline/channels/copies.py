"""What this process holds in memory of namespaces, so that it can answer about them without reading their rows.

A copy is good for one stamp of its namespace (`stores.namespaces`), which another one follows in the very transaction
that changes what searches see. The stamp of a query is read when it is sent, or by who answers it, so nothing that had
changed before it was asked is answered from a copy. Copies are made aside, of namespaces that are asked about again and
again while nothing changes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, Protocol, Self, TypedDict, TypeVar, Unpack

import structlog

from pipeline.errors import PipelineError
from pipeline.records import Namespace, TenantId

log = structlog.get_logger(__name__)

Key = tuple[TenantId, Namespace, str]  # of whom, of what, and of which of several for the same namespace
Outcome = Literal["loaded", "changed", "too_large", "incomplete", "failed"]

_ASKED = 3  # times at one stamp before a copy is made
_WITHIN_S = 60.0
# After a copy none is made for so many times the processor time that it took here (MariaDB takes less), and not for as
# long again as it took by the clock, since a server that is slow has other work.
_REST, _REST_BY_THE_CLOCK = 20.0, 2.0
_LEAST_REST_S = 5.0  # after a failure
_IDLE_S = 900.0  # a copy that nobody asks for goes
_MOST_NOTED = 1024


class Held(Protocol):
    """What a copy is of."""

    @property
    def byte_count(self) -> int:
        """What it takes."""
        ...

    @property
    def figures(self) -> Mapping[str, int]:
        """What the log says of it."""
        ...

    def slimmer(self) -> Self:
        """The same without what only spares work; itself if there is nothing of the kind."""
        ...


T = TypeVar("T", bound=Held)


@dataclass(frozen=True, slots=True)
class Read(Generic[T]):
    """What became of reading a namespace: with ``loaded``, what it showed at ``stamp``."""

    outcome: Outcome
    stamp: str = ""
    held: T | None = None


@dataclass(frozen=True, slots=True)
class _Copy(Generic[T]):
    stamp: str
    held: T
    used_at: float


@dataclass(slots=True)
class _Asked:
    """How often a namespace was asked about at one stamp. ``refused``: no copy is to be made of it at that stamp."""

    stamp: str
    since: float
    times: int = 0
    refused: bool = False


def in_a_thread(work: Callable[[], None]) -> None:
    """Do it aside; the process does not wait for it when it ends."""
    threading.Thread(target=work, name="copies", daemon=True).start()


def _to_nobody(_: Outcome) -> None:
    """Nobody wants to know."""


class How(TypedDict, total=False):
    """How copies are made. ``tell`` is called with what became of each attempt; ``start`` runs one, by itself in a thread of
    its own; ``clock`` is in seconds; ``rests``: how many times as long as usual it pauses after a copy was made."""

    tell: Callable[[Outcome], object]
    start: Callable[[Callable[[], None]], None]
    clock: Callable[[], float]
    rests: float


class Copies(Generic[T]):
    """Copies of at most ``most_bytes`` together; the one unused for longest goes first. 0: none.

    ``read`` reads one; it may raise PipelineError. Safe between threads; one copy is made at a time. ``name``: what the log
    calls them.
    """

    def __init__(self, name: str, read: Callable[[Key], Read[T]], *, most_bytes: int, **how: Unpack[How]) -> None:
        self._name = name
        self._read = read
        self._most_bytes = most_bytes
        self._rests = how.get("rests", 1.0)
        self._tell = how.get("tell", _to_nobody)
        self._start = how.get("start", in_a_thread)
        self._clock = how.get("clock", time.monotonic)
        self._lock = threading.Lock()
        self._copies: OrderedDict[Key, _Copy[T]] = OrderedDict()
        self._asked: OrderedDict[Key, _Asked] = OrderedDict()
        self._is_making = False
        self._rests_until = float("-inf")

    @property
    def byte_count(self) -> int:
        """What all copies take."""
        with self._lock:
            return self._taken()

    def holds(self, keys: Sequence[Key]) -> bool:
        """Whether there is a copy of each, good or not."""
        with self._lock:
            return all(key in self._copies for key in keys)

    def of(self, stamps: Mapping[Key, str | None]) -> list[T] | None:
        """A copy of each at its stamp, in order; None if one is missing."""
        found: list[T] = []
        moment = self._clock()
        with self._lock:
            for key, stamp in stamps.items():
                copy = self._copies.get(key)
                if copy is None or copy.stamp != stamp:
                    return None
                self._copies[key] = replace(copy, used_at=moment)
                self._copies.move_to_end(key)
                found.append(copy.held)
            self._let_go(moment)
        return found

    def note(self, stamps: Mapping[Key, tuple[str, float]]) -> None:
        """These are being asked about without a copy: their stamps now, and how many bytes one would take at least. What
        was overtaken is let go of, and perhaps a copy is made for those who ask later."""
        if not self._most_bytes:
            return
        moment = self._clock()
        with self._lock:
            due = [key for key, (stamp, least) in stamps.items() if self._is_due(key, stamp, least, moment)]
            self._let_go(moment)
            if not due or self._is_making or moment < self._rests_until:
                return
            self._is_making = True
        self._start(lambda: self._make(due[0]))

    def _is_due(self, key: Key, stamp: str, least: float, moment: float) -> bool:
        copy, asked = self._copies.get(key), self._asked.get(key)
        if copy is not None and copy.stamp == stamp:
            return False
        if copy is not None:
            del self._copies[key]
        if asked is None or asked.stamp != stamp or (moment - asked.since > _WITHIN_S and not asked.refused):
            asked = self._asked[key] = _Asked(stamp, moment)
        asked.times += 1
        self._asked.move_to_end(key)
        while len(self._asked) > _MOST_NOTED:
            self._asked.popitem(last=False)
        return asked.times >= _ASKED and not asked.refused and least <= self._most_bytes

    def _let_go(self, moment: float) -> None:
        """Of copies that nobody asks for; while there are too many, of what only spares work and then of themselves, the
        ones unused for longest first."""
        for key, copy in list(self._copies.items()):
            if moment - copy.used_at <= _IDLE_S:
                break
            del self._copies[key]
        excess = self._taken() - self._most_bytes
        for key, copy in list(self._copies.items()) if excess > 0 else ():
            if excess > 0:
                slim = copy.held.slimmer()
                self._copies[key] = replace(copy, held=slim)
                excess -= copy.held.byte_count - slim.byte_count
        while excess > 0:
            _, oldest = self._copies.popitem(last=False)
            excess -= oldest.held.byte_count

    def _taken(self) -> int:
        return sum(copy.held.byte_count for copy in self._copies.values())

    def _make(self, key: Key) -> None:
        """Make a copy and keep it, then rest. Runs in a thread of its own and raises nothing."""
        tenant_id, _, _ = key
        started, cpu = self._clock(), time.thread_time()
        outcome: Outcome = "failed"
        try:
            read = self._read(key)
            outcome = self._fitting(read)
            if outcome == "loaded" and read.held is not None:
                held = self._keep(key, read.stamp, read.held)
                self._say_loaded(tenant_id, held, started, cpu)
        except PipelineError as error:
            log.warning(f"{self._name}_not_loaded", tenant_id=tenant_id, code=error.code)
        except Exception as error:  # a bug of ours, or no memory: the stores answer all the same
            log.exception(f"{self._name}_bug", tenant_id=tenant_id, error=type(error).__name__)
        finally:
            self._rest(key, outcome, started=started, cpu_s=time.thread_time() - cpu)
        self._tell(outcome)

    def _fitting(self, read: Read[T]) -> Outcome:
        if read.held is not None and read.held.slimmer().byte_count > self._most_bytes:
            return "too_large"
        return read.outcome

    def _keep(self, key: Key, stamp: str, held: T) -> T:
        if held.byte_count > self._most_bytes:
            held = held.slimmer()
        copy = _Copy(stamp, held, self._clock())
        with self._lock:
            self._copies[key] = copy
            self._copies.move_to_end(key)
            self._asked.pop(key, None)
            self._let_go(copy.used_at)
        return held

    def _say_loaded(self, tenant_id: TenantId, held: T, started: float, cpu: float) -> None:
        figures: dict[str, Any] = dict(held.figures)
        log.info(
            f"{self._name}_loaded",
            tenant_id=tenant_id,
            **figures,
            bytes=held.byte_count,
            elapsed_ms=round((self._clock() - started) * 1000, 1),
            cpu_ms=round((time.thread_time() - cpu) * 1000, 1),
        )

    def _rest(self, key: Key, outcome: Outcome, *, started: float, cpu_s: float) -> None:
        moment = self._clock()
        least = max(_LEAST_REST_S if outcome == "failed" else 0.0, _REST_BY_THE_CLOCK * (moment - started))
        with self._lock:
            if outcome in ("too_large", "incomplete") and key in self._asked:
                self._asked[key].refused = True
            self._rests_until = moment + self._rests * max(least, _REST * cpu_s)
            self._is_making = False
