"""What is wrong with an installation, as the server answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chordwise.decoding import Result, decode
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Call, Steps

_HOLD_S = 15.0  # the server gives every worker two seconds, and each store its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Result):
    """One thing that was looked at. ``severity`` is ok, warning or failed; ``advice`` is what to do unless it is ok."""

    check: str
    severity: str
    detail: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Result):
    """Everything that was looked at; ``ok`` unless something failed."""

    ok: bool
    findings: tuple[Finding, ...] = ()


class DoctorOperations:
    """The part of ``Operations`` that examines the installation."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def doctor(self) -> Steps[Diagnosis]:
        """See ``Chordwise.doctor``."""
        call = Call(method="GET", path="/v1/doctor", hold_s=_HOLD_S)
        return decode(Diagnosis, (yield from exchange(call, self._policy, clock=self._clock)).json())
