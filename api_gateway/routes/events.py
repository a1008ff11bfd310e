"""Following a job as it happens."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from starlette.responses import Response

from api_gateway.auth import Requires, api_key_of
from api_gateway.gateway import gateway_of
from api_gateway.routes.documenting import answers
from api_gateway.routes.jobs import known_id, not_found
from api_gateway.streams import JobStream
from pipeline.errors import Unavailable
from pipeline.stores.tenants import Principal

router = APIRouter(tags=["jobs"])

Reader = Annotated[Principal, Depends(Requires("read"))]
LastEventId = Annotated[
    str, Header(alias="Last-Event-ID", max_length=64, description="The id of the last event that was seen.")
]

_SUCCESS = answers(200, None, "Events until the job has ended.", 401, 403, 404, 422, 429, 503)
_SUCCESS[200]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
_SUCCESS[204] = {"description": "The job has ended, and the client has seen its end."}


@router.get("/v1/jobs/{job_id}/events", responses=_SUCCESS, summary="Follow a job")
async def follow(request: Request, principal: Reader, job_id: str, last_event_id: LastEventId = "") -> Response:
    """Server-sent events: `progress` with all counters whenever one has changed, a few times a second at most;
    `item_failed` for every document that fails; `finished` as the last. With `Last-Event-ID` the stream goes on where
    it broke off, without a gap. It is ended after a quarter of an hour, for the client to come back."""
    gateway = gateway_of(request)
    api_key = api_key_of(request.headers)

    async def still_allowed() -> bool:
        try:
            return await gateway.keys.principal(api_key) is not None
        except Unavailable:
            return True

    return JobStream(
        gateway.following,
        principal.tenant_id,
        known_id(job_id),
        last_event_id=last_event_id,
        missing=not_found,
        still_allowed=still_allowed,
    )
