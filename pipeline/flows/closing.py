"""How items of a job end, and how whoever waits for the job is told."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from pipeline.errors import Rejected, Unavailable
from pipeline.flows.resources import Resources
from pipeline.records import JobId, TenantId
from pipeline.stores.jobs import Claim, Ledger
from pipeline.stores.queries import announce_job
from pipeline.stores.retired import Retired
from pipeline.stores.statistics import Statistics
from pipeline.stores.work import UnitOfWork, unit_of_work

log = structlog.get_logger(__name__)


def end(tenant_id: TenantId, gone: Sequence[Claim], refused: Sequence[tuple[Claim, Rejected]], use: Resources) -> None:
    """Close items that need no further work: superseded ones, whose payload was dropped, and those at fault."""
    if not gone and not refused:
        return
    claims = [*gone, *(claim for claim, _ in refused)]
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, tenant_id)
        ledger.hold(claims)
        ledger.succeed(dict.fromkeys(gone, 0), outcome="superseded")
        Retired(work.connection, tenant_id).add([claim.generation for claim in gone])
        for claim, error in refused:
            ledger.fail([claim], code=error.code, detail=str(error))
            Retired(work.connection, tenant_id).add([claim.generation])
            log.info("document_rejected", job_id=claim.job_id, ordinal=claim.ordinal, code=error.code)
        close(tenant_id, claims, ledger, use, work)


def close(
    tenant_id: TenantId,
    claims: Sequence[Claim],
    ledger: Ledger,
    use: Resources,
    work: UnitOfWork,
) -> None:
    """Finish the jobs of these claims that have no open item left: count the terms they left waiting, wake who waits."""
    finished = ledger.close_if_done([claim.job_id for claim in claims])
    for namespace in sorted({claim.generation.scope.namespace for claim in claims if claim.job_id in finished}):
        Statistics(work.connection, tenant_id).add_up(namespace)
    for job_id in finished:
        work.after_commit(lambda job_id=job_id: tell_waiters(tenant_id, job_id, use))  # type: ignore[misc]


def tell_waiters(tenant_id: TenantId, job_id: JobId, use: Resources) -> None:
    """Wake who waits for a job. Redis being away costs them a second, not the job."""
    try:
        announce_job(use.redis, tenant_id, job_id)
    except Unavailable as error:
        log.warning("job_end_not_announced", job_id=job_id, code=error.code)
