"""Cancel, retry, pause and resume jobs in the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeline.database.rows import TenantStore, now, slices
from pipeline.database.statements import sql
from pipeline.documents.outcome_store import DocumentOutcomes
from pipeline.jobs.claims import becomes, may
from pipeline.jobs.states import Move
from pipeline.records import Generation, ItemState, JobId

_ROWS_PER_STATEMENT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Cancelled items, by the rows they may have left."""

    untouched: int
    begun: tuple[Generation, ...]  # may have unpublished rows
    held: tuple[Generation, ...]  # a worker may still be writing rows

    @property
    def total(self) -> int:
        """The number of cancelled items."""
        return self.untouched + len(self.begun) + len(self.held)


class JobControl(TenantStore):
    """One tenant's jobs, as their owner steers them. Items are locked before their job, as in workers."""

    def cancel(self, job_id: JobId) -> Cancelled:
        """Cancel every open item. The fencing tokens move, so later writes of a worker are refused."""
        rows = self._run(_OPEN, job=job_id).all()
        if rows:
            DocumentOutcomes(self._connection, self._tenant_id).cancelled(job_id, where=may(Move.CANCEL))
            self._run(_CANCEL, job=job_id, now=now())
        tried = [
            (row.state == ItemState.RUNNING, self._generation(row.namespace, row.document_id, row.generation))
            for row in rows
            if row.attempts
        ]
        return Cancelled(
            untouched=len(rows) - len(tried),
            begun=tuple(generation for is_held, generation in tried if not is_held),
            held=tuple(generation for is_held, generation in tried if is_held),
        )

    def was_cancelled(self, job_id: JobId) -> bool:
        """Return whether any item of the job was cancelled."""
        where = "tenant_id = :tenant AND job_id = :job AND state = 'cancelled'"
        return self._run(f"SELECT 1 FROM job_items WHERE {where} LIMIT 1", job=job_id).first() is not None

    def reopen(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Count the documents that `requeue` would queue as the tenant's again; return the number of items."""
        items = 0
        for where in _chosen(ordinals, dead_only=dead_only):
            if count := self._run(_REPLAYABLE.format(where=where), job=job_id).scalar_one():
                DocumentOutcomes(self._connection, self._tenant_id).reopened(job_id, where=where)
                items += int(count)
        return items

    def requeue(self, job_id: JobId, ordinals: Sequence[int] | None = None, *, dead_only: bool = False) -> int:
        """Queue the job's failed and cancelled items, or these, as new, after `reopen`; return how many. Items refused
        in the request or dropped from the dead letters have nothing to retry."""
        moment = now()
        queued = sum(
            self._run(_REQUEUE.format(where=where), job=job_id, now=moment).rowcount
            for where in _chosen(ordinals, dead_only=dead_only)
        )
        if queued:
            self._run(_REVISE.format(assignment="finished_at = NULL", where=""), job=job_id, now=moment)
        return queued

    def pause(self, job_id: JobId) -> None:
        """Pause the job: workers take no further item of it, and finish those they hold."""
        pause = "paused_at = COALESCE(paused_at, :now)"
        self._run(_REVISE.format(assignment=pause, where=" AND finished_at IS NULL"), job=job_id, now=now())

    def resume(self, job_id: JobId) -> None:
        """Resume the job."""
        self._run(
            _REVISE.format(assignment="paused_at = NULL", where=" AND finished_at IS NULL"), job=job_id, now=now()
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

_REVISE = (
    "UPDATE jobs SET {assignment}, updated_at = :now, revision = revision + 1"
    " WHERE tenant_id = :tenant AND job_id = :job{where}"
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
    for batch in slices(sorted(ordinals or ()), _ROWS_PER_STATEMENT):
        yield f"{where} AND ordinal IN ({', '.join(str(int(ordinal)) for ordinal in batch)})"
