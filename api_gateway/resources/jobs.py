"""Jobs: progress of a submission; cancel, retry, pause and resume it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Response
from pydantic import AfterValidator

from api_gateway.http import cursors
from api_gateway.http.caller import Caller, JobReader, Writer
from api_gateway.http.fields import NamespaceParameter, Shape
from api_gateway.http.prefer import LONGEST_WAIT_S
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.resources.route_parts import Page, existing, parse_uuid, send_page, time_span
from chordwise.contract.job import FoundMatch, Item, Job
from pipeline.administration import steer_jobs
from pipeline.jobs.job_view_store import JobViews, Matches
from pipeline.jobs.job_views import JobStatus
from pipeline.query.wake_names import wake_name
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources
from workers.dispatch import notify_workers


class JobPage(Page[Job]):
    """Jobs, newest first."""


class ItemPage(Page[Item]):
    """Items in the order they were sent."""


class FoundMatches(Shape):
    """Matches, failures first. `truncated`: the tenant has more uploads than were compared; name a namespace
    then."""

    data: list[FoundMatch]
    truncated: bool


def parse_job_id(job_id: str) -> JobId:
    """Return the id in its usual form. Raises Problem(404) for an invalid one."""
    return JobId(parse_uuid(job_id, not_found()))


def not_found() -> Problem:
    """Return Problem(404) for a job that this tenant does not have."""
    return Problem(404, "job_not_found", "There is no such job.")


router = APIRouter(tags=["jobs"])

JobInPath = Annotated[JobId, AfterValidator(parse_job_id)]

Wait = Annotated[
    float, Parameter(ge=0, le=LONGEST_WAIT_S, description="Seconds to hold the answer for, unless the job ends sooner.")
]
Status = Annotated[
    Literal["queued", "running", "succeeded", "failed", "cancelled"] | None,
    Parameter(description="Only items in this state."),
]


@router.get("/v1/jobs", **route("List jobs", JobPage, "One page of jobs, newest first, without their errors."))
async def list_jobs(
    caller: JobReader,
    status: Annotated[
        list[JobStatus] | None, Parameter(description="Only jobs in this state; may be repeated, for one of several.")
    ] = None,
    namespace: Annotated[NamespaceParameter | None, Parameter(description="Only jobs in this namespace.")] = None,
    since: Annotated[
        datetime | None, Parameter(description="Only those created from this moment on, RFC 3339.")
    ] = None,
    until: Annotated[datetime | None, Parameter(description="Only those created before this moment, RFC 3339.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the tenant's submissions, or those that fit every filter."""
    before = cursors.decode(cursor, "jobs", datetime, UUID)
    begins, ends = time_span(since, until)
    newest = partial(
        JobViews.newest,
        statuses=status or (),
        namespace=namespace,
        since=begins,
        until=ends,
        before=before,
        limit=limit + 1,
    )
    views = await caller.gateway.run(caller.read, JobViews, newest)
    return send_page(views, limit, "jobs", lambda view: (view.created_at, view.job_id))


@router.get(
    "/v1/find", **route("Find documents, failures and jobs", FoundMatches, "Documents, refused items and jobs.")
)
async def find(
    caller: JobReader,
    text: Annotated[
        str,
        Parameter(
            min_length=1, max_length=255, description="Part of a title, an id or a source; the beginning of a job's id."
        ),
    ],
    namespace: Annotated[NamespaceParameter | None, Parameter(description="Only in this namespace.")] = None,
    limit: Annotated[int, Parameter(ge=1, le=50, description="Matches of each kind at most.")] = 20,
) -> Response:
    """Find a document by part of its title, id or source, with the reason if it failed or was refused. Case does not
    count. Compares up to 100,000 uploads, by namespace and id."""
    found = partial(Matches.of, namespace=namespace, limit=limit)
    matches, truncated = await caller.gateway.run(caller.read, Matches, found, text)
    return json_response({"data": matches, "truncated": truncated})


@router.get(
    "/v1/jobs/{job_id}", **route("Get a job, or wait for it", Job, "The job with its first hundred errors.", 404)
)
async def get_job(caller: JobReader, job_id: JobInPath, wait: Wait = 0) -> Response:
    """Return a job. With `wait`, the answer comes when the job has ended or the seconds have passed."""
    if wait > 0:
        await until_finished(caller, job_id, wait)
    return json_response(await caller.gateway.run(view_of, caller, job_id))


async def until_finished(caller: Caller, job_id: JobId, seconds: float) -> None:
    """Wait for the end of a job, for some seconds. Raises ClientDisconnect or Problem."""

    def is_finished() -> bool | None:
        return None if caller.read(JobViews, JobViews.is_finished, job_id) is False else True

    gateway = caller.gateway
    name = wake_name("job", caller.tenant_id, job_id)

    async def look_now() -> bool | None:
        return await gateway.shared_reads.read(name, lambda: gateway.run(is_finished))

    with gateway.wakes.watch(name) as waiter:
        await gateway.wakes.until(waiter, look_now, seconds=seconds, receive=caller.request.receive)


@router.get(
    "/v1/jobs/{job_id}/items",
    **route("List a job's documents", ItemPage, "One page of items, in the order they were sent.", 404),
)
async def list_items(
    caller: JobReader,
    job_id: JobInPath,
    status: Status = None,
    duplicates: Annotated[
        bool, Parameter(description="Only items whose document has the same bytes as an older one.")
    ] = False,
    warned: Annotated[
        bool, Parameter(description="Only items with an `encoding_warning` or a `pages_warning`.")
    ] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the documents of a job, each with its outcome."""
    after = cursors.decode(cursor, "items", int)

    def read(jobs: JobViews) -> Sequence[Item] | None:
        if jobs.is_finished(job_id) is None:
            return None
        start = after[0] if after else -1
        return jobs.items(job_id, status=status, after=start, limit=limit + 1, duplicates=duplicates, warned=warned)

    views = await caller.gateway.run(caller.read, JobViews, read)
    return send_page(existing(views, not_found()), limit, "items", lambda view: (view.ordinal,))


def view_of(caller: Caller, job_id: JobId) -> Job:
    """Return the job. Blocking. Raises Problem 404."""
    return existing(caller.read(JobViews, JobViews.one, job_id), not_found())


@router.post(
    "/v1/jobs/{job_id}/cancel", **route("Cancel a job", Job, "The job; none of its documents is pending.", 404, 409)
)
async def cancel(caller: Writer, job_id: JobInPath) -> Response:
    """Cancel a job. Completed documents stay; the others are cancelled, also those a worker is processing. Cancelling
    again changes nothing. A job that ended by itself is a 409."""
    return await steer(caller, job_id, steer_jobs.cancel)


@router.post(
    "/v1/jobs/{job_id}/retry",
    **route("Retry failed documents", Job, "The job; failed and cancelled documents are queued again.", 404, 409),
)
async def retry(caller: Writer, job_id: JobInPath) -> Response:
    """Retry a job's failed or cancelled documents with new attempts. A job that has ended without any of them is a 409."""
    return await steer(caller, job_id, partial(steer_jobs.retry, notify=notify_workers))


@router.post(
    "/v1/jobs/{job_id}/pause",
    **route("Pause a job", Job, "The job; workers finish what they have begun and take nothing more.", 404, 409),
)
async def pause(caller: Writer, job_id: JobInPath) -> Response:
    """Pause a job. Pausing again changes nothing. A job that has ended is a 409."""
    return await steer(caller, job_id, steer_jobs.pause)


@router.post(
    "/v1/jobs/{job_id}/resume", **route("Resume a job", Job, "The job; workers may take its documents.", 404, 409)
)
async def resume(caller: Writer, job_id: JobInPath) -> Response:
    """Resume a job. Resuming a job that is not paused changes nothing. A job that has ended is a 409."""
    return await steer(caller, job_id, partial(steer_jobs.resume, notify=notify_workers))


async def steer(caller: Caller, job_id: JobId, change: Callable[[TenantId, JobId, Resources], object]) -> Response:
    """Apply the change and return the job afterwards."""

    def run() -> Response:
        try:
            change(caller.tenant_id, job_id, caller.use)
        except steer_jobs.NoSuchJob:
            raise not_found() from None
        except steer_jobs.WrongJobState as error:
            raise Problem(409, error.code, str(error)) from None
        return json_response(view_of(caller, job_id))

    return await caller.gateway.run(run)
