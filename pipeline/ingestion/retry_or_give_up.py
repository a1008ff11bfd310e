"""Retry an item later whose dependency was unavailable, or give it up after many attempts."""

import random

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.retention_store import Retired
from pipeline.errors import IngestCrowded, LeaseLost, PipelineError, RateLimited, Unavailable
from pipeline.ingestion.finish_items import close
from pipeline.jobs.claims import ItemClaim
from pipeline.jobs.ledger_store import Ledger
from pipeline.records import FailureReason, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)

_LONGEST_S = 600.0


def backoff_s(attempt: int, *, jitter: float | None = None) -> float:
    """Return the seconds to wait after failed attempt number ``attempt``, from 1: 1 s doubled up to 10 minutes,
    times 0.5 to 1 so that failures spread. ``jitter`` in [0, 1) fixes the draw."""
    draw = random.random() if jitter is None else jitter
    ceiling = min(_LONGEST_S, 2.0 ** max(0, attempt - 1))
    return ceiling * (0.5 + draw / 2)


def give_up_or_retry(tenant_id: TenantId, claim: ItemClaim, error: Exception, use: Resources) -> None:
    """Decide from the number of attempts; if even that cannot be written, the lease expires and decides."""
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
