"""Answers in words, which a language model writes from the passages of a query."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import Field
from starlette.responses import Response

from api_gateway.http.auth import Reader
from api_gateway.http.descriptions import answers, json_body
from api_gateway.http.fields import Shape, Wire
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.live.ask import current_state, not_found
from api_gateway.live.computations import compute
from api_gateway.resources.retrieval.explanations import not_answered
from api_gateway.resources.retrieval.queries import parse_query_id
from api_gateway.resources.retrieval.result_shapes import Degradation
from api_gateway.resources.route_parts import CurrentGateway, existing
from pipeline.jobs.computation import ComputationKind


class WriteRequest(Wire):
    """How long the language model may take, in milliseconds."""

    deadline_ms: Annotated[int, Field(ge=200, le=60_000)] = 30_000
    tenant_id: str | None = None


class WrittenCitation(Shape):
    """The passage that `marker` stands for in the text."""

    marker: str
    chunk_id: str
    document_id: str
    namespace: str
    title: str | None
    page: int | None


class WrittenAnswer(Shape):
    """An answer in words. `found`: whether the passages hold an answer; null without a text. `citations`: in order of
    first mention; each of them is in the query's answer. `dropped_markers`: cited by the model though no passage has
    them, and removed from the text. `failed`: there is no text, and `degradations` names the reason (`rate_limited`,
    `writer_unavailable`, `unusable_reply`, `uncited_reply`, `no_passages`)."""

    query_id: str
    status: Literal["succeeded", "failed"]
    found: bool | None
    text: str | None
    citations: list[WrittenCitation]
    dropped_markers: list[str]
    model: str
    latency_ms: float
    degraded: bool
    degradations: list[Degradation]


router = APIRouter(tags=["retrieval"])

_MAX_BODY_BYTES = 4 * 1024
_PROBLEMS = (400, 401, 403, 404, 409, 413, 415, 422, 429, 503)


@router.post(
    "/v1/queries/{query_id}/answer",
    responses=answers(200, WrittenAnswer, "The answer in words, or the reason why there is none.", *_PROBLEMS),
    openapi_extra=json_body(WriteRequest, {"deadline_ms": 30_000}),
    summary="Write an answer from the hits",
)
async def write(request: Request, gateway: CurrentGateway, principal: Reader, query_id: str) -> Response:
    """Have the installation's language model answer the query from its context, citing passages by number. The model
    gets masked text and nothing but the query and these passages; citations of others are removed. Needs
    `CHORDWISE_LLM_MODEL` (409 without it)."""
    parsed_id = parse_query_id(query_id)
    body = await read_shape(request, principal, WriteRequest, limit=_MAX_BODY_BYTES)
    state = await gateway.run(current_state, principal.tenant_id, parsed_id, gateway)
    existing(state.answer, not_answered())
    if not gateway.settings.llm_model:
        raise Problem(409, "no_language_model", "No language model is configured: CHORDWISE_LLM_MODEL is not set.")
    done = await compute(
        gateway,
        ComputationKind.WRITE,
        principal.tenant_id,
        {"query_id": parsed_id, "timeout_s": body.deadline_ms / 1000},
        receive=request.receive,
        request_id=request.state.request_id,
    )
    written: dict[str, Any] = orjson.loads(done.body)
    if "error" in written:  # cancelled or expired meanwhile
        raise not_found()
    return json_response(written)
