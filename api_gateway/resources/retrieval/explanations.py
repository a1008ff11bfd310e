"""Why an answer is as it is: traces, chunks that were expected, and the same question with other settings."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import Reader
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.live.ask import answer_of, current_state, retrieved
from api_gateway.live.computations import compute
from api_gateway.resources.retrieval import explanation_shapes as shapes
from api_gateway.resources.retrieval.queries import EXAMPLE, body_of, known_id, query_from, query_of
from api_gateway.resources.retrieval.query_body import QueryRequest, flaws
from api_gateway.resources.retrieval.recall_shapes import EXAMPLE as RECALL_EXAMPLE
from api_gateway.resources.retrieval.recall_shapes import (
    RecallRequest,
    RecallResult,
    as_query,
    is_recall,
    recall_of,
    result_of,
)
from pipeline.answer.diff import difference, plan_difference
from pipeline.errors import ComputationTimeout, WorkerUnavailable
from pipeline.jobs.computation import ComputationKind
from pipeline.query.plan import PlanFlaw, plan_as_json, require_story_time
from pipeline.query.plan_rules import comparable
from pipeline.query.request import Query
from pipeline.records import ChunkId, QueryId
from pipeline.retrieval.build_plan import replanned
from pipeline.retrieval.record_trace import trace_of_query

router = APIRouter(tags=["retrieval"])

_MAX_BODY_BYTES = 64 * 1024
_PROBLEMS = (401, 403, 404, 409, 422, 503)
_BODY_PROBLEMS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 503)
_DEBUGGED = answers(200, shapes.Debugged, "The answer and its trace.", 400, 401, 403, 404, 413, 415, 422, 503)


@router.post(
    "/internal/recall/test",
    responses=answers(
        200,
        RecallResult | shapes.Debugged,
        "The hits; to a QueryRequest, its answer and trace.",
        400,
        401,
        403,
        404,
        413,
        415,
        422,
        503,
    ),
    openapi_extra=json_body(RecallRequest | QueryRequest, RECALL_EXAMPLE),
    summary="Recall as a main agent does",
)
async def recall(request: Request, principal: Reader) -> Response:
    """A RecallRequest is answered with a RecallResult; the body of a query as `/v1/rag/debug` answers it."""
    decoded = await body_of(request, principal)
    if not is_recall(decoded):
        return await _debugged(await query_from(decoded, request, principal), request)
    gateway, asked = gateway_of(request), recall_of(decoded)
    query = await query_from(as_query(asked), request, principal, request_id=asked.trace_id)
    said = await answer_of(query, gateway, receive=request.receive)
    found = result_of(retrieved(said), trace_id=query.request_id, experiment_id=asked.experiment_id)
    return json_response(found.model_dump())


@router.post(
    "/v1/rag/debug",
    responses=_DEBUGGED,
    openapi_extra=json_body(QueryRequest, EXAMPLE),
    summary="Ask, and see how the answer comes about",
)
async def debug(request: Request, principal: Reader) -> Response:
    """The same body and the same pipeline as a query, with `trace: true`; the trace comes with the answer."""
    return await _debugged(await query_of(request, principal), request)


async def _debugged(query: Query, request: Request) -> Response:
    gateway = gateway_of(request)
    said = await answer_of(replace(query, trace=True), gateway, receive=request.receive, cache_control="no-cache")
    answer: dict[str, Any] = orjson.loads(said)
    found = await gateway.run(trace_of_query, query.tenant_id, query.query_id, gateway.resources)
    return json_response({**answer, "trace": found})


@router.get(
    "/v1/queries/{query_id}/trace",
    responses=answers(200, shapes.Trace, "The whole run, in numbers and ids.", *_PROBLEMS),
    summary="Look at how an answer came about",
)
async def trace(request: Request, principal: Reader, query_id: str) -> Response:
    """Kept for as long as the answer is, of queries that were asked with `trace: true`."""
    gateway, known = gateway_of(request), known_id(query_id)
    state = await gateway.run(current_state, principal.tenant_id, known, gateway)
    found = await gateway.run(trace_of_query, principal.tenant_id, known, gateway.resources)
    if found is None and state.answer is None:
        raise Problem(409, "query_not_answered", "The query is not answered yet.")
    if found is None:
        raise Problem(404, "trace_not_kept", "The query was not asked with trace: true; POST its replay to get one.")
    return json_response(found)


@router.post(
    "/v1/queries/{query_id}/why-not",
    responses=answers(200, shapes.WhyNot, "The stage and the number.", *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.WhyNotRequest, {"chunk_id": "7e0f3f54-6f3e-5d0a-9d0b-0d0c4a3c9f11"}),
    summary="Ask why a chunk is not in the answer",
)
async def explain(request: Request, principal: Reader, query_id: str) -> Response:
    """Names the first stage at which the chunk was lost: its namespace, its publication, a filter, recall, fusion, or
    the rule that left it out. A query that kept no trace is run once more, as it was asked, on the documents as they
    are."""
    gateway, known = gateway_of(request), known_id(query_id)
    asked = await read_shape(request, principal, shapes.WhyNotRequest, limit=_MAX_BODY_BYTES)
    chunk_id = known_chunk_id(asked.chunk_id)
    state = await gateway.run(current_state, principal.tenant_id, known, gateway)
    if state.answer is None:
        raise Problem(409, "query_not_answered", "The query is not answered yet.")
    found = await explanation(gateway, state.query, chunk_id, receive=request.receive)
    return json_response(found)


@router.post(
    "/v1/queries/{query_id}/replay",
    responses=answers(200, shapes.Replay, "The new answer, and what is different in it.", *_BODY_PROBLEMS),
    openapi_extra=json_body(shapes.QueryReplayRequest, {"plan": {"retrieve": {"fusion": {"strategy": "rrf"}}}}),
    summary="Ask the same again with other settings",
)
async def replay(request: Request, principal: Reader, query_id: str) -> Response:
    """A query of its own, with a trace, on the documents as they are now, from what was asked for: a router has its
    say anew. `difference` compares both answers."""
    gateway, known = gateway_of(request), known_id(query_id)
    asked = await read_shape(request, principal, shapes.QueryReplayRequest, limit=_MAX_BODY_BYTES)
    before = await gateway.run(current_state, principal.tenant_id, known, gateway)
    if before.answer is None:
        raise Problem(409, "query_not_answered", "The query is not answered yet.")
    if "privacy" in asked.plan:
        raise invalid([{"pointer": "/plan/privacy", "detail": "is for the profile to say, as in a query"}])
    asked_first = before.query.asked
    try:
        plan = replanned(asked_first.plan, asked.plan, gateway.settings)
    except PlanFlaw as flaw:
        raise invalid([{**each, "pointer": f"/plan{each['pointer']}"} for each in flaws(flaw)]) from None
    try:
        require_story_time(plan, before.query.filters.story_time)
    except PlanFlaw as flaw:
        raise invalid([{"pointer": "/plan/retrieve", "detail": f"story_time {flaw.flaws[0][1]}"}]) from None
    plan, refused = comparable(plan, namespaces=len(before.query.namespaces))
    now = time.time()
    query = replace(
        before.query,
        query_id=QueryId(str(uuid.uuid4())),
        request_id=request.state.request_id,
        plan=plan,
        created_at=now,
        deadline_at=now + plan.deadline_ms / 1000,
        trace=True,
        remarks=tuple(dict.fromkeys((*asked_first.remarks, *refused))),
        before_routing=None,
        understanding=None,
        model_steps=(),
        cache_key="",
        stamps={},
    )
    after = await answer_of(query, gateway, receive=request.receive, cache_control="no-cache")
    first, second = orjson.loads(before.answer), orjson.loads(after)
    told = difference(first, second)
    told["plan"] = plan_difference(plan_as_json(asked_first.plan), plan_as_json(plan))
    return json_response({"query_id": query.query_id, "of": known, "difference": told, "answer": second})


async def explanation(gateway: Gateway, query: Query, chunk_id: ChunkId, *, receive: Receive) -> dict[str, Any]:
    """Return a worker's explanation. Raises Problem."""
    asked = {"query_id": query.query_id, "chunk_id": chunk_id}
    try:
        done = await compute(
            gateway, ComputationKind.EXPLAIN, query.tenant_id, asked, receive=receive, request_id=query.request_id
        )
    except (WorkerUnavailable, ComputationTimeout):
        raise Problem(503, "not_explained", "No worker found it out in time.", headers={"Retry-After": "2"}) from None
    found: dict[str, Any] = orjson.loads(done.body)
    if found.get("error") == "chunk_not_found":
        raise _no_chunk()
    if "error" in found:
        raise Problem(503, found["error"], "A store or a channel did not answer, so nothing can be said now.")
    return found


def known_chunk_id(given: str) -> ChunkId:
    """The id in its usual form. Raises Problem 404 for what can be none."""
    try:
        return ChunkId(str(uuid.UUID(given)))
    except ValueError:
        raise _no_chunk() from None


def _no_chunk() -> Problem:
    return Problem(404, "chunk_not_found", "There is no such chunk.")
