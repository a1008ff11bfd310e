"""Carry out computations: take one, do one step of it, and store the outcome for the waiting gateway."""

import contextvars
import time
from collections.abc import Callable, Mapping

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import ComputationTimeout, DocumentTooLarge, PipelineError
from pipeline.jobs.computation import (
    LARGEST_ANSWER,
    LIMITS,
    Computation,
    ComputationId,
    ComputationKind,
    Done,
    Failed,
    StepResult,
)
from pipeline.jobs.computation_store import drop_expired_bodies
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit import act_as

log = structlog.get_logger(__name__)

Performer = Callable[[Computation], StepResult]


def carry_out(
    tenant_id: TenantId,
    computation_id: ComputationId,
    step: int,
    kind: ComputationKind,
    use: Resources,
    performers: Mapping[ComputationKind, Performer],
    *,
    send_next: Callable[[Computation], None],
    interrupts: tuple[type[Exception], ...] = (),
) -> None:
    """Do one step of a computation unless it has begun elsewhere or no caller waits. ``send_next``: enqueues the next
    step. ``interrupts``: exceptions that stop a step taking too long. A deliberate error becomes the outcome; any other
    becomes one without its message and is raised again."""
    computations = use.computations(tenant_id)
    computation = computations.take(computation_id, step, keep_s=LIMITS[kind].step_s)
    if computation is None:
        log.info("computation_skipped", kind=kind, step=step)
        return
    began = time.monotonic()
    try:
        outcome = contextvars.copy_context().run(_perform, computation, performers[computation.kind])
    except PipelineError as error:
        log.info("computation_failed", kind=kind, step=step, code=error.code)
        computations.finish(computation_id, Failed(error=error))
        return
    except interrupts:
        log.warning("computation_stopped", kind=kind, step=step, after_s=round(time.monotonic() - began, 1))
        late = ComputationTimeout(f"The worker stopped after {LIMITS[kind].step_s:g} s.", retry_after_s=30)
        computations.finish(computation_id, Failed(error=late))
        return
    except Exception:  # a defect: the caller gets internal_error now, and the task logs the traceback
        computations.finish(computation_id, Failed(error=None))
        raise
    if isinstance(outcome, Done):
        computations.finish(computation_id, outcome)
    elif computations.advance(computation, outcome):
        try:
            send_next(computation)
        except PipelineError as error:
            computations.finish(computation_id, Failed(error=error))


def _perform(computation: Computation, performer: Performer) -> StepResult:
    """Perform a step in the name of the caller, and limit the size of the answer."""
    act_as(computation.actor, request_id=computation.request_id)
    outcome = performer(computation)
    if isinstance(outcome, Done) and len(outcome.body) > LARGEST_ANSWER:
        raise DocumentTooLarge(f"the answer has {len(outcome.body)} bytes; at most {LARGEST_ANSWER} are sent")
    return outcome


def drop_expired(tenant_id: TenantId, use: Resources) -> int:
    """Delete large bodies of computations that no caller waits for any more; return the number of rows."""
    with unit_of_work(use.mysql) as work:
        return drop_expired_bodies(work.connection, tenant_id)
