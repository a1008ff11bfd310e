"""Doorways to what the beat asks for."""

from __future__ import annotations

from celery import shared_task

from pipeline.flows import reconcile as reconciling
from pipeline.flows import upkeep
from workers.base import LoggedTask
from workers.dispatch import ring_for
from workers.names import TaskName
from workers.resources import for_ingestion


@shared_task(name=TaskName.SWEEP.value, base=LoggedTask)
def sweep() -> None:
    """Bring back what nobody holds."""
    upkeep.sweep(for_ingestion(), ring=ring_for)


@shared_task(name=TaskName.RECONCILE.value, base=LoggedTask)
def reconcile() -> None:
    """Compare and mend a piece of one tenant."""
    reconciling.reconcile(for_ingestion())
