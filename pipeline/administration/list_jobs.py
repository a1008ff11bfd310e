"""Jobs and their items, page by page."""

from __future__ import annotations

from datetime import datetime

from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import JobViews
from pipeline.jobs.job_views import ItemView, JobFilter, JobView, Match
from pipeline.jobs.match_store import Matches
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources


def list_jobs(
    tenant_id: TenantId, chosen: JobFilter, before: tuple[datetime, str] | None, limit: int, use: Resources
) -> list[JobView]:
    """Return the chosen jobs older than the (created_at, job_id) cursor, newest first."""
    with unit_of_work(use.mysql) as work:
        return JobViews(work.connection, tenant_id).newest(chosen, before=before, limit=limit)


def find_matches(
    tenant_id: TenantId, text: str, namespace: str | None, limit: int, use: Resources
) -> tuple[list[Match], bool]:
    """Return documents, refused items and jobs that ``text`` may mean, failures first, at most ``limit`` of each; and
    whether uploads were left out of the comparison."""
    with unit_of_work(use.mysql) as work:
        return Matches(work.connection, tenant_id).of(text, namespace=namespace, limit=limit)


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
