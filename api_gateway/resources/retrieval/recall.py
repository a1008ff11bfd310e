"""Recall in the form of a main agent: hits with source, confidence and reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Response
from pydantic import Field, field_validator

from api_gateway.http.bodies import Decoded, refuse_flaws
from api_gateway.http.caller import Caller, Reader
from api_gateway.http.fields import Label, NamespaceName, Shape, Wire
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import answers, json_body, route
from api_gateway.live.ask import answer_of, asked_query, retrieved
from api_gateway.resources.retrieval.explanations import Trace
from api_gateway.resources.retrieval.queries import EXAMPLE as QUERY_EXAMPLE
from api_gateway.resources.retrieval.queries import MAX_BODY_BYTES, Answer, query_of
from api_gateway.resources.retrieval.query_body import Conversation, QueryRequest, UserProfile
from api_gateway.resources.route_parts import read_object, validated
from chordwise.contract.answer import RecallHit
from pipeline.query.request import Query
from pipeline.retrieval.record_trace import trace_of_query

router = APIRouter(tags=["retrieval"])

EXAMPLE = {
    "query": "And how long does it take?",
    "namespaces": ["kb"],
    "session_id": "s-1",
    "trace_id": "t-1",
    "context": ["user: How do I reset the controller?", "assistant: Hold the button."],
    "user_profile": {"role": "operator", "language": "en"},
}


class RecallRequest(Wire):
    """A question from a main agent. `context`: the messages before the query, oldest first. `trace_id` replaces
    `X-Request-ID` in logs and tasks."""

    query: Annotated[str, Field(min_length=1, max_length=8000)]
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=32)]
    session_id: Label | None = None
    trace_id: Annotated[str, Field(pattern=r"^[\x21-\x7E]{1,128}$")] | None = None
    user_profile: UserProfile | None = None
    context: Conversation | None = None
    experiment_id: Label | None = None
    top_k: Annotated[int, Field(ge=1, le=1000)] = 5
    tenant_id: str | None = None

    @field_validator("query")
    @classmethod
    def _asks_something(cls, value: str) -> str:
        if value.isspace():
            raise ValueError("holds nothing but white space")
        return value


class RecallResult(Shape):
    """The hits, best first. `degraded`: a part was lost on the way."""

    hits: list[RecallHit]
    latency_ms: float
    degraded: bool
    trace_id: str
    experiment_id: str | None


def is_recall(decoded: Decoded) -> bool:
    """Return whether a body is a RecallRequest and not a QueryRequest."""
    return "query" in decoded.value and "query_text" not in decoded.value


def as_query(request: RecallRequest) -> Decoded:
    """Return the body of the equivalent query."""
    same = ("namespaces", "session_id", "user_profile", "experiment_id", "top_k")
    body = {name: getattr(request, name) for name in same}
    return Decoded({"query_text": request.query, "conversation": request.context, **body})


def result_of(answer: Mapping[str, Any], *, trace_id: str, experiment_id: str | None) -> RecallResult:
    """Convert the answer to a query to the form of a recall."""
    return RecallResult(
        hits=[_hit(chunk) for chunk in answer["chunks"]],
        latency_ms=answer["stats"]["latency_ms"]["total"],
        degraded=answer["stats"]["degraded"],
        trace_id=trace_id,
        experiment_id=experiment_id,
    )


def _hit(chunk: Mapping[str, Any]) -> RecallHit:
    same = {name: chunk[name] for name in ("source", "score", "confidence", "reason")}
    ids = {name: chunk[name] for name in ("document_id", "chunk_id", "namespace", "title")}
    return RecallHit(**same, content=chunk["text"], metadata={**chunk["metadata"], **ids})


class Debugged(Answer):
    """An answer with its trace."""

    trace: Trace | None


_PROBLEMS = (400, 401, 403, 404, 413, 415, 422, 429, 503)  # all of them: the path is not below /v1


@router.post(
    "/internal/recall/test",
    responses=answers(200, RecallResult | Debugged, "The hits; to a QueryRequest, its answer and trace.", *_PROBLEMS),
    openapi_extra=json_body(RecallRequest | QueryRequest, EXAMPLE),
    summary="Recall for a main agent",
)
async def recall(caller: Reader) -> Response:
    """Answer a RecallRequest with a RecallResult, and the body of a query as `/v1/rag/debug` does."""
    decoded = await read_object(caller, MAX_BODY_BYTES)
    if not is_recall(decoded):
        return await _debugged(await asked_query(decoded, caller), caller)
    sent = validated(RecallRequest, refuse_flaws(decoded))
    query = await asked_query(as_query(sent), caller, request_id=sent.trace_id)
    answer = await answer_of(query, caller)
    result = result_of(retrieved(answer), trace_id=query.request_id, experiment_id=sent.experiment_id)
    return json_response(result.model_dump())


@router.post(
    "/v1/rag/debug",
    **route("Query with a trace", Debugged, "The answer and its trace.", 404),
    openapi_extra=json_body(QueryRequest, QUERY_EXAMPLE),
)
async def debug(caller: Reader) -> Response:
    """Run the same body through the same pipeline as a query, with `trace: true`; the trace comes with the answer."""
    return await _debugged(await query_of(caller), caller)


async def _debugged(query: Query, caller: Caller) -> Response:
    answer = await answer_of(replace(query, trace=True), caller, cache_control="no-cache")
    trace = await caller.gateway.run(trace_of_query, query.tenant_id, query.query_id, caller.use)
    return json_response({**orjson.loads(answer), "trace": trace})
