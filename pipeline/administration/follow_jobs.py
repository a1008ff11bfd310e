"""Read jobs for callers that follow them. Every function raises StoreUnavailable."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_views import Failure, FailurePosition, Fingerprint, Snapshot
from pipeline.jobs.signal_store import JobSignals
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources


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
