"""Task entry points of the beat's periodic work."""

from __future__ import annotations

import threading

from celery import shared_task

from pipeline.administration import compute, edit_webhooks
from pipeline.maintenance import backfill, build_indexes
from pipeline.maintenance import reconcile as reconciling
from pipeline.maintenance import sweep as upkeep
from pipeline.retrieval import record_search
from workers.base import LoggedTask
from workers.dispatch import ring_for
from workers.names import TaskName
from workers.resources import for_ingestion


@shared_task(name=TaskName.SWEEP.value, base=LoggedTask, send_events=False)
def sweep() -> None:
    """Send stalled work again, and delete expired data."""
    upkeep.sweep(for_ingestion(), ring=ring_for)
    upkeep.expire(for_ingestion())
    compute.drop_expired(for_ingestion())
    for_ingestion().last_sweep.note()


@shared_task(name=TaskName.MIGRATE.value, base=LoggedTask, send_events=False)
def migrate() -> None:
    """Continue a model migration, if there is one."""
    backfill.step(for_ingestion())


@shared_task(name=TaskName.AUDIT.value, base=LoggedTask, send_events=False)
def audit() -> None:
    """Move searches into the audit, and delete rows past its retention."""
    record_search.maintain(for_ingestion())


@shared_task(name=TaskName.RECONCILE.value, base=LoggedTask, send_events=False)
def reconcile() -> None:
    """Compare and repair a piece of one tenant."""
    reconciling.reconcile(for_ingestion())


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
        edit_webhooks.note_progress(for_ingestion())
        edit_webhooks.deliver(for_ingestion())
        edit_webhooks.forget_old(for_ingestion())
    finally:
        _sending.release()
