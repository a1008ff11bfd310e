"""A worker's lease on the items of a batch: renewed in one place while the batch is worked on."""

import contextvars
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

import structlog
from sqlalchemy import Engine

from pipeline.database.unit_of_work import UnitOfWork, unit_of_work
from pipeline.deadline import Deadline
from pipeline.errors import Unavailable
from pipeline.jobs.ledger_store import ItemClaim, Ledger
from pipeline.records import JobId, Stage, TenantId

T = TypeVar("T")

log = structlog.get_logger(__name__)

# A renewal is due after a sixth of the lease, so that several may fail before it runs out; a call that blocks is
# interrupted for one after a third.
_RENEW_AT: Final = 1 / 6
_RENEW_CALL_AT: Final = 1 / 3


class Lease:
    """The claims of one tenant that a worker holds, and the stage that each has reached.

    Every write goes through a transaction of `held`, in which the ledger locks the items and compares fencing tokens:
    after a cancellation, or when another worker took items over, it raises LeaseLost and nothing is written.
    """

    def __init__(self, mysql: Engine, tenant_id: TenantId, claims: Sequence[ItemClaim], *, lease_s: float) -> None:
        self.tenant_id = tenant_id
        self._mysql = mysql
        self._lease_s = lease_s
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

    def renew(self) -> None:
        """Renew all items. Raises LeaseLost if any is lost."""
        with self.held() as (_, ledger):
            self._write(ledger)

    def renew_if_due(self) -> bool:
        """Renew all items if the last renewal was a while ago, and return whether it was. Raises LeaseLost."""
        if is_due := self._due.has_passed:
            self.renew()
        return is_due

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
        pool = ThreadPoolExecutor(1, thread_name_prefix="slow")
        future = pool.submit(contextvars.copy_context().run, call, stop)
        try:
            while True:
                try:
                    return future.result(timeout=self._lease_s * _RENEW_CALL_AT)
                except TimeoutError:
                    if future.done():  # it was the call's own
                        raise
                try:
                    self.renew()
                except Unavailable as error:
                    log.warning("lease_not_renewed", code=error.code)
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def _write(self, ledger: Ledger) -> None:
        for stage in sorted(set(self._stages.values())):
            ledger.advance([claim for claim, at in self._stages.items() if at is stage], stage, lease_s=self._lease_s)
        self._due = Deadline.after(self._lease_s * _RENEW_AT)
