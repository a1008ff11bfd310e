"""Work on claimed items: hold them in a lease that is renewed in one place, end them, put them back or give them up, and
finish the job after its last item."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Engine

from pipeline.database.expiring_record_store import FullStores
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import Retired
from pipeline.errors import (
    EmbedderUnavailable,
    LeaseLost,
    Misconfigured,
    ParserUnavailable,
    PipelineError,
    RateLimited,
    Rejected,
    StoreUnavailable,
    TenantGone,
    Unavailable,
    VectorsMissing,
)
from pipeline.jobs.ledger_store import ItemClaim, Ledger
from pipeline.outages import tolerate_outage
from pipeline.records import FailureReason, JobId, Stage, TenantId
from pipeline.resources import Resources
from pipeline.threads import start_call

T = TypeVar("T")

log = structlog.get_logger(__name__)

_RENEW_AT: Final = 1 / 6  # of the lease: several renewals may fail before it runs out
_RENEW_CALL_AT: Final = 1 / 3  # of the lease, while a call blocks
_LONGEST_S: Final = 600.0  # between two attempts


class Lease:
    """The claims of one tenant that a worker holds, and the stage that each has reached.

    Every write goes through a transaction of `held`, in which the ledger locks the items and compares fencing tokens:
    after a cancellation, or when another worker took items over, it raises LeaseLost and nothing is written.
    """

    def __init__(
        self,
        mysql: Engine,
        tenant_id: TenantId,
        claims: Sequence[ItemClaim],
        *,
        lease_s: float,
        waiting: Sequence[ItemClaim] = (),
    ) -> None:
        """Hold claims for ``lease_s`` seconds from each renewal. ``waiting``: claims of the same worker that wait until
        these have ended; those still held are renewed with them."""
        self.tenant_id = tenant_id
        self._mysql = mysql
        self._lease_s = lease_s
        self._waiting = tuple(waiting)
        self._stages: dict[ItemClaim, Stage] = dict.fromkeys(claims, Stage.ACCEPTED)
        self._due = Deadline.after(lease_s * _RENEW_AT)

    @property
    def claims(self) -> list[ItemClaim]:
        """The claims that are worked on, in the order in which they were claimed."""
        return list(self._stages)

    @property
    def job_id(self) -> JobId:
        """The job of the first claim."""
        return self.claims[0].job_id

    @contextmanager
    def held(self, claims: Sequence[ItemClaim] | None = None) -> Iterator[tuple[UnitOfWork, Ledger]]:
        """Open a transaction in which these items, by default all, are locked. Raises LeaseLost if any is lost."""
        with unit_of_work(self._mysql) as work:
            ledger = Ledger(work.connection, self.tenant_id)
            ledger.hold(self.claims if claims is None else claims)
            yield work, ledger

    def release(self, claims: Collection[ItemClaim]) -> None:
        """Let go of items that have ended; they are not renewed any more."""
        for claim in claims:
            self._stages.pop(claim, None)

    def reach(self, stage: Stage, claims: Collection[ItemClaim]) -> None:
        """Set the stage that items have reached; the next renewal writes it."""
        self._stages.update((claim, stage) for claim in claims if claim in self._stages)

    def advance(self, ledger: Ledger, stage: Stage) -> None:
        """Write the stage that all items have reached and renew, within a transaction of `held`."""
        self.reach(stage, self.claims)
        self._write(ledger)

    @retry_conflicts()
    def renew(self) -> None:
        """Renew all items and the waiting claims. Raises LeaseLost if any of its own items is lost."""
        with self.held() as (_, ledger):
            self._write(ledger)

    @property
    def is_due(self) -> bool:
        """Whether the last renewal was a while ago."""
        return self._due.has_passed

    def renew_if_due(self) -> bool:
        """Renew all items if the last renewal was a while ago, and return whether it was. Raises LeaseLost."""
        if is_due := self.is_due:
            self.renew()
        return is_due

    @retry_conflicts()
    def renew_rest(self) -> list[ItemClaim]:
        """Renew the items that are still held, and release and return the lost ones."""
        with unit_of_work(self._mysql) as work:
            ledger = Ledger(work.connection, self.tenant_id)
            held = set(ledger.still_held(self.claims))
            lost = [claim for claim in self.claims if claim not in held]
            self.release(lost)
            self._write(ledger)
        return lost

    def renew_during(self, call: Callable[[threading.Event], T]) -> T:
        """Run ``call`` in a thread, renewing meanwhile; return or raise as it does. If the lease is lost, set the event
        that ``call`` was given and raise LeaseLost at once; go on while MySQL is unavailable."""
        stop = threading.Event()
        future = start_call(call, stop)
        try:
            while True:
                try:
                    return future.result(timeout=self._lease_s * _RENEW_CALL_AT)
                except TimeoutError:
                    if future.done():  # it was the call's own
                        raise
                with tolerate_outage(log.warning, "lease_not_renewed"):
                    self.renew()
        finally:
            stop.set()

    def _write(self, ledger: Ledger) -> None:
        for stage in sorted(set(self._stages.values())):
            ledger.advance([claim for claim, at in self._stages.items() if at is stage], stage, lease_s=self._lease_s)
        if self._waiting:
            ledger.advance(ledger.still_held(self._waiting), Stage.ACCEPTED, lease_s=self._lease_s)
        self._due = Deadline.after(self._lease_s * _RENEW_AT)


@retry_conflicts()
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
        close_jobs(tenant_id, [claim.job_id for claim in claims], ledger, use, work)
    lease.release(claims)


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
        notify = use.notifications.ended if job_id in finished else use.notifications.progressed
        work.after_commit(partial(notify, tenant_id, job_id))
    if ledger.deliveries and use.outbox_filled is not None:
        work.after_commit(use.outbox_filled)
    return finished


def backoff_s(attempt: int, *, jitter: float | None = None) -> float:
    """Return the seconds to wait after failed attempt number ``attempt``, from 1: 1 s doubled up to 10 minutes,
    times 0.5 to 1 so that failures spread. ``jitter`` in [0, 1) fixes the draw."""
    draw = random.random() if jitter is None else jitter
    ceiling = min(_LONGEST_S, 2.0 ** min(30, max(0, attempt - 1)))
    return ceiling * (0.5 + draw / 2)


def retry_delay_s(attempt: int, *, asked_s: float | None, jitter: float | None = None) -> float:
    """Return the seconds to the next attempt: those of `backoff_s`, or more if a service asked for it, at most 10 minutes."""
    return max(backoff_s(attempt, jitter=jitter), min(_LONGEST_S, asked_s or 0.0))


# Reasons for putting an item back that concern every document alike; a website's, or a rate limit, do not.
_SHARED_CAUSES: Final = tuple(
    kind.code
    for kind in (Unavailable, StoreUnavailable, EmbedderUnavailable, VectorsMissing, ParserUnavailable, Misconfigured)
)


def wake_postponed(tenant_id: TenantId, claims: Sequence[ItemClaim], use: Resources) -> bool:
    """Let the items of a tenant go on that wait for their next attempt after an outage, once an item that had failed before
    has succeeded: the outage is over. Return whether there are any. Without MySQL they wait until they are due."""
    woken = 0
    if any(claim.attempts > 1 for claim in claims):
        with tolerate_outage(log.warning, "items_not_woken"), unit_of_work(use.mysql) as work:
            woken = Ledger(work.connection, tenant_id).wake(codes=_SHARED_CAUSES)
    if woken:
        log.info("items_woken", items=woken)
    return woken > 0


def give_up_or_retry(tenant_id: TenantId, claim: ItemClaim, error: Exception, use: Resources) -> None:
    """Decide from the number of attempts; if even that cannot be written, the lease expires and decides."""
    FullStores(use.quick_redis).note(error)
    code = getattr(error, "code", "internal_error")
    detail = error.public if isinstance(error, PipelineError) else f"unexpected {type(error).__name__}"
    counted = not isinstance(error, RateLimited)  # an item that had to wait has not failed
    delay = retry_delay_s(claim.attempts if counted else 1, asked_s=getattr(error, "retry_after_s", None))
    used_up = counted and claim.attempts >= use.settings.ingest_max_attempts

    @retry_conflicts()
    def write() -> None:
        with unit_of_work(use.mysql) as work:
            ledger = Ledger(work.connection, tenant_id)
            ledger.hold([claim])
            if used_up:
                reason = FailureReason.GAVE_UP if isinstance(error, PipelineError) else FailureReason.BUG
                given_up = f"gave up after {claim.attempts} attempts: {detail}"
                ledger.fail([claim], code=code, detail=given_up, reason=reason)
                Retired(work.connection, tenant_id).add([claim.generation])
                close_jobs(tenant_id, [claim.job_id], ledger, use, work)
            else:
                ledger.put_back([claim], delay_s=delay, code=code, detail=detail, counted=counted)

    ids: dict[str, Any] = {"job_id": claim.job_id, "ordinal": claim.ordinal}
    with tolerate_outage(log.warning, "left_to_the_lease", also=(LeaseLost, TenantGone), **ids):
        write()
        log.info("item_given_up" if used_up else "item_put_back", **ids, code=code, attempts=claim.attempts)
