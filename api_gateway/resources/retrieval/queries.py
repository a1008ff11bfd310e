"""Queries: submit, wait, read, cancel."""

import math
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Response
from pydantic import AfterValidator, Field

from api_gateway.http.caller import Caller, Reader
from api_gateway.http.fields import Shape
from api_gateway.http.prefer import LONGEST_WAIT_S, Preference, parse_prefer
from api_gateway.http.responses import json_response, takes_deflate
from api_gateway.http.route_descriptions import Parameter, ProblemBody, answers, header_parameter, json_body, route
from api_gateway.live.ask import asked_query, await_answer, not_found, send, state_in_time
from api_gateway.resources.retrieval.query_body import QueryRequest
from api_gateway.resources.route_parts import deleted, parse_uuid, read_object
from chordwise.contract.answer import AnswerChunk, AnswerContext, Facet, Group, QueryAccepted, Stats, UnderstoodQuery
from pipeline.query.compression import is_compressed
from pipeline.query.request import Query
from pipeline.query.wake_names import wake_name
from pipeline.records import QueryId
from pipeline.retrieval.record_trace import asked_before


class Answer(Shape):
    """The result of a query, best chunk first. An empty result is a success. `failed`: no channel or store answered,
    there are no chunks, and `error` gives the reason; `stats.degradations` lists every loss."""

    query_id: str
    status: Literal["succeeded", "failed"]
    query: UnderstoodQuery
    chunks: list[AnswerChunk]
    facets: tuple[Facet, ...] | None = Field(default=None, description="Absent unless query or profile ask for them.")
    groups: tuple[Group, ...] | None = Field(default=None, description="Absent unless the query asks for groups.")
    context: AnswerContext | None = Field(default=None, description="Absent unless query or profile ask for it.")
    stats: Stats
    error: ProblemBody | None = Field(default=None, description="Set when `status` is `failed`.")


def parse_query_id(query_id: str) -> QueryId:
    """Parse the id of a query. Raises Problem(404) for an invalid one."""
    return QueryId(parse_uuid(query_id, not_found()))


router = APIRouter(tags=["retrieval"])


async def require_own_query(caller: Caller, query_id: QueryId) -> None:
    """Raise Problem(404) for the query of a caller with other principals: its answer may name documents that this one may not
    read. Asks Redis for nobody who sees every document."""
    if not caller.principal.is_limited:
        return
    reads_as = caller.reads_as or frozenset()
    query = await caller.gateway.run(asked_before, caller.tenant_id, query_id, caller.use)
    if query is not None and (query.reads_as is None or not query.reads_as <= reads_as):
        raise not_found()


async def own_query(
    caller: Reader, query_id: Annotated[QueryId, AfterValidator(parse_query_id), Path(description="The query's id.")]
) -> QueryId:
    """Return the id in the path. Raises Problem(404) for an invalid one, and as `require_own_query`."""
    await require_own_query(caller, query_id)
    return query_id


QueryInPath = Annotated[QueryId, Depends(own_query)]

Wait = Annotated[float, Parameter(ge=0, le=LONGEST_WAIT_S, description="Seconds to hold the answer for.")]

_DEFLATED = {"Content-Encoding": "deflate", "Vary": "Accept-Encoding"}
_LEAST_PATIENCE_S = 10.0  # for a place, also of a caller that does not wait for the answer
MAX_BODY_BYTES = 1024 * 1024  # ten times the largest valid query; it is parsed on the event loop
EXAMPLE = {
    "query_text": "How do I reset the controller?",
    "namespaces": ["kb"],
    "top_k": 5,
    "filters": {"type": "manual"},
    "retrieve": {"method": "hybrid", "fusion": {"strategy": "rrf", "k": 60}},
    "context": {"max_tokens": 1000},
    "highlight": True,
}
_PREFERENCE = {"Preference-Applied": "The preferences that were applied to this answer."}
_CACHE_HEADER = header_parameter(
    "Cache-Control",
    "`no-cache`: ask the channels even if the same question was answered before; `no-store`: nor keep it.",
    "no-cache",
)
_ASKED: dict[int | str, dict[str, Any]] = {
    **answers(200, Answer, "The answer, ready in time.", 404, headers=_PREFERENCE),
    202: {
        "model": QueryAccepted,
        "description": "The query is running; poll `Location`.",
        "headers": {"Location": {"schema": {"type": "string"}}, "Retry-After": {"schema": {"type": "integer"}}},
    },
}
_PREFER_HEADER = header_parameter(
    "Prefer",
    f"RFC 7240: `wait=<seconds>` (up to {LONGEST_WAIT_S}) holds the answer, `respond-async` does not.",
    "wait=5",
)


@router.post(
    "/v1/queries",
    responses=_ASKED,
    openapi_extra={**json_body(QueryRequest, EXAMPLE), "parameters": [_PREFER_HEADER, _CACHE_HEADER]},
    summary="Submit a query",
)
async def ask(caller: Reader) -> Response:
    """Submit a query. The answer is 202 at once, or with `Prefer: wait=<seconds>` 200 with the result if it is ready in
    time."""
    query = await query_of(caller)
    preference = parse_prefer(caller.request.headers.getlist("prefer"))
    return await _answer(caller, query, preference, seconds=float(preference.wait_s or 0))


@router.post(
    "/v1/rag/query",
    responses=_ASKED,
    openapi_extra={**json_body(QueryRequest, EXAMPLE), "parameters": [_PREFER_HEADER, _CACHE_HEADER]},
    summary="Submit a query and wait for the answer",
)
async def ask_and_wait(caller: Reader) -> Response:
    """Submit a query and wait for its result, up to the query's deadline unless `Prefer` says otherwise."""
    query = await query_of(caller)
    preference = parse_prefer(caller.request.headers.getlist("prefer"))
    until_answered = preference.wait_s is None and not preference.respond_async
    seconds = math.inf if until_answered else float(preference.wait_s or 0)
    return await _answer(caller, query, preference, seconds=seconds)


@router.get(
    "/v1/queries/{query_id}",
    **route("Get a query", Answer, "The answer; or, while it runs, `query_id` and `status` alone.", 404),
    openapi_extra={"parameters": [_PREFER_HEADER]},
)
async def get_query(caller: Reader, query_id: QueryInPath, wait: Wait | None = None) -> Response:
    """Return the same bytes as the synchronous answer, once there is one. Answers expire after a while."""
    preference = parse_prefer(caller.request.headers.getlist("prefer"))
    seconds = float(preference.wait_s or 0) if wait is None else wait
    applied = preference.applied(waited=wait is None, ready=True)

    with caller.gateway.wakes.watch_for(wake_name("query", caller.tenant_id, query_id), seconds=seconds) as waiter:
        state = await state_in_time(caller.tenant_id, query_id, caller.gateway, follows=waiter is not None)
        answer = state.answer
        if answer is None and waiter is not None:
            caller.gateway.deadlines.follow(state.query)
            answer = await await_answer(state.query, waiter, caller, seconds=seconds)
    if answer is None:
        return json_response({"query_id": query_id, "status": state.status}, headers=_preference(applied))
    return _ready(answer, applied)


@router.delete("/v1/queries/{query_id}", **route("Cancel or delete a query", None, "Cancelled or deleted.", 404))
async def cancel(caller: Reader, query_id: QueryInPath) -> Response:
    """Cancel or delete a query. Its tasks find nothing to do; clients waiting for it get 404."""
    return deleted(await caller.gateway.run(caller.use.queries(caller.tenant_id).cancel, query_id), not_found())


async def query_of(caller: Caller) -> Query:
    """Return the query in a request. Raises Problem."""
    return await asked_query(await read_object(caller, MAX_BODY_BYTES), caller)


async def _answer(caller: Caller, query: Query, preference: Preference, *, seconds: float) -> Response:
    """Send the query and wait for it. Two hops to a thread: one to send, one to read the answer."""
    gateway = caller.gateway
    answer = None
    with gateway.wakes.watch_for(wake_name("query", query.tenant_id, query.query_id), seconds=seconds) as waiter:
        cache_control = caller.request.headers.get("cache-control", "")
        at_once = await send(
            query,
            gateway,
            cache_control=cache_control,
            waits=waiter is not None,
            patience_s=max(seconds, _LEAST_PATIENCE_S),
            receive=caller.request.receive,
        )
        if at_once is not None and waiter is not None:
            return _ready(at_once, preference.applied(waited=True, ready=True))
        if waiter is not None:
            answer = await await_answer(query, waiter, caller, seconds=seconds, as_stored=takes_deflate(caller.request))
    applied = preference.applied(waited=seconds > 0, ready=answer is not None)
    if answer is not None:
        return _ready(answer, applied)
    headers = {"Location": f"/v1/queries/{query.query_id}", "Retry-After": "1", **_preference(applied)}
    return json_response({"query_id": query.query_id, "status": "queued"}, status=202, headers=headers)


def _ready(answer: bytes, applied: str | None) -> Response:
    headers = _preference(applied) | (_DEFLATED if is_compressed(answer) else {})
    return Response(answer, media_type="application/json", headers=headers)


def _preference(applied: str | None) -> dict[str, str]:
    return {"Preference-Applied": applied} if applied else {}
