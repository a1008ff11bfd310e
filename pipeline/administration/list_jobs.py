"""Jobs and their items, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import ItemView, JobStatus, JobView
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources


def list_jobs(
    tenant_id: TenantId,
    statuses: Sequence[JobStatus],
    before: tuple[datetime, str] | None,
    limit: int,
    use: Resources,
) -> list[JobView]:
    """Return jobs older than the (created_at, job_id) cursor, newest first: those in one of ``statuses``, else all."""
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, tenant_id).newest(statuses=statuses, before=before, limit=limit)


def find_job(tenant_id: TenantId, job_id: JobId, use: Resources) -> JobView | None:
    """Return the job with its first hundred errors, or None."""
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, tenant_id).one(job_id)


def is_finished(tenant_id: TenantId, job_id: JobId, use: Resources) -> bool | None:
    """Return whether the job has ended; None without such a job."""
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, tenant_id).is_finished(job_id)


def list_items(
    tenant_id: TenantId,
    job_id: JobId,
    use: Resources,
    *,
    status: str | None,
    after: int,
    limit: int,
    duplicates: bool = False,
) -> list[ItemView] | None:
    """Return items above the ordinal ``after``, None without such a job; ``duplicates``: only copies of older ones."""
    with unit_of_work(use.mysql) as work:
        views = JobViews(work.connection, tenant_id)
        if views.is_finished(job_id) is None:
            return None
        return views.items(job_id, status=status, after=after, limit=limit, duplicates=duplicates)
