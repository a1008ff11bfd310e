"""What Dify sends to an external knowledge base and what it reads, and the conversion of its conditions."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.fields import QueryText
from api_gateway.http.problems import invalid
from pipeline.filters.hit_conditions import (
    HitCondition,
    HitConditions,
    Operator,
    fields_named,
    moment_in,
    number_in,
    spelled,
)

MOST_CONDITIONS = 64
MOST_VALUES = 256
_LONGEST_NAME = 128
_LONGEST_VALUE = 1024

# Dify's name of each operator: what it means here, and whether it denies that. The last lines are other spellings.
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
    """Older versions of Dify send a list of names."""
    return [value] if isinstance(value, str) else value


class _Tolerant(BaseModel):
    """Dify's versions differ in what they send beside what is documented; nobody is to be refused for that."""

    model_config = ConfigDict(extra="ignore", frozen=True)


FieldName = Annotated[str, Field(min_length=1, max_length=_LONGEST_NAME)]


class DifyCondition(_Tolerant):
    """One condition on a record's metadata. `name` may be a list: then any of these fields may meet it."""

    name: Annotated[
        list[FieldName],
        Field(min_length=1, max_length=16),
        BeforeValidator(_names),
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
    ]
    comparison_operator: Annotated[str, Field(json_schema_extra={"enum": list(OPERATORS)})]
    value: str | bool | int | float | list[str | bool | int | float] | None = None


class DifyConditions(_Tolerant):
    """Conditions, all of which have to hold, or any of them."""

    logical_operator: Literal["and", "or"] | None = "and"
    conditions: Annotated[list[DifyCondition], Field(max_length=MOST_CONDITIONS)] | None = None


class DifySetting(_Tolerant):
    """How many records, and how sure they have to be. `score_threshold`: compared with `score`; 0 takes all."""

    top_k: Annotated[int, Field(ge=1, le=1000)] | None = None
    score_threshold: Annotated[float, Field(ge=0, le=1)] | None = None


class DifyRequest(_Tolerant):
    """A question to one namespace, which Dify knows as `knowledge_id`."""

    knowledge_id: str
    query: QueryText
    retrieval_setting: DifySetting | None = None
    metadata_condition: DifyConditions | None = None


class DifyRecord(BaseModel):
    """A passage. `score` is its confidence, from 0 to 1 and comparable between questions; records are in the order of the
    answer, which reranking may have made another one."""

    content: str
    score: float
    title: str
    metadata: dict[str, Any]


class DifyRecords(BaseModel):
    """The records, best first. `remarks`: what was lost or left out on the way, there only if something was."""

    records: list[DifyRecord]
    remarks: list[str] | None = None


class DifyError(BaseModel):
    """Why there is no answer; Dify shows it to whoever asked."""

    error_code: int
    error_msg: str


def to_conditions(sent: DifyConditions | None) -> HitConditions | None:
    """Dify's conditions as the kernel judges them; None if there are none. Raises Problem 422 for what makes no sense."""
    if sent is None or not sent.conditions:
        return None
    each = tuple(_condition(condition, place) for place, condition in enumerate(sent.conditions))
    return HitConditions(each=each, every=sent.logical_operator != "or")


def record(chunk: dict[str, Any]) -> dict[str, Any]:
    """A hit as Dify reads it. Its metadata is what conditions are judged by."""
    return {
        "content": chunk["text"],
        "score": chunk["confidence"],
        "title": chunk["title"] or chunk["document_id"],
        "metadata": fields_named(
            chunk["metadata"],
            title=chunk["title"],
            document_id=chunk["document_id"],
            chunk_id=chunk["chunk_id"],
            namespace=chunk["namespace"],
        ),
    }


def _condition(sent: DifyCondition, place: int) -> HitCondition:
    pointer = f"/metadata_condition/conditions/{place}"
    known = OPERATORS.get(sent.comparison_operator.strip().lower())
    if known is None:
        named = ", ".join(OPERATORS)
        raise invalid([{"pointer": f"{pointer}/comparison_operator", "detail": f"must be one of: {named}"}])
    operator, negated = known
    names, value = tuple(sent.name), sent.value
    if operator == "not empty":
        return HitCondition(names=names, operator=operator, negated=negated)
    if operator in ("before", "after"):
        moment = moment_in(value)
        if moment is None:
            detail = "must be a time, such as 2026-01-02T00:00:00Z, a day, or seconds since 1970"
            raise invalid([{"pointer": f"{pointer}/value", "detail": detail}])
        return HitCondition(names=names, operator=operator, negated=negated, moment=moment)
    if operator in ("=", ">", "<", "≥", "≤"):
        number = number_in(value)
        if number is None:
            raise invalid([{"pointer": f"{pointer}/value", "detail": "must be a number"}])
        return HitCondition(names=names, operator=operator, negated=negated, number=number)
    texts = _texts(value, split=operator == "in")
    if not texts or len(texts) > MOST_VALUES or any(len(text) > _LONGEST_VALUE for text in texts):
        detail = (
            f"must be a text that is not empty, or 1 to {MOST_VALUES} of them, of {_LONGEST_VALUE} characters at most"
        )
        raise invalid([{"pointer": f"{pointer}/value", "detail": detail}])
    return HitCondition(names=names, operator=operator, negated=negated, texts=texts)


def _texts(value: Any, *, split: bool) -> tuple[str, ...]:
    """The texts to compare with; Dify writes the list of `in` as one text with commas too."""
    if split and isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    values = value if isinstance(value, list) else [value]
    return tuple(text for each in values if each is not None and (text := spelled(each)))
