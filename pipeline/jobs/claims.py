"""Records of the ledger: new items and claims, and the table of transitions as SQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final

from pipeline.jobs.states import TRANSITIONS, Move
from pipeline.records import Generation, JobId

WORKER_LOST: Final = "worker_lost"  # the code of an item whose lease ran out


@dataclass(frozen=True, slots=True, kw_only=True)
class NewItem:
    """An entry of a new job, final with ``error_code`` or ``outcome``. ``requested_id``: the id sent, if replaced."""

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
    """An item that this worker holds. ``again``: it has begun to write. ``to_fetch``: its bytes are not there yet."""

    job_id: JobId
    ordinal: int
    generation: Generation
    fencing_token: int
    attempts: int
    again: bool = False
    to_fetch: bool = False

    @property
    def may_have_rows(self) -> bool:
        """Whether an earlier attempt may have left rows."""
        return self.again or self.fencing_token > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claimed items of a job. ``more``: further items are due now."""

    items: tuple[ItemClaim, ...]
    more: bool


def by_job(claims: Sequence[ItemClaim]) -> list[tuple[JobId, list[ItemClaim]]]:
    """Group claims by job, both in order."""
    ordered = sorted(claims, key=attrgetter("job_id", "ordinal"))
    return [(job_id, list(group)) for job_id, group in groupby(ordered, key=attrgetter("job_id"))]


def becomes(move: Move) -> str:
    """Return an assignment for SET, such as ``state = 'running'``."""
    return f"state = '{TRANSITIONS[move].target}'"


def may(move: Move) -> str:
    """Return a condition for WHERE, such as ``state IN ('queued')``."""
    return "state IN (" + ", ".join(f"'{state}'" for state in TRANSITIONS[move].sources) + ")"
