"""End items of a job, put them back or give them up, and finish the job after its last item."""

import random
from collections.abc import Sequence
from functools import partial

import structlog

from pipeline.database.expiring_record_store import FullStores
from pipeline.database.unit_of_work import UnitOfWork, unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import Retired
from pipeline.errors import IngestCrowded, LeaseLost, PipelineError, RateLimited, Rejected, Unavailable
from pipeline.jobs.lease_store import Lease
from pipeline.jobs.ledger_store import ItemClaim, Ledger
from pipeline.keyword.statistics_store import Statistics
from pipeline.records import FailureReason, JobId, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_LONGEST_S = 600.0  # between two attempts


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


def backoff_s(attempt: int, *, jitter: float | None = None) -> float:
    """Return the seconds to wait after failed attempt number ``attempt``, from 1: 1 s doubled up to 10 minutes,
    times 0.5 to 1 so that failures spread. ``jitter`` in [0, 1) fixes the draw."""
    draw = random.random() if jitter is None else jitter
    ceiling = min(_LONGEST_S, 2.0 ** max(0, attempt - 1))
    return ceiling * (0.5 + draw / 2)


def give_up_or_retry(tenant_id: TenantId, claim: ItemClaim, error: Exception, use: Resources) -> None:
    """Decide from the number of attempts; if even that cannot be written, the lease expires and decides."""
    FullStores(use.quick_redis).note(error)
    code = getattr(error, "code", "internal_error")
    detail = error.public if isinstance(error, PipelineError) else f"unexpected {type(error).__name__}"
    counted = not isinstance(error, RateLimited | IngestCrowded)  # an item that had to wait has not failed
    delay = max(backoff_s(claim.attempts if counted else 1), getattr(error, "retry_after_s", None) or 0.0)
    used_up = counted and claim.attempts >= use.settings.ingest_max_attempts
    try:
        with unit_of_work(use.mysql) as work:
            ledger = Ledger(work.connection, tenant_id)
            ledger.hold([claim])
            if used_up:
                reason = FailureReason.GAVE_UP if isinstance(error, PipelineError) else FailureReason.BUG
                detail = f"gave up after {claim.attempts} attempts: {detail}"
                ledger.fail([claim], code=code, detail=detail, reason=reason)
                Retired(work.connection, tenant_id).add([claim.generation])
                close(tenant_id, [claim], ledger, use, work)
            else:
                ledger.put_back([claim], delay_s=delay, code=code, detail=detail, counted=counted)
    except (Unavailable, LeaseLost) as unwritten:
        log.warning("left_to_the_lease", job_id=claim.job_id, ordinal=claim.ordinal, code=unwritten.code)
        return
    event = "item_given_up" if used_up else "item_put_back"
    log.info(event, job_id=claim.job_id, ordinal=claim.ordinal, code=code, attempts=claim.attempts)
