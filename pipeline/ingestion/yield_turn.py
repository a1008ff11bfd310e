"""End a batch's turn for other tenants: put back documents not begun, and move one that takes long to the queue `long`."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import structlog

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import IngestCrowded, Unavailable
from pipeline.jobs.ledger_store import ItemClaim, Ledger
from pipeline.jobs.turn_store import turns
from pipeline.outages import tolerate_outage
from pipeline.records import IngestQueue, JobId, TenantId
from pipeline.resources import Resources

_SHARE_S = 0.5  # of a batch, once another tenant waits
_LOOK_AGAIN_S = 0.25  # between two looks for waiting tenants, one statement each

log = structlog.get_logger(__name__)


class Notify(Protocol):
    """Wakes a worker of a queue for a job. A lost notification only delays: the sweeper notifies again."""

    def __call__(self, tenant_id: TenantId, job_id: JobId, queue: IngestQueue = IngestQueue.INGEST, /) -> object:
        """Send one notification."""


def is_left_alone(queue: IngestQueue, use: Resources) -> bool:
    """Return whether workers run but none of them serves a queue, as after an upgrade that started none of its role. While
    Redis is away every queue counts as served."""
    with suppress(Unavailable):
        workers = use.heartbeats.all()
        return bool(workers) and not any(queue in worker.queues for worker in workers)
    return False


class Turn:
    """A worker's turn with the batch of one tenant. It may take any time while no other tenant waits, and always in the
    queue `long`, where a turn is one document."""

    def __init__(self, tenant_id: TenantId, use: Resources, notify: Notify, queue: IngestQueue) -> None:
        self._tenant_id, self._use, self._notify = tenant_id, use, notify
        self._next_look = Deadline.after(_SHARE_S if queue is IngestQueue.INGEST else None)
        self.has_put_back = False  # documents that are due at once and whose notification is still to be sent

    def is_over(self) -> bool:
        """Return whether the time is used up and another tenant waits. It looks at most every quarter of a second.

        No transaction may be open. While MySQL is away the turn goes on: the lease ends it."""
        if not self._next_look.has_passed:
            return False
        self._next_look = Deadline.after(_LOOK_AGAIN_S)
        with tolerate_outage(log.warning, "waiting_tenants_not_seen"), unit_of_work(self._use.mysql) as work:
            return any(waiting.tenant_id != self._tenant_id for waiting in turns(work.connection))
        return False

    @retry_conflicts()
    def leave(self, *, long: Sequence[ItemClaim] = (), rest: Sequence[ItemClaim] = ()) -> None:
        """Move ``long`` to the queue `long` and put ``rest`` back into its own queue, without counting an attempt.

        Claims that were lost meanwhile are left out. The caller releases all of them."""
        with unit_of_work(self._use.mysql) as work:
            ledger = Ledger(work.connection, self._tenant_id)
            for claims, queue, detail in (
                (long, IngestQueue.LONG, "it takes long and goes on beside the others"),
                (rest, None, "the other documents of its batch took long"),
            ):
                held = ledger.still_held(claims)
                ledger.put_back(held, delay_s=0.0, code=IngestCrowded.code, detail=detail, counted=False, queue=queue)
            for claim in long:
                work.after_commit(partial(self._notify, self._tenant_id, claim.job_id, IngestQueue.LONG))
        self.has_put_back |= bool(rest)
        log.info("turn_ended", tenant_id=self._tenant_id, long=len(long), put_back=len(rest))
