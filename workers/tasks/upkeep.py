"""Task entry points of the periodic work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog
from celery import shared_task

from pipeline.administration import edit_webhooks
from pipeline.deadline import Deadline
from pipeline.errors import PipelineError
from pipeline.maintenance import backfill, build_indexes, follow_promotion
from pipeline.maintenance import reconcile as reconciling
from pipeline.maintenance import sweep as upkeep
from pipeline.maintenance.erase import finish_erasures
from pipeline.outages import OutageTolerated
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from workers.base import LoggedTask
from workers.dispatch import enqueue_upkeep, notify_workers
from workers.names import TaskName
from workers.resources import for_ingestion, for_queries

log = structlog.get_logger(__name__)


@shared_task(name=TaskName.SWEEP.value, base=LoggedTask, send_events=False)
def sweep() -> None:
    """Send stalled work again, delete expired data, and enqueue the periodic tasks that have something to do."""
    use = for_ingestion()
    found = upkeep.find_work(use)
    _each(
        partial(_enqueue_due, for_queries(), found),  # further looks are single statements, without transactions
        partial(upkeep.sweep, use, notify=notify_workers, found=found),
        partial(upkeep.prune_in_turn, use),
    )
    use.last_sweep.note()


def _enqueue_due(use: Resources, found: Mapping[str, Sequence[TenantId]]) -> None:
    """Enqueue the tasks that may take long or hang, so that the sweep does not wait for them; none that has nothing to do."""
    if found["deliveries"] or found["progress"]:
        enqueue_upkeep(TaskName.WEBHOOKS)
    if found["erasures"] or record_search.is_due(use):
        enqueue_upkeep(TaskName.AUDIT)
    if backfill.is_due(use):
        enqueue_upkeep(TaskName.MIGRATE)
    if follow_promotion.is_due(use):
        enqueue_upkeep(TaskName.RECONCILE)


@shared_task(name=TaskName.MIGRATE.value, base=LoggedTask, send_events=False)
def migrate() -> None:
    """Continue a model migration, if there is one, for some seconds or until nothing is left to do now. The next sweep
    sends another message."""
    deadline = Deadline.after(_MIGRATION_S)
    while backfill.step(for_ingestion()) and not deadline.has_passed:
        pass


@shared_task(name=TaskName.AUDIT.value, base=LoggedTask, send_events=False)
def audit() -> None:
    """Move searches into the audit, delete rows past its retention, and finish the erasures that are due."""
    use = for_ingestion()
    _each(partial(record_search.maintain, use), partial(_finish_erasures, use))


_MIGRATION_S = 10.0
# One in a process: the erasure of a large tenant takes long.
_erasing = threading.Lock()


def _finish_erasures(use: Resources) -> None:
    if not _erasing.acquire(blocking=False):
        return
    try:
        finish_erasures(use, due=True)
    finally:
        _erasing.release()


@shared_task(name=TaskName.RECONCILE.value, base=LoggedTask, send_events=False)
def reconcile() -> None:
    """Compare and repair what a promoted PostgreSQL may lack, and a piece of one tenant."""
    use = for_ingestion()
    follow_promotion.mend_promoted(use)
    reconciling.reconcile(use)


@shared_task(name=TaskName.VECTOR_INDEXES.value, base=LoggedTask, send_events=False)
def keep_vector_indexes() -> None:
    """Build and drop the approximate indexes of large tenants. Takes minutes while one is built."""
    build_indexes.keep_indexes(for_ingestion())


# One sender in a process: hanging calls would otherwise take every thread of this worker from the sweeper.
_sending = threading.Lock()


@shared_task(name=TaskName.WEBHOOKS.value, base=LoggedTask, send_events=False)
def send_webhooks() -> None:
    """Send the messages in the outbox. A running sender looks again by itself every second."""
    if not _sending.acquire(blocking=False):
        return
    try:
        send_messages(for_ingestion())
    finally:
        _sending.release()


def send_messages(use: Resources) -> None:
    """Send the messages that wait. Raises Unavailable at the end if one of these steps did."""
    _each(
        partial(edit_webhooks.note_progress, use),
        partial(edit_webhooks.deliver, use),
    )


def _each(*steps: Callable[[], object]) -> None:
    """Take every step, also after one that raises Unavailable; raise the first such error at the end."""
    away: list[PipelineError] = []
    for step in steps:
        with OutageTolerated(away.append):
            step()
    if away:
        raise away[0]
