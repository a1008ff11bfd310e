"""Jobs and their items, page by page, and for callers that follow them. Every function raises StoreUnavailable."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import JobSignals, JobViews
from pipeline.jobs.job_views import Failure, FailurePosition, Fingerprint, ItemView, JobFilter, JobView, Match, Snapshot
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


def snapshot(tenant_id: TenantId, job_id: JobId, use: Resources) -> Snapshot | None:
    """Return the job's state, or None without such a job."""
    with unit_of_work(use.mysql) as work:
        return JobSignals(work.connection, tenant_id).snapshot(job_id)


def next_failures(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, after: FailurePosition, limit: int
) -> Sequence[Failure]:
    """Return the job's failed items after a position, in the order of failing."""
    with unit_of_work(use.mysql) as work:
        return JobSignals(work.connection, tenant_id).failures(job_id, after=after, limit=limit)


def fingerprints(tenant_id: TenantId, job_ids: Sequence[JobId], use: Resources) -> dict[JobId, Fingerprint]:
    """Return values of these jobs whose changes reveal that something has happened to them."""
    with unit_of_work(use.mysql) as work:
        return JobSignals(work.connection, tenant_id).fingerprints(job_ids)
