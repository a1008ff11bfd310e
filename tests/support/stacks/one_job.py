"""Work on a chosen job, whosever turn it is."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.ingestion.run import ingest_claims, take
from pipeline.records import IngestQueue, JobId, TenantId
from pipeline.resources import Resources


def ingest_batch(
    tenant_id: TenantId, job_id: JobId, use: Resources, *, notify: Callable[[TenantId, JobId], object]
) -> int:
    """Work on one batch of the job's due items; notify again if more are due. Return how many."""
    claims = take(tenant_id, job_id, use)
    if claims is None or not claims.items:
        return 0
    # A turn of the queue `long` does not end while tenants of other tests wait.
    ingest_claims(tenant_id, claims.items, use, notify=notify, queue=IngestQueue.LONG)
    if claims.more:
        notify(tenant_id, job_id)
    return len(claims.items)
