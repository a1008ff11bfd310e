"""What is wrong with an installation, as the server answers it."""

from __future__ import annotations

from dataclasses import dataclass

from chordwise.decoding import Result
from chordwise.requesting import Requesting
from chordwise.transport import Steps

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


class DoctorOperations(Requesting):
    """The part of ``Operations`` that examines the installation."""

    def doctor(self) -> Steps[Diagnosis]:
        """What is wrong with the installation, and what to do about it. Takes the operator's key, and some seconds."""
        return self._one(Diagnosis, "GET", "/v1/doctor", hold_s=_HOLD_S)
