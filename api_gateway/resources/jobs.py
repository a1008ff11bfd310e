"""Jobs: how far a submission has come; cancel it, try again, pause it, resume it."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response
from starlette.types import Receive

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import cursors
from api_gateway.http import responses as wire
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers
from api_gateway.http.prefer import LONGEST_WAIT_S
from api_gateway.http.problems import Problem
from api_gateway.resources.shapes import ItemPage, Job, JobPage
from pipeline.administration import steer_jobs
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.job_view_store import ItemView, JobStatus, JobView, JobViews
from pipeline.query.query_store import wake_name
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources
from pipeline.tenants.tenant_store import Principal
from workers.dispatch import ring_for

router = APIRouter(tags=["jobs"])

Wait = Annotated[
    float, Parameter(ge=0, le=LONGEST_WAIT_S, description="Seconds to hold the answer for, unless the job ends sooner.")
]
Status = Annotated[
    Literal["queued", "running", "succeeded", "failed", "cancelled"] | None,
    Parameter(description="Only items in this state."),
]


@router.get(
    "/v1/jobs",
    responses=answers(200, JobPage, "One page of jobs, newest first, without their errors.", 401, 403, 422, 503),
    summary="List jobs",
)
async def list_jobs(
    request: Request,
    principal: Reader,
    status: Annotated[
        list[JobStatus] | None, Parameter(description="Only jobs in this state; may be repeated, for one of several.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Every submission of the tenant, or those with a status."""
    gateway = gateway_of(request)
    before = cursors.before(cursor, "jobs")

    found, following = cursors.page(
        await gateway.ask(
            JobViews, principal, lambda store: store.newest(statuses=status or (), before=before, limit=limit + 1)
        ),
        limit,
        lambda last: cursors.encode("jobs", last.created_at.isoformat(), last.job_id),
    )
    return wire.page_response([wire.job(view) for view in found], following)


@router.get(
    "/v1/jobs/{job_id}",
    responses=answers(200, Job, "The job with its first hundred errors.", 401, 403, 404, 422, 503),
    summary="Look at a job, or wait for it",
)
async def look(request: Request, principal: Reader, job_id: str, wait: Wait = 0) -> Response:
    """With `wait`, the answer comes when the job has ended or the seconds have passed."""
    gateway = gateway_of(request)
    known = known_id(job_id)
    if wait > 0:
        await until_finished(principal.tenant_id, known, wait, gateway, receive=request.receive)
    return wire.json_response(wire.job(await gateway.run(view_of, principal.tenant_id, known, gateway)))


async def until_finished(
    tenant_id: TenantId, job_id: JobId, seconds: float, gateway: Gateway, *, receive: Receive
) -> None:
    """Wait for the end of a job, for some seconds. ``receive`` is the request's. Raises ClientDisconnect or Problem."""

    def is_finished() -> bool | None:
        with unit_of_work(gateway.resources.mysql) as work:
            finished = JobViews(work.connection, tenant_id).is_finished(job_id)
        return None if finished is False else True

    name = wake_name("job", tenant_id, job_id)

    async def look_now() -> bool | None:
        return await gateway.looks.look(name, lambda: gateway.run(is_finished))

    with gateway.wakes.watch(name) as waiter:
        await gateway.wakes.until(waiter, look_now, seconds=seconds, receive=receive)


@router.get(
    "/v1/jobs/{job_id}/items",
    responses=answers(200, ItemPage, "One page of items, in the order they were sent.", 401, 403, 404, 422, 503),
    summary="List a job's documents",
)
async def list_items(
    request: Request,
    principal: Reader,
    job_id: str,
    status: Status = None,
    duplicates: Annotated[
        bool, Parameter(description="Only items whose document has the same bytes as an older one.")
    ] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """One entry per document, with what became of it."""
    gateway = gateway_of(request)
    known = known_id(job_id)
    after = cursors.decode(cursor, "items", int)

    def read() -> list[ItemView]:
        with unit_of_work(gateway.resources.mysql) as work:
            views = JobViews(work.connection, principal.tenant_id)
            if views.is_finished(known) is None:
                raise not_found()
            start = after[0] if after else -1
            return views.items(known, status=status, after=start, limit=limit + 1, duplicates=duplicates)

    found, following = cursors.page(await gateway.run(read), limit, lambda last: cursors.encode("items", last.ordinal))
    return wire.page_response([wire.item(view) for view in found], following)


def view_of(tenant_id: TenantId, job_id: JobId, gateway: Gateway) -> JobView:
    """The job. Blocking. Raises Problem 404."""
    with unit_of_work(gateway.resources.mysql) as work:
        view = JobViews(work.connection, tenant_id).one(job_id)
    if view is None:
        raise not_found()
    return view


def known_id(job_id: str) -> JobId:
    """The id in its usual form. Raises Problem 404 for what can be none."""
    try:
        return JobId(str(uuid.UUID(job_id)))
    except ValueError:
        raise not_found() from None


def not_found() -> Problem:
    """404 for a job that this tenant does not have."""
    return Problem(404, "job_not_found", "There is no such job.")


_PROBLEMS = (401, 403, 404, 409, 422, 503)


@router.post(
    "/v1/jobs/{job_id}/cancel",
    responses=answers(200, Job, "The job; nothing of it is open any more.", *_PROBLEMS),
    summary="Cancel a job",
)
async def cancel(request: Request, principal: Writer, job_id: str) -> Response:
    """Documents that are done stay; the others are called back, also those a worker is busy with. Cancelling again
    changes nothing. A job that ended by itself is a 409."""
    return await _steer(request, principal, job_id, steer_jobs.cancel)


@router.post(
    "/v1/jobs/{job_id}/retry",
    responses=answers(200, Job, "The job; what failed or was cancelled is queued.", *_PROBLEMS, 429),
    summary="Try failed documents again",
)
async def retry(request: Request, principal: Writer, job_id: str) -> Response:
    """Attempts are counted anew. A job that has ended without anything that could be tried again is a 409."""
    return await _steer(request, principal, job_id, functools.partial(steer_jobs.retry, ring=ring_for))


@router.post(
    "/v1/jobs/{job_id}/pause",
    responses=answers(200, Job, "The job; workers finish what they have begun and take nothing more.", *_PROBLEMS),
    summary="Pause a job",
)
async def pause(request: Request, principal: Writer, job_id: str) -> Response:
    """Pausing again changes nothing. A job that has ended is a 409."""
    return await _steer(request, principal, job_id, steer_jobs.pause)


@router.post(
    "/v1/jobs/{job_id}/resume",
    responses=answers(200, Job, "The job; workers may take its documents.", *_PROBLEMS),
    summary="Resume a job",
)
async def resume(request: Request, principal: Writer, job_id: str) -> Response:
    """Resuming a job that is not paused changes nothing. A job that has ended is a 409."""
    return await _steer(request, principal, job_id, functools.partial(steer_jobs.resume, ring=ring_for))


async def _steer(
    request: Request, principal: Principal, job_id: str, what: Callable[[TenantId, JobId, Resources], object]
) -> Response:
    """Do it and show the job as it is afterwards."""
    gateway = gateway_of(request)
    known = known_id(job_id)

    def run() -> Response:
        try:
            what(principal.tenant_id, known, gateway.resources)
        except steer_jobs.NoSuchJob:
            raise not_found() from None
        except steer_jobs.WrongJobState as error:
            raise Problem(409, error.code, str(error)) from None
        return wire.json_response(wire.job(view_of(principal.tenant_id, known, gateway)))

    return await gateway.run(run)
