"""Task entry points of ingestion."""

from __future__ import annotations

import structlog
from celery import shared_task

from pipeline.ingestion import run
from workers.base import LoggedTask
from workers.dispatch import ring_for
from workers.names import TaskName
from workers.resources import for_ingestion

log = structlog.get_logger(__name__)


@shared_task(name=TaskName.INGEST.value, base=LoggedTask)
def ingest_batch(tenant_id: str, job_id: str) -> None:
    """Ingest one batch of the tenant whose turn it is; the arguments only say who rang the bell."""
    log.debug("bell", rung_by=tenant_id, rung_for=job_id)
    run.ingest_next(for_ingestion(), ring=ring_for)
