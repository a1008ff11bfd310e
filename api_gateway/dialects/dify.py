"""Dify's External Knowledge API: translate its questions into queries, and answers and problems into its format."""

from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import WithJsonSchema
from starlette.types import Scope

from api_gateway.http.bodies import Decoded
from api_gateway.http.caller import Caller, Reader
from api_gateway.http.fields import Body, QueryText
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.live.ask import answer_of, asked_query, retrieved
from api_gateway.resources.route_parts import OperatorJson
from chordwise.contract.answer import sureness
from pipeline.filters.python_filters import (
    LOOKED_AT,
    HitCondition,
    HitConditions,
    Operator,
    fields_named,
    moment_in,
    narrowing,
    number_in,
    spelled,
)
from pipeline.query.request import Query

MOST_CONDITIONS = 64
MOST_VALUES = 256
_LONGEST_NAME = 128
_LONGEST_VALUE = 1024

# Dify's name of each operator: our operator, and whether it is negated. The last lines are alternative spellings.
OPERATORS: Final[dict[str, tuple[Operator, bool]]] = {
    "contains": ("contains", False),
    "not contains": ("contains", True),
    "start with": ("start with", False),
    "end with": ("end with", False),
    "is": ("is", False),
    "is not": ("is", True),
    "in": ("in", False),
    "not in": ("in", True),
    "empty": ("not empty", True),
    "not empty": ("not empty", False),
    "=": ("=", False),
    "≠": ("=", True),
    ">": (">", False),
    "<": ("<", False),
    "≥": ("≥", False),
    "≤": ("≤", False),
    "before": ("before", False),
    "after": ("after", False),
    "!=": ("=", True),
    ">=": ("≥", False),
    "<=": ("≤", False),
    "starts with": ("start with", False),
    "ends with": ("end with", False),
}


def _names(value: Any) -> Any:
    """Accept the list of names that older versions of Dify send."""
    return [value] if isinstance(value, str) else value


class _Tolerant(Body):
    """Accept undocumented fields, in which Dify's versions differ."""

    model_config = ConfigDict(extra="ignore", frozen=True)


FieldName = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]


class DifyCondition(_Tolerant):
    """One condition on a record's metadata. If `name` is a list, any of these fields may match."""

    name: Annotated[
        list[FieldName],
        Field(min_length=1, max_length=16),
        BeforeValidator(_names),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ]
    comparison_operator: Annotated[str, Field(json_schema_extra={"enum": list(OPERATORS)})]
    value: str | bool | int | float | list[str | bool | int | float] | None = None


class DifyConditions(_Tolerant):
    """Conditions that must all hold, or of which one must hold, by `logical_operator`."""

    logical_operator: Literal["and", "or"] | None = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=MOST_CONDITIONS)] | None = None


class DifySetting(_Tolerant):
    """The number of records and their least confidence. `score_threshold` is compared with `score`; 0 accepts all."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class DifyRequest(_Tolerant):
    """A question to one namespace, which Dify calls `knowledge_id`."""

    example: ClassVar = {
        "knowledge_id": "kb",
        "query": "How do I reset the controller?",
        "retrieval_setting": {"top_k": 5, "score_threshold": 0.2},
        "metadata_condition": {
            "logical_operator": "and",
            "conditions": [{"name": "type", "comparison_operator": "is", "value": "manual"}],
        },
    }
    most_bytes: ClassVar = 1024 * 1024

    knowledge_id: str
    query: QueryText
    retrieval_setting: DifySetting | None = None
    metadata_condition: DifyConditions | None = None


class DifyRecord(BaseModel):
    """A passage. `score` is its confidence, from 0 to 1 and comparable between questions, 0.5 where nothing can be told;
    records are in the order of the answer, which reranking may have changed."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class DifyRecords(BaseModel):
    """The records, best first. `remarks` lists losses and omissions, and is absent if there were none."""

    records: list[DifyRecord]
    remarks: list[str] | None = None


class DifyError(BaseModel):
    """The reason for a missing answer; Dify shows it to its user."""

    error_code: int
    error_msg: str


def to_conditions(sent: DifyConditions | None) -> HitConditions | None:
    """Convert Dify's conditions; None if there are none. Raises Problem(422) for an invalid one."""
    if sent is None or not sent.conditions:
        return None
    conditions = tuple(_condition(condition, index) for index, condition in enumerate(sent.conditions))
    return HitConditions(each=conditions, every=sent.logical_operator != "or")


def record(chunk: dict[str, Any]) -> dict[str, Any]:
    """Return a hit as a record for Dify. Its metadata are the fields that conditions apply to."""
    return {
        "content": chunk["text"],
        "score": sureness(chunk["confidence"]),
        "title": chunk["title"] or chunk["document_id"],
        "metadata": fields_named(
            chunk["metadata"], **{name: chunk[name] for name in ("title", "document_id", "chunk_id", "namespace")}
        ),
    }


def _condition(sent: DifyCondition, index: int) -> HitCondition:
    pointer = f"/metadata_condition/conditions/{index}"
    named = OPERATORS.get(sent.comparison_operator.strip().lower())
    if named is None:
        allowed = ", ".join(OPERATORS)
        raise invalid([{"pointer": f"{pointer}/comparison_operator", "detail": f"must be one of: {allowed}"}])
    operator, negated = named
    condition = HitCondition(names=tuple(sent.name), operator=operator, negated=negated)
    if operator == "not empty":
        return condition
    if operator in ("before", "after"):
        detail = "must be a time, such as 2026-01-02T00:00:00Z, a day, or seconds since 1970"
        if (moment := moment_in(sent.value)) is not None:
            return replace(condition, moment=moment)
    elif operator in ("=", ">", "<", "≥", "≤"):
        detail = "must be a number"
        if (number := number_in(sent.value)) is not None:
            return replace(condition, number=number)
    else:
        detail = (
            f"must be a text that is not empty, or 1 to {MOST_VALUES} of them, of {_LONGEST_VALUE} characters at most"
        )
        texts = _texts(sent.value, split=operator == "in")
        if 1 <= len(texts) <= MOST_VALUES and all(len(text) <= _LONGEST_VALUE for text in texts):
            return replace(condition, texts=texts)
    raise invalid([{"pointer": f"{pointer}/value", "detail": detail}])


def _texts(value: Any, *, split: bool) -> tuple[str, ...]:
    """Return the texts to compare with. Dify may write the list of `in` as one text with commas."""
    if split and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    values = value if isinstance(value, list) else [value]
    return tuple(text for entry in values if entry is not None and (text := spelled(entry)))


router = APIRouter(tags=["dify"])


MALFORMED_AUTHORIZATION, NOT_AUTHORIZED, NO_SUCH_KNOWLEDGE = 1001, 1002, 2001
_FORBIDDEN = 403  # Dify documents one status for both cases and shows the message, not the status
_CODES = {
    "missing_api_key": MALFORMED_AUTHORIZATION,
    "malformed_authorization": MALFORMED_AUTHORIZATION,
    "invalid_api_key": NOT_AUTHORIZED,
    "insufficient_scope": NOT_AUTHORIZED,
    "namespace_not_found": NO_SUCH_KNOWLEDGE,
}
_MEANINGS = {
    400: "The body is not JSON.",
    403: "1001: the Authorization header is not `Bearer <api key>`; 1002: the key is not known, or may not read.",
    404: "2001: the tenant has no namespace of this name.",
    413: "The body is too large.",
    415: "The content type is not JSON.",
    422: "A field or a condition is invalid; the message names it.",
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
    summary="Retrieve as Dify's external knowledge base",
)
async def retrieval(caller: Reader, sent: OperatorJson[DifyRequest]) -> Response:
    """Query the namespace `knowledge_id`. `score_threshold` is compared with the confidence of the best `top_k`
    passages that meet the conditions."""
    setting, conditions = sent.retrieval_setting, to_conditions(sent.metadata_condition)
    body: dict[str, Any] = {"query_text": sent.query, "namespaces": [sent.knowledge_id]}
    if setting is not None and setting.top_k is not None:
        body["top_k"] = setting.top_k
    if conditions is not None:
        body["fallback"] = {"enabled": False}  # the fallback chunks of an empty answer cannot meet a condition
    query = await _query(caller, body)
    if conditions is not None:
        query = conditioned(query, conditions)
    cache_control = caller.request.headers.get("cache-control", "")
    answer = retrieved(await answer_of(query, caller, cache_control=cache_control))
    stats = answer["stats"]
    least = (setting and setting.score_threshold) or 0.0
    records = [record(chunk) for chunk in answer["chunks"] if sureness(chunk["confidence"]) >= least]
    remarks = [*stats["remarks"], *(f"{loss['part']}: {loss['detail']}" for loss in stats["degradations"])]
    return json_response({"records": records, **({"remarks": remarks} if remarks else {})})


async def _query(caller: Caller, body: dict[str, Any]) -> Query:
    try:
        return await asked_query(Decoded(body, suspicious=True), caller)
    except Problem as problem:
        if any(error["pointer"].startswith("/namespaces") for error in problem.errors):
            raise Problem(404, "namespace_not_found", "There is no such knowledge base.") from None
        raise


def conditioned(query: Query, conditions: HitConditions) -> Query:
    """Return the query with conditions on its hits. Each channel then recalls many more candidates."""
    plan = query.plan
    channels = {
        name: replace(channel, pool=max(LOOKED_AT, channel.pool or 0))
        for name, channel in plan.retrieve.channels.items()
    }
    retrieve = replace(plan.retrieve, channels=channels, allocation="pool")
    return replace(query, plan=replace(plan, retrieve=retrieve), filters=narrowing(conditions), conditions=conditions)


def error_response(problem: Problem, _: Scope) -> Response:
    """Return a problem in this dialect."""
    code = _CODES.get(problem.code, problem.status)
    status = _FORBIDDEN if code in (MALFORMED_AUTHORIZATION, NOT_AUTHORIZED) else problem.status
    headers = {name: value for name, value in problem.headers.items() if name == "Retry-After"}
    return json_response({"error_code": code, "error_msg": problem.detail}, status=status, headers=headers)
