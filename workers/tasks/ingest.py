"""Doorways to ingestion."""

from __future__ import annotations

from celery import shared_task

from pipeline.flows import ingest
from pipeline.records import JobId, TenantId
from workers.base import LoggedTask
from workers.dispatch import ring_for
from workers.names import TaskName
from workers.resources import for_ingestion


@shared_task(name=TaskName.INGEST.value, base=LoggedTask)
def ingest_batch(tenant_id: str, job_id: str) -> None:
    """Work on the due items of a job."""
    ingest.ingest_batch(TenantId(tenant_id), JobId(job_id), for_ingestion(), ring=ring_for)
