"""Following a job or a query as it happens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.responses import Response

from api_gateway.asking import current_state
from api_gateway.asking import not_found as query_not_found
from api_gateway.auth import Reader, api_key_of
from api_gateway.gateway import Gateway, gateway_of
from api_gateway.problems import Problem
from api_gateway.query_stream import QueryStream
from api_gateway.routes.documenting import answers
from api_gateway.routes.jobs import known_id, not_found
from api_gateway.routes.queries import known_id as known_query
from api_gateway.streams import JobStream
from pipeline.errors import Unavailable
from pipeline.stores.queries import QueryState

router = APIRouter(tags=["jobs"])

LastEventId = Annotated[
    str, Header(alias="Last-Event-ID", max_length=64, description="The id of the last event that was seen.")
]
_MOST_STEPS = 2048  # characters, for fifty channels with the longest names
LastStep = Annotated[
    str, Header(alias="Last-Event-ID", max_length=_MOST_STEPS, description="The id of the last event that was seen.")
]

_SUCCESS = answers(200, None, "Events until the job has ended.", 401, 403, 404, 422, 429, 503)
_SUCCESS[200]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
_SUCCESS[204] = {"description": "The job has ended, and the client has seen its end."}
_OF_QUERY = answers(200, None, "Events until the query is answered.", 401, 403, 404, 422, 429, 503)
_OF_QUERY[200]["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
_OF_QUERY[204] = {"description": "The query is answered, and the client has seen its answer."}


@router.get("/v1/jobs/{job_id}/events", responses=_SUCCESS, summary="Follow a job")
async def follow(request: Request, principal: Reader, job_id: str, last_event_id: LastEventId = "") -> Response:
    """Server-sent events: `progress` with all counters whenever one has changed, a few times a second at most;
    `item_failed` for every document that fails; `finished` as the last. With `Last-Event-ID` the stream goes on where
    it broke off, without a gap. It is ended after a quarter of an hour, for the client to come back."""
    gateway = gateway_of(request)
    return JobStream(
        gateway.following,
        principal.tenant_id,
        known_id(job_id),
        last_event_id=last_event_id,
        missing=not_found,
        still_allowed=_still_allowed(request, gateway),
    )


@router.get("/v1/queries/{query_id}/events", responses=_OF_QUERY, summary="Follow a query", tags=["retrieval"])
async def follow_query(request: Request, principal: Reader, query_id: str, last_event_id: LastStep = "") -> Response:
    """Server-sent events: `queued`, `running`, a `channel` for each one that comes back, in the order in which they do,
    and `finished` with the result, the same JSON as `GET /v1/queries/{query_id}` gives. `cancelled` is the last if the
    query is taken away meanwhile. With `Last-Event-ID` nothing that was seen is sent again."""
    gateway = gateway_of(request)
    tenant_id, known = principal.tenant_id, known_query(query_id)

    async def look() -> QueryState | None:
        try:
            return await gateway.run(current_state, tenant_id, known, gateway)
        except Problem:
            return None

    return QueryStream(gateway, tenant_id, known, look, last_event_id=last_event_id, missing=query_not_found)


def _still_allowed(request: Request, gateway: Gateway) -> Callable[[], Awaitable[bool]]:
    api_key = api_key_of(request.headers)

    async def still_allowed() -> bool:
        try:
            return await gateway.keys.principal(api_key) is not None
        except Unavailable:
            return True

    return still_allowed
