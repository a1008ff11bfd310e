"""Explanations of an answer: traces, missing chunks, and replays with other settings."""

import time
import uuid
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar

import orjson
from fastapi import APIRouter, Response
from pydantic import Field

from api_gateway.http import cursors
from api_gateway.http.caller import Caller, FullAdmin, Reader
from api_gateway.http.fields import DescribedBy, Shape, Wire
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import PRINTABLE, Cursor, Limit, Parameter, route
from api_gateway.live.ask import answer_of, current_state
from api_gateway.live.computations import compute
from api_gateway.resources.retrieval.queries import Answer, QueryInPath
from api_gateway.resources.retrieval.query_body import flaws
from api_gateway.resources.route_parts import Json, Page, Since, Until, existing, parse_uuid, send_page, time_span
from chordwise.contract.explanation import Difference, TraceMark, TraceSummary, WhyNot
from pipeline.answer.diff import difference, plan_difference
from pipeline.errors import ComputationTimeout, WorkerUnavailable
from pipeline.filters.readers import EVERY_DOCUMENT
from pipeline.jobs.computation import ComputationKind
from pipeline.query.plan import Lane, Plan, PlanFlaw, comparable, plan_as_json, require_story_time
from pipeline.query.request import Query
from pipeline.query.trace_entry import TraceFilter
from pipeline.records import ChunkId, QueryId
from pipeline.retrieval.build_plan import replanned
from pipeline.retrieval.record_trace import answer_in_trace, list_traces, trace_of_query


class WhyNotRequest(Wire):
    """The chunk that was expected."""

    example: ClassVar = {"chunk_id": "7e0f3f54-6f3e-5d0a-9d0b-0d0c4a3c9f11"}

    chunk_id: Annotated[str, Field(min_length=1, max_length=64)]
    tenant_id: str | None = None


class QueryReplayRequest(Wire):
    """The changes of a replay: parts of a plan that override the query's own."""

    example: ClassVar = {"plan": {"retrieve": {"fusion": {"strategy": "rrf"}}}}

    plan: Annotated[dict[str, Any], DescribedBy(Plan)] = Field(default_factory=dict)
    tenant_id: str | None = None


class Trace(Shape):
    """One run of the pipeline in numbers and ids; `explained` gives the reason for each chunk's rank in one sentence.

    `channels`: the hits of each. `stages`: the order after each, with every contribution; those of a second retrieval
    are of round 2. `rerank_weight`: the weight of the reranker's scores against the previous order. `drops`: the rule
    that dropped each candidate, its number, and the required one. `lane`: the lane that composed the answer;
    `plan.lane` is the requested one.
    """

    query_id: str
    request_id: str
    profile: str
    config_version: int
    lane: Lane = "chord"
    experiment_id: str | None
    experiment_bucket: str | None
    query: dict[str, Any]
    plan: dict[str, Any]
    channels: dict[str, dict[str, Any]]
    stages: list[dict[str, Any]]
    rerank_weight: float | None
    drops: list[dict[str, Any]]
    returned: list[str]
    explained: list[str]
    timings_ms: dict[str, float]
    timeline: list[dict[str, Any]] = Field(
        default=[],
        description="When each part of the run began and how long it took, in milliseconds since the request: gateway, waits"
        " in queues, channels, the callback with its steps, and calls to stores and models.",
    )
    second: dict[str, Any] | None
    ladder: dict[str, Any] | None
    fallback: str | None
    degradations: list[dict[str, str]]
    remarks: list[str]


class TracePage(Page[TraceSummary]):
    """One page of kept traces, newest first."""


class Replay(Shape):
    """The query once more, with other settings."""

    query_id: str
    of: str
    difference: Difference
    answer: Answer


router = APIRouter(tags=["retrieval"])

Mark = Annotated[TraceMark | None, Parameter(description="Only traces kept for this reason.")]
InNamespace = Annotated[
    str | None, Parameter(max_length=64, pattern=PRINTABLE, description="Only queries to this namespace.")
]
OfProfile = Annotated[
    str | None, Parameter(max_length=64, pattern=PRINTABLE, description="Only queries with this profile.")
]


@router.get("/v1/traces", **route("List kept traces", TracePage, "One page of kept traces, newest first."))
async def list_kept(
    caller: FullAdmin,
    mark: Mark = None,
    namespace: InNamespace = None,
    profile: OfProfile = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Return the tenant's slow, degraded, failed and empty queries, those that requested a trace, and a sample of the
    others, with their questions: the newest `CHORDWISE_TRACES_KEPT`, for a day. Answers from the cache
    have no trace."""
    begins, ends = time_span(since, until)
    chosen = TraceFilter(
        mark=mark,
        namespace=namespace,
        profile=profile,
        since=begins,
        until=ends,
    )
    before = cursors.decode(cursor, "traces", datetime, uuid.UUID)
    rows = await caller.gateway.run(list_traces, caller.tenant_id, chosen, before, limit + 1, caller.use)
    return send_page(rows, limit, "traces", lambda row: (row.asked_at, row.query_id))


@router.get(
    "/v1/queries/{query_id}/trace",
    **route("Get the trace of a query", Trace, "The complete trace, in numbers and ids.", 404, 409),
)
async def trace(caller: Reader, query_id: QueryInPath) -> Response:
    """Return the trace of a query that was sent with `trace: true`, stored as long as its answer, or that was kept: `GET
    /v1/traces` lists those."""
    read = partial(trace_of_query, caller.tenant_id, query_id, caller.use)
    stored = await caller.gateway.run(read)
    if stored is None:
        state = await caller.gateway.run(current_state, caller.tenant_id, query_id, caller.gateway)
        existing(state.answer, not_answered())
        stored = await caller.gateway.run(read)  # the query may have been answered since
    if stored is None:
        raise Problem(404, "trace_not_kept", "The query was not asked with trace: true; POST its replay to get one.")
    return json_response(stored)


@router.post(
    "/v1/queries/{query_id}/why-not", **route("Explain a missing chunk", WhyNot, "The stage and the number.", 404, 409)
)
async def explain(caller: Reader, query_id: QueryInPath, body: Json[WhyNotRequest]) -> Response:
    """Return the first stage at which the chunk was lost: its namespace, its publication, a filter, recall, fusion, or
    the rule that dropped it. A query without a trace is run once more, unchanged, on the current documents."""
    chunk_id = parse_chunk_id(body.chunk_id)
    query, _ = await caller.gateway.run(_answered, caller, query_id)
    return json_response(await explanation(caller, query, chunk_id))


@router.post(
    "/v1/queries/{query_id}/replay",
    **route("Replay a query with other settings", Replay, "The new answer, and its differences.", 404, 409),
)
async def replay(caller: Reader, query_id: QueryInPath, body: Json[QueryReplayRequest]) -> Response:
    """Run the query again with other settings and a trace, on the current documents, from the original request: a
    router decides anew. `difference` compares both answers."""
    before, first = await caller.gateway.run(_answered, caller, query_id)
    if "privacy" in body.plan:
        raise invalid([{"pointer": "/plan/privacy", "detail": "is for the profile to say, as in a query"}])
    original = before.original
    try:
        plan = replanned(original.plan, body.plan, caller.gateway.settings)
    except PlanFlaw as flaw:
        raise invalid(flaws(flaw, under="/plan")) from None
    try:
        require_story_time(plan, before.filters.story_time)
    except PlanFlaw as flaw:
        raise invalid([{"pointer": "/plan/retrieve", "detail": f"story_time {flaw.flaws[0][1]}"}]) from None
    plan, refused = comparable(plan, namespaces=len(before.namespaces))
    now = time.time()
    query = replace(
        before,
        query_id=QueryId(str(uuid.uuid4())),
        request_id=caller.request_id,
        plan=plan,
        created_at=now,
        deadline_at=now + plan.deadline_ms / 1000,
        trace=True,
        remarks=tuple(dict.fromkeys((*original.remarks, *refused))),
        before_routing=None,
        understanding=None,
        model_steps=(),
        cache_key="",
        stamps={},
    )
    second = orjson.loads(await answer_of(query, caller, cache_control="no-cache"))
    changes = difference(first, second)
    changes["plan"] = plan_difference(plan_as_json(original.plan), plan_as_json(plan))
    return json_response({"query_id": query.query_id, "of": query_id, "difference": changes, "answer": second})


def _answered(caller: Caller, query_id: QueryId) -> tuple[Query, dict[str, Any]]:
    """Return a query and its answer; of an expired answer, the part in a kept trace. Blocking. Raises Problem(404),
    Problem(409), or Unavailable."""
    try:
        state = current_state(caller.tenant_id, query_id, caller.gateway)
    except Problem:
        query = caller.use.traces(caller.tenant_id).query(query_id)
        trace = trace_of_query(caller.tenant_id, query_id, caller.use)
        if query is None or trace is None:
            raise
        return query, answer_in_trace(trace)
    return state.query, orjson.loads(existing(state.answer, not_answered()))


async def explanation(caller: Caller, query: Query, chunk_id: ChunkId) -> dict[str, Any]:
    """Return a worker's explanation. Raises Problem."""
    reads_as = [EVERY_DOCUMENT] if caller.reads_as is None else sorted(caller.reads_as)
    ids = {"query_id": query.query_id, "chunk_id": chunk_id, "reads_as": reads_as}
    try:
        done = await compute(caller, ComputationKind.EXPLAIN, ids, request_id=query.request_id)
    except (WorkerUnavailable, ComputationTimeout):
        raise Problem(503, "not_explained", "No worker found it out in time.", headers={"Retry-After": "2"}) from None
    result: dict[str, Any] = orjson.loads(done.body)
    if result.get("error") == "chunk_not_found":
        raise _no_chunk()
    if "error" in result:
        raise Problem(503, result["error"], "A store or a channel did not answer, so no explanation is possible now.")
    return result


def parse_chunk_id(given: str) -> ChunkId:
    """Return the id in its usual form. Raises Problem(404) for an invalid one."""
    return ChunkId(parse_uuid(given, _no_chunk()))


def not_answered() -> Problem:
    """Return Problem(409) for a query that has no answer yet."""
    return Problem(409, "query_not_answered", "The query is not answered yet.")


def _no_chunk() -> Problem:
    return Problem(404, "chunk_not_found", "There is no such chunk.")
