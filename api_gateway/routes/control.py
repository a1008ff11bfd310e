"""Steer jobs: cancel, try again, pause, resume."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.auth import Writer
from api_gateway.gateway import Gateway, gateway_of
from api_gateway.problems import Problem
from api_gateway.routes.documenting import answers
from api_gateway.routes.jobs import known_id, not_found, view_of
from api_gateway.wire import answers as wire
from api_gateway.wire.shapes import Job
from pipeline.flows import control
from pipeline.records import JobId, TenantId
from pipeline.stores.tenants import Principal
from workers.dispatch import ring_for

router = APIRouter(tags=["jobs"])

_PROBLEMS = (401, 403, 404, 409, 422, 503)


@router.post(
    "/v1/jobs/{job_id}/cancel",
    responses=answers(200, Job, "The job; nothing of it is open any more.", *_PROBLEMS),
    summary="Cancel a job",
)
async def cancel(request: Request, principal: Writer, job_id: str) -> Response:
    """Documents that are done stay; the others are called back, also those a worker is busy with. Cancelling again
    changes nothing. A job that ended by itself is a 409."""

    def do(tenant_id: TenantId, known: JobId, gateway: Gateway) -> None:
        control.cancel(tenant_id, known, gateway.resources)

    return await _steer(request, principal, job_id, do)


@router.post(
    "/v1/jobs/{job_id}/retry",
    responses=answers(200, Job, "The job; what failed or was cancelled is queued.", *_PROBLEMS, 429),
    summary="Try failed documents again",
)
async def retry(request: Request, principal: Writer, job_id: str) -> Response:
    """Attempts are counted anew. A job that has ended without anything that could be tried again is a 409."""

    def do(tenant_id: TenantId, known: JobId, gateway: Gateway) -> None:
        control.retry(tenant_id, known, gateway.resources, ring=ring_for)

    return await _steer(request, principal, job_id, do)


@router.post(
    "/v1/jobs/{job_id}/pause",
    responses=answers(200, Job, "The job; workers finish what they have begun and take nothing more.", *_PROBLEMS),
    summary="Pause a job",
)
async def pause(request: Request, principal: Writer, job_id: str) -> Response:
    """Pausing again changes nothing. A job that has ended is a 409."""

    def do(tenant_id: TenantId, known: JobId, gateway: Gateway) -> None:
        control.pause(tenant_id, known, gateway.resources)

    return await _steer(request, principal, job_id, do)


@router.post(
    "/v1/jobs/{job_id}/resume",
    responses=answers(200, Job, "The job; workers may take its documents.", *_PROBLEMS),
    summary="Resume a job",
)
async def resume(request: Request, principal: Writer, job_id: str) -> Response:
    """Resuming a job that is not paused changes nothing. A job that has ended is a 409."""

    def do(tenant_id: TenantId, known: JobId, gateway: Gateway) -> None:
        control.resume(tenant_id, known, gateway.resources, ring=ring_for)

    return await _steer(request, principal, job_id, do)


async def _steer(
    request: Request, principal: Principal, job_id: str, what: Callable[[TenantId, JobId, Gateway], None]
) -> Response:
    """Do it and show the job as it is afterwards."""
    gateway = gateway_of(request)
    known = known_id(job_id)

    def run() -> Response:
        try:
            what(principal.tenant_id, known, gateway)
        except control.NoSuchJob:
            raise not_found() from None
        except control.NotNow as error:
            raise Problem(409, error.code, str(error)) from None
        return wire.json_response(wire.job(view_of(principal.tenant_id, known, gateway)))

    return await gateway.run(run)
