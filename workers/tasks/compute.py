"""The task that runs computations for callers of the gateway."""

from __future__ import annotations

from functools import partial

from billiard.exceptions import SoftTimeLimitExceeded
from celery import shared_task

from pipeline.administration import compute as computing
from pipeline.administration.edit_chunks import edit_body
from pipeline.ingestion.import_examples import import_book
from pipeline.ingestion.preview import preview_body, read_stored
from pipeline.jobs.computation import ComputationId, ComputationKind
from pipeline.maintenance.verify import verify_step
from pipeline.records import TenantId
from workers.base import LoggedTask
from workers.dispatch import compute_next, notify
from workers.names import TaskName
from workers.resources import for_ingestion


@shared_task(name=TaskName.COMPUTE.value, base=LoggedTask)
def compute(tenant_id: str, computation_id: str, step: int, kind: str) -> None:
    """Do one step of a computation."""
    use = for_ingestion()
    computing.carry_out(
        TenantId(tenant_id),
        ComputationId(computation_id),
        step,
        ComputationKind(kind),
        use,
        {
            ComputationKind.PREVIEW: partial(preview_body, use=use),
            ComputationKind.BOOK: partial(import_book, use=use, notify=notify),
            ComputationKind.CHUNK_EDIT: partial(edit_body, use=use),
            ComputationKind.VERIFY: partial(verify_step, use=use),
            ComputationKind.STORED: partial(read_stored, use=use),
        },
        send_next=compute_next,
        interrupts=(SoftTimeLimitExceeded,),
    )
