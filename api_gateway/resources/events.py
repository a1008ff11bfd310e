"""Event streams of jobs and queries."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from starlette.types import Receive, Scope, Send

from api_gateway.http.auth import api_key_of
from api_gateway.http.caller import Caller, JobReader, Reader
from api_gateway.http.fields import shown
from api_gateway.http.route_descriptions import reference, route
from api_gateway.live.event_streams import HEARTBEAT_S, PING, EventStream, Write, event
from api_gateway.live.job_feed import FAILURES_AT_ONCE, Followed, Following, View
from api_gateway.live.query_stream import ChannelAnswered, QueryStep, QueryStream
from api_gateway.resources.jobs import JobInPath, not_found
from api_gateway.resources.retrieval.queries import QueryInPath
from api_gateway.resources.route_parts import existing
from chordwise.contract.job import ItemFailed, JobProgress
from pipeline.errors import Unavailable
from pipeline.jobs.job_views import FailurePosition
from pipeline.records import ItemState, JobId, TenantId


def progress(view: View) -> dict[str, Any]:
    """Return the job's progress."""
    job, (rate, eta_s) = view.job, view.pace or (None, None)
    return shown(
        JobProgress,
        job,
        **{state.value: job.items[state] for state in ItemState},
        stages=dict(job.stages),
        rate=None if rate is None else round(rate, 2),
        eta_seconds=None if eta_s is None else round(eta_s),
    )


LIFETIME_S = 900.0
_KEY_CHECKED_S = 3.0  # a stream stops within this time after its key was revoked
_AGAIN_S = 1.0

_EVENT_ID = re.compile(r"(\d{1,18})-(\d{1,10}|end)", re.ASCII)
_EVERYTHING = 2**32


def position_of(event_id: str) -> tuple[FailurePosition, bool]:
    """Return the position of a client with this last event id, and whether it saw the end. An unknown id is the
    beginning."""
    match = _EVENT_ID.fullmatch(event_id.strip())
    if match is None:
        return FailurePosition(), False
    ended = match[2] == "end"
    return FailurePosition(revision=int(match[1]), ordinal=_EVERYTHING if ended else int(match[2]) - 1), ended


def id_of(position: FailurePosition) -> str:
    """Return the id of an event that ends at this position."""
    return f"{position.revision}-{position.ordinal + 1}"


class JobStream(EventStream):
    """Stream events after ``last_event_id``, until the job has ended, the client is gone, or a quarter of an hour has
    passed."""

    def __init__(
        self,
        following: Following,
        tenant_id: TenantId,
        job_id: JobId,
        *,
        last_event_id: str,
        still_allowed: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self._following, self._tenant_id, self._job_id = following, tenant_id, job_id
        self._position, self._saw_end = position_of(last_event_id)
        self._still_allowed = still_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises Unavailable or Problem before the first byte; ClientDisconnect later."""
        async with self._following.follow(self._tenant_id, self._job_id) as followed:
            followed = existing(followed, not_found())
            job = followed.view.job
            if self._saw_end and job.finished_at is not None and job.revision <= self._position.revision:
                await self.nothing_more(scope, receive, send)
                return

            async def send_all(write: Write) -> None:
                await self._send_all(followed, write)

            await self.stream(receive, send, send_all)

    async def _send_all(self, followed: Followed, write: Write) -> None:
        loop = asyncio.get_running_loop()
        began = checked = loop.time()
        number = 0
        while loop.time() - began < LIFETIME_S:
            view: View | None = followed.view
            if number:
                view = await followed.changed(number, seconds=HEARTBEAT_S)
            if loop.time() - checked > _KEY_CHECKED_S:
                checked = loop.time()
                if not await self._still_allowed():
                    break
            if view is not None:
                number, is_over = 0, False  # repeat everything once the database answers
                with suppress(Unavailable):
                    is_over = await self._send_view(followed, view, write)
                    number = view.number
                if is_over:
                    break
                if not number:
                    await asyncio.sleep(_AGAIN_S)
            elif followed.gone:
                break
            else:
                await write(PING)

    async def _send_view(self, followed: Followed, view: View, write: Write) -> bool:
        """Send the progress, new failures, and the end if it is reached. Return True after the end."""
        await write(event("progress", id_of(self._position), progress(view)))
        more = view.job.items[ItemState.FAILED] > 0
        while more:
            failures = await followed.failures(self._position)
            for self._position, failure in failures:
                await write(event("item_failed", id_of(self._position), shown(ItemFailed, failure)))
            more = len(failures) == FAILURES_AT_ONCE
        if view.job.finished_at is None:
            return False
        await write(event("finished", f"{view.job.revision}-end", progress(view)))
        return True


router = APIRouter(tags=["jobs"])

LastEventId = Annotated[
    str, Header(alias="Last-Event-ID", max_length=64, description="The id of the last event that was seen.")
]
_MOST_STEPS = 2048  # characters, for fifty channels with the longest names
LastStep = Annotated[
    str, Header(alias="Last-Event-ID", max_length=_MOST_STEPS, description="The id of the last event that was seen.")
]


_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_JOB_SEEN = {204: "The job has ended, and the client has seen its end."}
_ANSWER_SEEN = {204: "The query is answered, and the client has seen its answer."}
for _shape in (JobProgress, ItemFailed, QueryStep, ChannelAnswered):
    reference(_shape, "serialization")  # the data of events, which FastAPI cannot discover


@router.get(
    "/v1/jobs/{job_id}/events",
    **route("Follow a job", None, "Events until the job has ended.", 404, content=_EVENTS, also=_JOB_SEEN),
)
async def follow(caller: JobReader, job_id: JobInPath, last_event_id: LastEventId = "") -> Response:
    """Stream server-sent events: `progress` with all counters on each change, a few times a second at most;
    `item_failed` for every document that fails; `finished` as the last. With `Last-Event-ID` the stream resumes without
    a gap. It ends after a quarter of an hour, for the client to reconnect."""
    return JobStream(
        caller.gateway.following,
        caller.tenant_id,
        job_id,
        last_event_id=last_event_id,
        still_allowed=_still_allowed(caller),
    )


@router.get(
    "/v1/queries/{query_id}/events",
    **route("Follow a query", None, "Events until the query is answered.", 404, content=_EVENTS, also=_ANSWER_SEEN),
    tags=["retrieval"],
)
async def follow_query(caller: Reader, query_id: QueryInPath, last_event_id: LastStep = "") -> Response:
    """Stream server-sent events: `queued`, `running`, a `channel` for each channel as it answers, and `finished` with
    the result, the same JSON as `GET /v1/queries/{query_id}` gives. `cancelled` is the last if the query is cancelled
    meanwhile. With `Last-Event-ID` no event is repeated."""
    return QueryStream(caller, query_id, last_event_id=last_event_id)


def _still_allowed(caller: Caller) -> Callable[[], Awaitable[bool]]:
    api_key = api_key_of(caller.request.headers)

    async def still_allowed() -> bool:
        with suppress(Unavailable):
            return await caller.gateway.keys.principal(api_key) is not None
        return True

    return still_allowed
