"""Cancel, retry, pause and resume jobs in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from pipeline.database.rows import TenantStore, now, slices
from pipeline.database.statements import sql
from pipeline.documents.outcome_store import DocumentOutcomes
from pipeline.jobs.claims import becomes, may
from pipeline.jobs.states import Move
from pipeline.records import Generation, JobId

_ROWS_PER_STATEMENT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of a job that decides whether it can be steered."""

    finished: bool
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Cancelled items, by the rows they may have left."""

    untouched: int
    begun: tuple[Generation, ...]  # rows of these may stand aside
    held: tuple[Generation, ...]  # and of these a worker may still be writing some

    @property
    def total(self) -> int:
        """The number of cancelled items."""
        return self.untouched + len(self.begun) + len(self.held)


class JobControl(TenantStore):
    """One tenant's jobs, as their owner steers them. Items are locked before their job, as in workers."""

    def standing(self, job_id: JobId) -> JobState | None:
        """Return whether the job is finished or paused; None if there is no such job."""
        row = self._run(
            "SELECT finished_at, paused_at FROM jobs WHERE tenant_id = :tenant AND job_id = :job", job=job_id
        ).one_or_none()
        return None if row is None else JobState(finished=row.finished_at is not None, paused=row.paused_at is not None)

    def cancel(self, job_id: JobId) -> Cancelled:
        """Cancel every open item. The fencing tokens move, so later writes of a worker are refused."""
        values = {"tenant": self._tenant_id, "job": job_id, "now": now()}
        rows = self._connection.execute(_OPEN, values).all()
        if rows:
            DocumentOutcomes(self._connection, self._tenant_id).cancelled(job_id, where=may(Move.CANCEL))
            self._connection.execute(_CANCEL, values)
        tried = [
            (row, self._generation(row.namespace, row.document_id, row.generation)) for row in rows if row.attempts
        ]
        held = tuple(generation for row, generation in tried if row.state == "running")
        begun = tuple(generation for row, generation in tried if row.state != "running")
        return Cancelled(untouched=len(rows) - len(tried), begun=begun, held=held)

    def was_cancelled(self, job_id: JobId) -> bool:
        """Return whether any item of the job was cancelled."""
        rows = self._run(
            "SELECT 1 FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND state = 'cancelled' LIMIT 1",
            job=job_id,
        )
        return rows.first() is not None

    def reopen(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Count the documents that `requeue` would queue as the tenant's again; return the number of items."""
        items = 0
        for where in _chosen(ordinals, dead_only=dead_only):
            count = int(self._run(_REPLAYABLE.format(where=where), job=job_id).scalar_one())
            if count:
                DocumentOutcomes(self._connection, self._tenant_id).reopened(job_id, where=where)
            items += count
        return items

    def requeue(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Queue the job's failed and cancelled items, or these, as new, after `reopen`; return how many. Items refused
        in the request or dropped from the dead letters have nothing to retry."""
        values: dict[str, Any] = {"tenant": self._tenant_id, "job": job_id, "now": now()}
        queued = sum(
            self._connection.execute(text(_REQUEUE.format(where=where)), values).rowcount
            for where in _chosen(ordinals, dead_only=dead_only)
        )
        if queued:
            self._connection.execute(
                sql(
                    "UPDATE jobs SET finished_at = NULL, updated_at = :now, revision = revision + 1"
                    " WHERE tenant_id = :tenant AND job_id = :job"
                ),
                values,
            )
        return queued

    def pause(self, job_id: JobId) -> None:
        """Pause the job: workers take no further item of it, and finish those they hold."""
        self._set_paused(job_id, "COALESCE(paused_at, :now)")

    def resume(self, job_id: JobId) -> None:
        """Resume the job."""
        self._set_paused(job_id, "NULL")

    def _set_paused(self, job_id: JobId, value: str) -> None:
        self._run(
            f"UPDATE jobs SET paused_at = {value}, updated_at = :now, revision = revision + 1"
            " WHERE tenant_id = :tenant AND job_id = :job AND finished_at IS NULL",
            job=job_id,
            now=now(),
        )


_OPEN = sql(
    "SELECT ordinal, state, namespace, document_id, generation, attempts FROM job_items"
    f" WHERE tenant_id = :tenant AND job_id = :job AND {may(Move.CANCEL)} ORDER BY ordinal FOR UPDATE"
)

_CANCEL = sql(
    f"UPDATE job_items SET {becomes(Move.CANCEL)}, fencing_token = fencing_token + 1, lease_until = NULL,"
    " next_attempt_at = NULL, outcome = NULL, updated_at = :now"
    f" WHERE tenant_id = :tenant AND job_id = :job AND {may(Move.CANCEL)}"
)

_REPLAYABLE = "SELECT COUNT(*) FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND {where}"

_REQUEUE = (
    f"UPDATE job_items SET {becomes(Move.REPLAY)}, fencing_token = fencing_token + 1, attempts = 0, stage = 'accepted',"
    " next_attempt_at = :now, lease_until = NULL, outcome = NULL, chunk_count = 0, reused_count = 0, error_code = NULL,"
    " error_detail = NULL, error_pointer = NULL, failure = NULL, dead_at = NULL, failed_revision = NULL, updated_at = :now"
    " WHERE tenant_id = :tenant AND job_id = :job AND {where}"
)


def _chosen(ordinals: Sequence[int] | None, *, dead_only: bool) -> Iterator[str]:
    """Yield conditions on items that can be tried again: all of a job, or these in groups that fit a statement."""
    where = f"{may(Move.REPLAY)} AND (state = 'cancelled' OR dead_at IS NOT NULL)"
    where += " AND dead_at IS NOT NULL" if dead_only else ""
    if ordinals is None:
        yield where
        return
    for some in slices(sorted(ordinals), _ROWS_PER_STATEMENT):
        yield f"{where} AND ordinal IN ({', '.join(str(int(ordinal)) for ordinal in some)})"
