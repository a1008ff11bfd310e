"""A job's counters in one consistent read, and its failures in order.

``jobs.revision`` grows with every failure, ended batch and act of the owner under the job's lock, so a reader of all
failures up to a revision has missed none.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.database.rows import TenantStore, record_of
from pipeline.database.statements import sql
from pipeline.jobs.job_view_store import JobViews, count_items, status_of
from pipeline.jobs.job_views import Failure, FailurePosition, Fingerprint, Snapshot
from pipeline.records import JobId


class JobSignals(TenantStore):
    """One tenant's jobs, for callers that follow them."""

    def snapshot(self, job_id: JobId, *, reasons: bool = True) -> Snapshot | None:
        """Return a snapshot of the job, None if there is none; without ``reasons``, ``waiting_reason`` is None."""
        rows = self._run(_SNAPSHOT, job=job_id).all()
        if not rows:
            return None
        job = rows[0]
        items, stages = count_items([row for row in rows if row.state is not None])
        views = JobViews(self._connection, self._tenant_id)
        return record_of(
            Snapshot,
            job,
            job_id=job_id,
            status=status_of(items),
            items=items,
            chunks=int(sum(row.chunks or 0 for row in rows)),
            stages=stages,
            waiting_reason=views.waiting_reason(job, items) if reasons and not job.finished_at else None,
        )

    def failures(self, job_id: JobId, *, after: FailurePosition, limit: int) -> list[Failure]:
        """Return failed items in the order of failing, after ``after``, without those queued again since."""
        rows = self._run(_FAILURES, job=job_id, revision=after.revision, ordinal=after.ordinal, limit=limit)
        return [record_of(Failure, row, position=record_of(FailurePosition, row)) for row in rows]

    def fingerprints(self, job_ids: Sequence[JobId]) -> dict[JobId, Fingerprint]:
        """Return values to compare to see whether a job has changed. One statement for all."""
        rows = self._run(_FINGERPRINTS, jobs=list(job_ids))
        return {JobId(job_id): (revision, served_at) for job_id, revision, served_at in rows}


_SNAPSHOT = sql(
    "SELECT j.job_id, j.namespace, j.revision, j.total, j.created_at, j.updated_at, j.finished_at, j.paused_at,"
    " j.served_at, i.state, i.stage, i.items, i.chunks FROM jobs j LEFT JOIN ("
    "SELECT state, stage, COUNT(*) AS items, SUM(chunk_count) AS chunks FROM job_items"
    " WHERE tenant_id = :tenant AND job_id = :job GROUP BY state, stage) i ON TRUE"
    " WHERE j.tenant_id = :tenant AND j.job_id = :job"
)

_FAILURES = sql(
    "SELECT failed_revision AS revision, ordinal, document_id, COALESCE(error_code, '') AS code, error_detail AS detail,"
    " error_pointer AS pointer FROM job_items WHERE tenant_id = :tenant AND job_id = :job AND failed_revision >= :revision"
    " AND (failed_revision > :revision OR ordinal > :ordinal) ORDER BY failed_revision, ordinal LIMIT :limit"
)

_FINGERPRINTS = sql("SELECT job_id, revision, served_at FROM jobs WHERE tenant_id = :tenant AND job_id IN :jobs")
