"""Task entry points of ingestion."""

from __future__ import annotations

from typing import Final

import structlog
from celery import shared_task

from pipeline.administration import run_source
from pipeline.ingestion import run
from pipeline.records import IngestQueue
from pipeline.threads import DelayedCall
from workers.base import LoggedTask
from workers.dispatch import notify_workers
from workers.names import TaskName
from workers.resources import for_ingestion

log = structlog.get_logger(__name__)

_PARSERS_KEPT_S: Final = 60.0  # without a batch; a parser process takes 45 MB, and half a second to start
_ending_parsers = DelayedCall(lambda: for_ingestion().parser.close(), seconds=_PARSERS_KEPT_S)


@shared_task(name=TaskName.INGEST.value, base=LoggedTask)
def ingest_batch(tenant_id: str, job_id: str, queue: str = IngestQueue.INGEST) -> None:
    """Ingest one batch of the tenant whose turn it is, or begin the run of a source in a thread; the arguments only name the
    job that the notification was sent for."""
    if queue == IngestQueue.SOURCE:
        run_source.run_next(for_ingestion(), notify=notify_workers)
    else:
        _ingest(tenant_id, job_id, IngestQueue.INGEST)


@shared_task(name=TaskName.LONG.value, base=LoggedTask)
def ingest_long(tenant_id: str, job_id: str) -> None:
    """Ingest one document that takes long, of the tenant whose turn it is."""
    _ingest(tenant_id, job_id, IngestQueue.LONG)


def _ingest(tenant_id: str, job_id: str, queue: IngestQueue) -> None:
    log.debug("notification", sent_by=tenant_id, sent_for=job_id)
    try:
        run.ingest_next(for_ingestion(), notify=notify_workers, queue=queue)
    finally:
        _ending_parsers.cancel()  # begins anew with each batch
        _ending_parsers.request()
