"""End items of a job, and finish the job after its last item."""

from collections.abc import Sequence
from functools import partial

import structlog

from pipeline.database.unit_of_work import UnitOfWork
from pipeline.documents.document_store import Documents
from pipeline.documents.retention_store import Retired
from pipeline.errors import Rejected
from pipeline.jobs.claims import ItemClaim
from pipeline.jobs.lease_store import Lease
from pipeline.jobs.ledger_store import Ledger
from pipeline.keyword.statistics_store import Statistics
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)


def end(
    lease: Lease, superseded: Sequence[ItemClaim], refused: Sequence[tuple[ItemClaim, Rejected]], use: Resources
) -> None:
    """End and release superseded items, whose payload was dropped, and faulty ones. Raises LeaseLost."""
    if not superseded and not refused:
        return
    tenant_id = lease.tenant_id
    claims = [*superseded, *(claim for claim, _ in refused)]
    with lease.held(claims) as (work, ledger):
        refused_generations = [claim.generation for claim, _ in refused]
        Documents(work.connection, tenant_id).lock(refused_generations)  # all at once, in key order
        ledger.succeed(dict.fromkeys(superseded, 0), outcome="superseded")
        Retired(work.connection, tenant_id).add([claim.generation for claim in superseded])
        for claim, error in refused:
            ledger.fail([claim], code=error.code, detail=str(error))
            Retired(work.connection, tenant_id).add([claim.generation])
            log.info("document_rejected", job_id=claim.job_id, ordinal=claim.ordinal, code=error.code)
        close(tenant_id, claims, ledger, use, work)
    lease.release(claims)


def close(tenant_id: TenantId, claims: Sequence[ItemClaim], ledger: Ledger, use: Resources, work: UnitOfWork) -> None:
    """Finish the jobs of these claims that have no open item left: count their deferred terms, and notify."""
    finished = close_jobs(tenant_id, [claim.job_id for claim in claims], ledger, use, work)
    for namespace in sorted({claim.generation.scope.namespace for claim in claims if claim.job_id in finished}):
        Statistics(work.connection, tenant_id).add_up(namespace)


def close_jobs(
    tenant_id: TenantId,
    job_ids: Sequence[JobId],
    ledger: Ledger,
    use: Resources,
    work: UnitOfWork,
    *,
    touch: bool = True,
) -> set[JobId]:
    """End and return the jobs without remaining work; then notify followers and webhooks. ``touch``: revise every job."""
    finished = set(ledger.close_if_done(job_ids, touch=touch))
    for job_id in sorted(set(job_ids) if touch else finished):
        notify = use.bells.ended if job_id in finished else use.bells.progressed
        work.after_commit(partial(notify, tenant_id, job_id))
    if ledger.deliveries and use.outbox_filled is not None:
        work.after_commit(use.outbox_filled)
    return finished
