"""What goes into the ledger and what a worker gets out of it, and the table of transitions as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.jobs.states import TRANSITIONS, Move
from pipeline.records import Generation, JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An entry of a job being accepted, final already with an ``error_code`` or ``outcome``. ``requested_id``: the id
    sent, if replaced."""

    ordinal: int
    document_id: str | None
    generation: int | None = None
    body_bytes: int = 0
    outcome: str | None = None
    error_code: str | None = None
    error_detail: str | None = None
    error_pointer: str | None = None
    requested_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemClaim:
    """An item this worker holds. ``again``: it has begun to write under this claim. ``to_fetch``: its bytes are still
    to be fetched."""

    job_id: JobId
    ordinal: int
    generation: Generation
    fencing_token: int
    attempts: int
    again: bool = False
    to_fetch: bool = False

    @property
    def may_have_rows(self) -> bool:
        """Whether something of an earlier try may stand aside."""
        return self.again or self.fencing_token > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What one bell brought. ``more``: the job has further items that are due now."""

    items: tuple[ItemClaim, ...]
    more: bool


def by_job(claims: Sequence[ItemClaim]) -> list[tuple[JobId, list[ItemClaim]]]:
    """Claims by job, both in order."""
    grouped: dict[JobId, list[ItemClaim]] = {}
    for claim in sorted(claims, key=lambda claim: (claim.job_id, claim.ordinal)):
        grouped.setdefault(claim.job_id, []).append(claim)
    return list(grouped.items())


def becomes(move: Move) -> str:
    """``state = 'running'`` and the like, for SET."""
    return f"state = '{TRANSITIONS[move].target}'"


def may(move: Move) -> str:
    """``state IN ('queued')`` and the like, for WHERE."""
    return "state IN (" + ", ".join(f"'{state}'" for state in TRANSITIONS[move].sources) + ")"
