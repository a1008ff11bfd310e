"""Circuit breakers as a pure state machine; times are seconds since the epoch. Several failures in a row open a
circuit. After a while one probe is allowed (half open), whose success closes it; a probe whose process died is
replaced."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


class CircuitState(enum.StrEnum):
    """The states of a circuit."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """``failures`` in a row open a circuit for ``open_s``. ``share``: the most failures counted of one caller; below
    ``failures`` no caller opens it alone."""

    failures: int
    open_s: float
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


CLOSED = Circuit()


class Permission(enum.StrEnum):
    """The possible answers to a caller."""

    CALL = "call"
    PROBE = "probe"  # the one probing call; it counts only if it moved the circuit to half open
    REFUSED = "refused"


def permission(circuit: Circuit, *, now: float) -> Permission:
    """Return whether a call is permitted at this moment."""
    if circuit.open_until is None:
        return Permission.CALL
    return Permission.PROBE if now >= circuit.open_until else Permission.REFUSED


def probing(circuit: Circuit, limits: BreakerLimits, *, now: float) -> Circuit:
    """Return the circuit after a probe was allowed: other calls are refused until it reports, or for ``open_s``."""
    return replace(circuit, open_until=now + limits.open_s, probing=True, changed_at=now)


def failed(circuit: Circuit, limits: BreakerLimits, *, now: float, caller: str = "") -> Circuit:
    """Return the circuit after a failed call; calls under way when it opened do not keep it open for longer."""
    if circuit.probing:
        return replace(circuit, open_until=now + limits.open_s, probing=False, changed_at=now)
    if circuit.open_until is not None:
        return circuit
    before = circuit.counted.get(caller, 0)
    share = limits.failures if limits.share is None else limits.share
    after = replace(circuit, counted={**circuit.counted, caller: min(share, before + 1)}, changed_at=now)
    return replace(after, open_until=now + limits.open_s) if after.failures >= limits.failures else after


def succeeded(_: Circuit) -> Circuit:
    """Return the circuit after a success: closed and clean, even if the call began before the circuit opened."""
    return CLOSED
