"""Delete the jobs of a tenant that ended long ago, with their items; and until when jobs and counts of usage are kept."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from pipeline.database.rows import TenantStore
from pipeline.database.statements import TenantsWith, same_generation, sql
from pipeline.documents.generation_store import GenerationRows
from pipeline.documents.outcome_store import of_dead_letters
from pipeline.records import JobId
from pipeline.vector_stores.attachment_store import PUT_A_LISTED_FILE

_JOBS_AT_ONCE: Final = 1000


def keep_jobs_since(moment: datetime, *, keep_days: int) -> datetime | None:
    """Return the time of ending before which jobs are deleted; None: they are kept for ever, as ``keep_days`` is 0.

    A job outlives the stored answer that a repeated request with the same Idempotency-Key gets within a day.
    """
    return moment - timedelta(days=keep_days) if keep_days else None


def keep_usage_since(today: date, *, keep_days: int, job_keep_days: int) -> date | None:
    """Return the day before which counts are deleted; None: they are kept for ever, as either number is 0.

    Counts are kept as long as jobs, which show them, and never end within the current month, which has the quota.
    """
    if not keep_days or not job_keep_days:
        return None
    return min(today - timedelta(days=max(keep_days, job_keep_days)), today.replace(day=1))


class EndedJobs(TenantStore):
    """One tenant's jobs that ended."""

    def forget(self, before: datetime, *, items: int) -> int:
        """Delete jobs that ended before this time, oldest first, and return how many: those with about ``items`` items
        together, but one at least, each whole.

        A job stays while it has a dead letter that a replay could make searchable, or put a file into a vector store that
        lists show. The bytes of cancelled items, which only a retry of the job could use, go with it. Items are locked
        before their jobs, as in workers and by their owner, who may be reopening one.
        """
        job_ids = _bounded(self._run(_ENDED, before=before, limit=_JOBS_AT_ONCE).all(), items)
        if not job_ids:
            return 0
        self._run(_LOCK_ITEMS, jobs=job_ids)
        ended = list(self._run(_LOCK_ENDED, jobs=job_ids, before=before).scalars())
        if ended:
            self._run(_DELETE_BYTES, jobs=ended)
            unpublished = [self._generation(*row) for row in self._run(_UNPUBLISHED, jobs=ended)]
            self._run(_DELETE_ITEMS, jobs=ended)
            GenerationRows(self._connection, self._tenant_id).drop(unpublished, is_retryable=False)
            self._run(_DELETE_JOBS, jobs=ended)
        return len(ended)


tenants_with_jobs_ended = TenantsWith("SELECT DISTINCT tenant_id FROM jobs WHERE finished_at < :before")


def _bounded(jobs: Sequence[Any], items: int) -> list[JobId]:
    """Return the first jobs, as many as have ``items`` items together, and one at least."""
    sizes = accumulate(job.total for job in jobs)
    return [job.job_id for job, size in zip(jobs, sizes, strict=True) if size <= items or job is jobs[0]]


# A scalar with LIMIT 1 looks into one job; MariaDB makes a join of NOT EXISTS that reads those of every job.
_MAY_GO = (
    "j.tenant_id = :tenant AND j.finished_at < :before AND (SELECT 1 FROM job_items i"
    f" {of_dead_letters('i')}"
    " WHERE i.tenant_id = j.tenant_id AND i.job_id = j.job_id AND i.state = 'failed' AND i.dead_at IS NOT NULL LIMIT 1)"
    f" IS NULL AND NOT ({PUT_A_LISTED_FILE})"
)
_ENDED = sql(f"SELECT j.job_id, j.total FROM jobs j WHERE {_MAY_GO} ORDER BY j.finished_at LIMIT :limit")
_LOCK_ENDED = sql(f"SELECT j.job_id FROM jobs j WHERE {_MAY_GO} AND j.job_id IN :jobs ORDER BY j.job_id FOR UPDATE")
_OF_JOBS = "job_items WHERE tenant_id = :tenant AND job_id IN :jobs"
_LOCK_ITEMS = sql(f"SELECT ordinal FROM {_OF_JOBS} ORDER BY job_id, ordinal FOR UPDATE")
_DELETE_BYTES = sql(
    f"DELETE p FROM payloads p JOIN job_items i ON {same_generation('i', 'p')} WHERE i.tenant_id = :tenant"
    " AND i.job_id IN :jobs AND i.state = 'cancelled'"
)
_UNPUBLISHED = sql(
    f"SELECT namespace, document_id, generation FROM {_OF_JOBS} AND state IN ('failed', 'cancelled')"
    " AND generation IS NOT NULL"
)
_DELETE_ITEMS = sql(f"DELETE FROM {_OF_JOBS}")
_DELETE_JOBS = sql("DELETE FROM jobs WHERE tenant_id = :tenant AND job_id IN :jobs")
