"""Jobs: how far a submission has come."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Request
from fastapi import Query as Parameter
from starlette.responses import Response
from starlette.types import Receive

from api_gateway import cursors
from api_gateway.auth import Requires
from api_gateway.gateway import Gateway, gateway_of
from api_gateway.prefer import LONGEST_WAIT_S
from api_gateway.problems import Problem
from api_gateway.routes.documenting import Cursor, Limit, answers
from api_gateway.wire import answers as wire
from api_gateway.wire.shapes import ItemPage, Job, JobPage
from pipeline.records import JobId, TenantId
from pipeline.stores.job_views import ItemView, JobStatus, JobView, JobViews
from pipeline.stores.queries import wake_name
from pipeline.stores.tenants import Principal
from pipeline.stores.work import unit_of_work

router = APIRouter(tags=["jobs"])

Reader = Annotated[Principal, Depends(Requires("read"))]
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
    before = _before(cursor)

    def read() -> list[JobView]:
        with unit_of_work(gateway.resources.mysql) as work:
            views = JobViews(work.connection, principal.tenant_id)
            return views.newest(statuses=status or (), before=before, limit=limit + 1)

    found, following = cursors.page(
        await gateway.run(read), limit, lambda last: cursors.encode("jobs", last.created_at.isoformat(), last.job_id)
    )
    return wire.page_response([wire.job(view) for view in found], following)


def _before(cursor: str | None) -> tuple[datetime, str] | None:
    position = cursors.decode(cursor, "jobs", str, str)
    if position is None:
        return None
    try:
        return datetime.fromisoformat(position[0]), str(uuid.UUID(position[1]))
    except ValueError:
        raise cursors.foreign() from None


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
