"""Circuit breakers shared by all processes: one Redis hash of circuits in trouble, read at most once a second; without
Redis each process uses its own observations. A part has a circuit per tenant (by a digest) and one shared by all, which
no tenant opens alone; a part with a tenant's own sources has one per source instead.

Several failures in a row open a circuit. After a while one probe is allowed (half open), whose success closes it; a probe
whose process died is replaced. Times are seconds since the epoch.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import redis
import structlog
from pydantic import TypeAdapter, ValidationError

from pipeline.caches import RefreshingValue
from pipeline.database.clock_skew import WORST_SKEW_S
from pipeline.database.engines import redis_errors
from pipeline.errors import Unavailable
from pipeline.metrics.meter_store import Meter
from pipeline.records import ChannelName, TenantId

log = structlog.get_logger(__name__)


class CircuitState(enum.StrEnum):
    """The states of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Permission(enum.StrEnum):
    """The possible answers to a caller."""

    CALL = "call"
    PROBE = "probe"  # the one probing call; it counts only if it moved the circuit to half open
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """``failures`` in a row open a circuit for ``open_s``. ``share``: the most failures counted of one caller; below
    ``failures`` no caller opens it alone."""

    failures: int
    open_s: float = 10.0
    share: int | None = None

    def between_callers(self) -> BreakerLimits:
        """Return the limits of a circuit that several callers share: it takes two of them to open it."""
        failures = max(2, self.failures)
        return BreakerLimits(failures=failures, open_s=self.open_s, share=(failures + 1) // 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """The state of one circuit. ``counted``: failures in a row, by caller. ``open_until``: None while closed."""

    counted: Mapping[str, int] = field(default_factory=dict)
    open_until: float | None = None
    probing: bool = False
    changed_at: float = 0.0

    @property
    def failures(self) -> int:
        """The failures of all callers together."""
        return sum(self.counted.values())

    @property
    def state(self) -> CircuitState:
        """Closed, open, or open with a probe under way."""
        if self.open_until is None:
            return CircuitState.CLOSED
        return CircuitState.HALF_OPEN if self.probing else CircuitState.OPEN

    def permission(self, *, now: float, longest_s: float = math.inf) -> Permission:
        """Return whether a call is permitted at this moment. A circuit that another process has opened for more than
        ``longest_s`` from now, by a wrong clock or another setting, is probed at once."""
        if self.open_until is None:
            return Permission.CALL
        return Permission.REFUSED if 0.0 < self.open_until - now <= longest_s else Permission.PROBE

    def probed(self, limits: BreakerLimits, *, now: float) -> Circuit:
        """Return the circuit after a probe was allowed: other calls are refused until it reports, or for ``open_s``."""
        return replace(self, open_until=now + limits.open_s, probing=True, changed_at=now)

    def failed(self, limits: BreakerLimits, *, now: float, caller: str = "") -> Circuit:
        """Return the circuit after a failed call; calls under way when it opened do not keep it open for longer."""
        if self.probing:
            return replace(self, open_until=now + limits.open_s, probing=False, changed_at=now)
        if self.open_until is not None:
            return self
        before = self.counted.get(caller, 0)
        share = limits.failures if limits.share is None else limits.share
        after = replace(self, counted={**self.counted, caller: min(share, before + 1)}, changed_at=now)
        return replace(after, open_until=now + limits.open_s) if after.failures >= limits.failures else after


CLOSED = Circuit()  # also after a success, even if the call began before the circuit opened

CIRCUITS = "chordwise:circuits"
OPENED = "chordwise:circuits:opened"  # counts of openings of each channel's circuits, ever

_FRESH_S = 1.0
_PATIENCE_S = 0.2  # a query that waits for a Redis that hangs has less time for its channels
_FORGOTTEN_AFTER_S = 600.0  # older failures are ignored
_TRIES = 4

_CIRCUIT: TypeAdapter[Circuit] = TypeAdapter(Circuit)

# Changes one circuit if it is unchanged since it was read. Returns nil when it was changed, else its current value.
_SWAP = """
local seen = redis.call('HGET', KEYS[1], ARGV[1])
if (seen or '') ~= ARGV[2] then return seen or '' end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CircuitPass:
    """A permitted call, and the circuits that get its outcome."""

    circuits: tuple[str, ...]
    caller: str


class Breakers:
    """The circuits of every part, and of every source in the channel ``api``; thread-safe."""

    def __init__(
        self,
        client: redis.Redis,
        limits: BreakerLimits,
        *,
        meter: Meter | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._redis = client
        self._limits = limits
        self._longest_s = limits.open_s + WORST_SKEW_S
        self._meter = meter
        self._clock = clock
        # Until the first reading has ended, every circuit counts as closed. One caller waits for each reading, but not long.
        self._circuits: RefreshingValue[dict[str, Circuit]] = RefreshingValue(
            self._read_circuits, fresh_s=_FRESH_S, initial=({},), patience_s=_PATIENCE_S, clock=clock
        )
        self._writing = threading.Lock()

    def enter(self, part: str, tenant_id: TenantId, *, source: str | None = None) -> CircuitPass | None:
        """Ask for permission to call ``part``, or one ``source`` of it; None if refused. Never raises."""
        states = self._circuits.get()
        caller = hashlib.sha256(tenant_id.encode()).hexdigest()[:16]
        circuits: tuple[str, ...] = (f"{part}/{caller}", part)
        if source is not None:
            circuits = (f"{part}/{caller}/{source}",)
        elif part == ChannelName.API:
            circuits = ()
        if states:
            now = self._clock()
            permissions = {
                name: states[name].permission(now=now, longest_s=self._longest_s) for name in circuits if name in states
            }
            if Permission.REFUSED in permissions.values():
                return None
            probes = [name for name, permission in permissions.items() if permission is Permission.PROBE]
            if not all(self._probe(name) for name in probes):
                return None
        return CircuitPass(circuits=circuits, caller=caller)

    def leave(self, permit: CircuitPass, *, failed: bool) -> None:
        """Report the outcome of a call; a refusal by the service is an answer. Never raises."""
        now = self._clock()
        for name in permit.circuits:
            if failed:
                limits = self._limits_of(name)
                self._change(name, partial(Circuit.failed, limits=limits, now=now, caller=permit.caller))
            elif name in (self._circuits.last or {}):
                self._change(name, lambda _: CLOSED)

    def circuits(self) -> dict[str, Circuit]:
        """Return every circuit that is not closed and clean, by name."""
        return dict(self._circuits.get())

    def open_parts(self) -> dict[str, int]:
        """Return how many circuits refuse calls, by part."""
        return dict(Counter(name.partition("/")[0] for name in self._refusing()))

    def open_to_all(self) -> list[str]:
        """Return the parts whose circuit refuses the calls of every tenant; those of one tenant's calls or sources are its
        own matter."""
        return sorted(name for name in self._refusing() if "/" not in name)

    def _refusing(self) -> list[str]:
        """Return the circuits that refuse calls now: not those whose pause is over, which the next call probes."""
        now, states = self._clock(), self.circuits()
        return [
            name
            for name, state in states.items()
            if state.permission(now=now, longest_s=self._longest_s) is Permission.REFUSED
        ]

    def opened(self) -> dict[str, int]:
        """Return how often the circuits of each part have opened in the whole fleet. Raises StoreUnavailable."""
        with redis_errors():
            raw: dict[bytes, bytes] = self._redis.hgetall(OPENED)  # type: ignore[assignment]
        return {channel.decode(): int(count) for channel, count in raw.items()}

    def _limits_of(self, name: str) -> BreakerLimits:
        return self._limits if "/" in name else self._limits.between_callers()

    def _probe(self, name: str) -> bool:
        """Claim the one probe; False if another process has it."""
        now = self._clock()
        taken = False

        def take(circuit: Circuit) -> Circuit:
            nonlocal taken
            taken = circuit.permission(now=now, longest_s=self._longest_s) is not Permission.REFUSED
            probes = taken and circuit.open_until is not None
            return circuit.probed(self._limits_of(name), now=now) if probes else circuit

        self._change(name, take)
        return taken

    def _read_circuits(self) -> dict[str, Circuit]:
        circuits = self._circuits.last or {}
        with suppress(Unavailable), redis_errors():
            raw: dict[bytes, bytes] = self._redis.hgetall(CIRCUITS)  # type: ignore[assignment]
            circuits = {name.decode(): _read(value) for name, value in raw.items()}
        return self._unexpired(circuits)

    def _unexpired(self, circuits: dict[str, Circuit]) -> dict[str, Circuit]:
        oldest = self._oldest()
        return {name: circuit for name, circuit in circuits.items() if circuit.changed_at > oldest}

    def _oldest(self) -> float:
        """Return the time before which a circuit's latest change is too old to count."""
        return self._clock() - _FORGOTTEN_AFTER_S - self._limits.open_s

    def _change(self, name: str, change: Callable[[Circuit], Circuit]) -> None:
        """Apply ``change`` to the fleet's circuit, or to this process's own while Redis is unavailable."""
        with self._writing:
            before = (self._circuits.last or {}).get(name, CLOSED)
            after = change(before)
            with contextlib.suppress(Unavailable):  # without Redis, this process's own circuits are used
                before, after = self._swap(name, before, change)
            others = {other: circuit for other, circuit in (self._circuits.last or {}).items() if other != name}
            self._circuits.put(others if after == CLOSED else {**others, name: after})
        self._log_change(name, before, after)

    def _swap(self, name: str, seen: Circuit, change: Callable[[Circuit], Circuit]) -> tuple[Circuit, Circuit]:
        oldest, raw = self._oldest(), _write(seen)
        for _ in range(_TRIES):
            before = _read(raw.encode()) if raw else CLOSED
            if before.changed_at <= oldest:
                before = CLOSED
            after = change(before)
            ttl_s = int(_FORGOTTEN_AFTER_S + 2 * self._limits.open_s)
            with redis_errors():
                other = self._redis.eval(_SWAP, 1, CIRCUITS, name, raw, _write(after), str(ttl_s))
            if other is None:
                if after.state is CircuitState.OPEN and before.state is not CircuitState.OPEN:
                    with redis_errors():
                        self._redis.hincrby(OPENED, name.partition("/")[0], 1)
                return before, after
            raw = other.decode() if isinstance(other, bytes) else str(other)
        return before, after  # many processes write at once; their failures count as well as this one

    def _log_change(self, name: str, before: Circuit, after: Circuit) -> None:
        if before.state is after.state:
            return
        part, _, rest = name.partition("/")
        tenant, _, source = rest.partition("/")
        if self._meter is not None:
            self._meter.count("chordwise_breaker_changes", part=part, state=after.state.value)
        fields: dict[str, object] = {"channel": part, "circuit_of": tenant or "everybody", "failures": after.failures}
        if source:
            fields["source"] = source
        if after.state is CircuitState.OPEN:
            log.error("circuit_opened", alert=True, open_s=self._limits.open_s, **fields)
        elif after.state is CircuitState.HALF_OPEN:
            log.info("circuit_probed", **fields)
        else:
            log.warning("circuit_closed", alert=True, **fields)


def _write(circuit: Circuit) -> str:
    return "" if circuit == CLOSED else _CIRCUIT.dump_json(circuit).decode()


def _read(raw: bytes) -> Circuit:
    try:
        return _CIRCUIT.validate_json(raw)
    except ValidationError:  # written by another version of this code
        return CLOSED
