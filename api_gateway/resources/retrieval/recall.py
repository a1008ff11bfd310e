"""Recall in the form of a main agent: hits with source, confidence and reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request
from pydantic import Field, ValidationError, field_validator
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Reader
from api_gateway.http.bodies import Decoded, refuse_flaws
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.fields import Label, NamespaceName, Shape, Wire
from api_gateway.http.problems import invalid, places
from api_gateway.http.responses import json_response
from api_gateway.live.ask import answer_of, retrieved
from api_gateway.resources.retrieval.explanations import Trace
from api_gateway.resources.retrieval.queries import EXAMPLE as QUERY_EXAMPLE
from api_gateway.resources.retrieval.queries import body_of, query_from, query_of
from api_gateway.resources.retrieval.query_body import Conversation, QueryRequest, UserProfile
from api_gateway.resources.retrieval.result_shapes import Answer
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


class RecallHit(Shape):
    """A passage: its strongest channel (`source`), its score, its confidence, and the reason for its rank."""

    source: str
    score: float
    confidence: float
    reason: str
    content: str
    metadata: dict[str, Any]


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


def recall_of(decoded: Decoded) -> RecallRequest:
    """Parse a body. Raises Problem(422)."""
    try:
        return RecallRequest.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None


def as_query(request: RecallRequest) -> Decoded:
    """Return the body of the equivalent query."""
    asked = {
        "query_text": request.query,
        "namespaces": request.namespaces,
        "session_id": request.session_id,
        "user_profile": request.user_profile,
        "conversation": request.context,
        "experiment_id": request.experiment_id,
        "top_k": request.top_k,
    }
    return Decoded(asked)


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
    named = {name: chunk[name] for name in ("document_id", "chunk_id", "namespace", "title")}
    return RecallHit(
        source=chunk["source"],
        score=chunk["score"],
        confidence=chunk["confidence"],
        reason=chunk["reason"],
        content=chunk["text"],
        metadata={**chunk["metadata"], **named},
    )


class Debugged(Answer):
    """An answer with its trace."""

    trace: Trace | None


_DEBUGGED = answers(200, Debugged, "The answer and its trace.", 400, 401, 403, 404, 413, 415, 422, 503)


@router.post(
    "/internal/recall/test",
    responses=answers(
        200,
        RecallResult | Debugged,
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
    openapi_extra=json_body(RecallRequest | QueryRequest, EXAMPLE),
    summary="Recall as a main agent does",
)
async def recall(request: Request, principal: Reader) -> Response:
    """Answer a RecallRequest with a RecallResult, and the body of a query as `/v1/rag/debug` does."""
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
    openapi_extra=json_body(QueryRequest, QUERY_EXAMPLE),
    summary="Ask, and see how the answer comes about",
)
async def debug(request: Request, principal: Reader) -> Response:
    """Run the same body through the same pipeline as a query, with `trace: true`; the trace comes with the answer."""
    return await _debugged(await query_of(request, principal), request)


async def _debugged(query: Query, request: Request) -> Response:
    gateway = gateway_of(request)
    said = await answer_of(replace(query, trace=True), gateway, receive=request.receive, cache_control="no-cache")
    answer: dict[str, Any] = orjson.loads(said)
    found = await gateway.run(trace_of_query, query.tenant_id, query.query_id, gateway.resources)
    return json_response({**answer, "trace": found})
