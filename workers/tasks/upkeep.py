"""Task entry points of the periodic work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import structlog
from celery import shared_task

from pipeline.administration import compute, edit_webhooks
from pipeline.errors import Unavailable
from pipeline.maintenance import backfill, build_indexes
from pipeline.maintenance import reconcile as reconciling
from pipeline.maintenance import sweep as upkeep
from pipeline.maintenance.erase import finish_erasures
from pipeline.resources import Resources
from pipeline.retrieval import record_search
from workers.base import LoggedTask
from workers.dispatch import ring_for
from workers.names import TaskName
from workers.resources import for_ingestion

log = structlog.get_logger(__name__)


@shared_task(name=TaskName.SWEEP.value, base=LoggedTask, send_events=False)
def sweep() -> None:
    """Send stalled work again, and delete expired data."""
    use = for_ingestion()
    upkeep.sweep(use, ring=ring_for)
    upkeep.expire(use)
    upkeep.prune_in_turn(use)
    compute.drop_expired(use)
    use.last_sweep.note()


@shared_task(name=TaskName.MIGRATE.value, base=LoggedTask, send_events=False)
def migrate() -> None:
    """Continue a model migration, if there is one."""
    backfill.step(for_ingestion())


@shared_task(name=TaskName.AUDIT.value, base=LoggedTask, send_events=False)
def audit() -> None:
    """Move searches into the audit, delete rows past its retention, and finish the erasures that are due."""
    use = for_ingestion()
    _each(partial(record_search.maintain, use), partial(_finish_erasures, use))


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
        send_messages(for_ingestion())
    finally:
        _sending.release()


def send_messages(use: Resources) -> None:
    """Send the messages that wait, and forget old ones. Raises Unavailable at the end if one of these steps did."""
    _each(
        partial(edit_webhooks.note_progress, use),
        partial(edit_webhooks.deliver, use),
        partial(edit_webhooks.forget_old, use),
    )


def _each(*steps: Callable[[], object]) -> None:
    """Take every step, also after one that raises Unavailable; raise the first such error at the end."""
    away: Unavailable | None = None
    for step in steps:
        try:
            step()
        except Unavailable as error:
            away = away or error
    if away is not None:
        raise away
