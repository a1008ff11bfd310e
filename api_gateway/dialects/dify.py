"""Dify's External Knowledge API: its words for a question, the kernel's answer, its words for what went wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Scope

from api_gateway.dialects.dify_shapes import DifyError, DifyRecords, DifyRequest, record, to_conditions
from api_gateway.gateway import gateway_of
from api_gateway.http.auth import Reader
from api_gateway.http.bodies import Decoded, decode_json, read_json_body, refuse_flaws
from api_gateway.http.descriptions import json_body
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.http.responses import json_response
from api_gateway.live.ask import answer_of, asked_query, retrieved
from pipeline.filters.hit_conditions import LOOKED_AT, HitConditions, narrowing
from pipeline.query.request import Query
from pipeline.tenants.tenant_store import Principal

router = APIRouter(tags=["dify"])


MALFORMED_AUTHORIZATION, NOT_AUTHORIZED, NO_SUCH_KNOWLEDGE = 1001, 1002, 2001
_MAX_BODY_BYTES = 1024 * 1024
_FORBIDDEN = 403  # what Dify documents for both; it shows the message, not the status
_CODES = {
    "missing_api_key": MALFORMED_AUTHORIZATION,
    "malformed_authorization": MALFORMED_AUTHORIZATION,
    "invalid_api_key": NOT_AUTHORIZED,
    "insufficient_scope": NOT_AUTHORIZED,
    "namespace_not_found": NO_SUCH_KNOWLEDGE,
}
_EXAMPLE = {
    "knowledge_id": "kb",
    "query": "How do I reset the controller?",
    "retrieval_setting": {"top_k": 5, "score_threshold": 0.2},
    "metadata_condition": {
        "logical_operator": "and",
        "conditions": [{"name": "type", "comparison_operator": "is", "value": "manual"}],
    },
}
_MEANINGS = {
    400: "The body is not JSON.",
    403: "1001: the Authorization header is not `Bearer <api key>`; 1002: the key is not known, or may not read.",
    404: "2001: the tenant has no namespace of this name.",
    413: "The body is too large.",
    415: "The body does not say that it is JSON.",
    422: "A field or a condition makes no sense; the message names it.",
    500: "A fault of ours.",
    503: "A dependency does not answer, or no channel did.",
}


@router.post(
    "/dify/retrieval",
    response_model=DifyRecords,
    response_model_exclude_none=True,
    responses={
        200: {"description": "The records, best first; none is an answer too."},
        **{status: {"model": DifyError, "description": meaning} for status, meaning in _MEANINGS.items()},
    },
    openapi_extra=json_body(DifyRequest, _EXAMPLE),
    summary="Retrieve as Dify's external knowledge base",
)
async def retrieval(request: Request, principal: Reader) -> Response:
    """Asks the namespace `knowledge_id`. `score_threshold` is compared with the confidence of the best `top_k` passages
    that meet the conditions."""
    return json_response(await _retrieved(request, principal))


async def _retrieved(request: Request, principal: Principal) -> dict[str, Any]:
    gateway = gateway_of(request)
    decoded = decode_json(await read_json_body(request, min(_MAX_BODY_BYTES, gateway.settings.max_body_bytes)))
    try:
        sent = DifyRequest.model_validate(refuse_flaws(decoded))
    except ValidationError as error:
        raise invalid(places(error)) from None
    setting, conditions = sent.retrieval_setting, to_conditions(sent.metadata_condition)
    body: dict[str, Any] = {"query_text": sent.query, "namespaces": [sent.knowledge_id]}
    if setting is not None and setting.top_k is not None:
        body["top_k"] = setting.top_k
    if conditions is not None:
        body["fallback"] = {"enabled": False}  # what people are told where nothing is found meets no condition
    query = await _query(request, body, principal)
    if conditions is not None:
        query = conditioned(query, conditions)
    cache_control = request.headers.get("cache-control", "")
    answer = retrieved(await answer_of(query, gateway, receive=request.receive, cache_control=cache_control))
    stats = answer["stats"]
    least = (setting and setting.score_threshold) or 0.0
    records = [record(chunk) for chunk in answer["chunks"] if chunk["confidence"] >= least]
    remarks = [*stats["remarks"], *(f"{loss['part']}: {loss['detail']}" for loss in stats["degradations"])]
    return {"records": records, **({"remarks": remarks} if remarks else {})}


async def _query(request: Request, body: dict[str, Any], principal: Principal) -> Query:
    try:
        decoded = Decoded(body, suspicious=True)
        return await asked_query(
            decoded,
            principal,
            gateway_of(request),
            request_id=request.state.request_id,
            received_at=request.state.received_at,
        )
    except Problem as problem:
        if any(place["pointer"].startswith("/namespaces") for place in problem.errors):
            raise Problem(404, "namespace_not_found", "There is no such knowledge base.") from None
        raise


def conditioned(query: Query, conditions: HitConditions) -> Query:
    """The query with conditions that are judged on hits: each channel recalls many more than are wanted."""
    plan = query.plan
    channels = {
        name: replace(channel, pool=max(LOOKED_AT, channel.pool or 0))
        for name, channel in plan.retrieve.channels.items()
    }
    retrieve = replace(plan.retrieve, channels=channels, allocation="pool")
    return replace(query, plan=replace(plan, retrieve=retrieve), filters=narrowing(conditions), conditions=conditions)


def told(problem: Problem, _: Scope) -> Response:
    """A problem in this dialect."""
    code = _CODES.get(problem.code, problem.status)
    status = _FORBIDDEN if code in (MALFORMED_AUTHORIZATION, NOT_AUTHORIZED) else problem.status
    headers = {name: value for name, value in problem.headers.items() if name == "Retry-After"}
    return json_response({"error_code": code, "error_msg": problem.detail}, status=status, headers=headers)
