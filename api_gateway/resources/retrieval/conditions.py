"""Conditions on documents as JSON, and filters as short expressions."""

import math
from typing import Annotated, Any, Final, Literal, Self, cast

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic.json_schema import WithJsonSchema
from pydantic_core import InitErrorDetails

from api_gateway.http.fields import Wire
from api_gateway.http.problems import sentence
from pipeline.filters.expressions import field_named, parse_condition, parse_filter
from pipeline.filters.python_filters import OWN_FIELDS, condition_as_json, moment_in
from pipeline.records import Comparison, Compound, Condition, Scalar

_MOST_VALUES: Final = 100  # of one `in`
_MOST_COMPARISONS: Final = 100
_DEEPEST: Final = 40  # more than an expression can nest
_DEEPEST_OF_ATTRIBUTES: Final = 5
LONGEST_FILTERS: Final = 8000  # characters, as JSON in an address and as an expression
_JOINING: Final = ("and", "or", "not")
_OF_ORDER: Final = ("gt", "gte", "lt", "lte")


def _finite(value: float) -> float:
    try:
        usable = math.isfinite(float(value))
    except OverflowError:
        usable = False
    if not usable:
        raise ValueError("is no number that can be compared")
    return value


Number = Annotated[int | float, AfterValidator(_finite)]
Value = bool | Number | Annotated[str, Field(max_length=512)]


class _Condition(Wire):
    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "has", "exists", "and", "or", "not"]
    key: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    value: Value | Annotated[list[Value], Field(max_length=_MOST_VALUES)] | None = None
    filters: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=_MOST_COMPARISONS)] | None = None

    @model_validator(mode="after")
    def _has_its_parts(self) -> Self:
        if self.type in _JOINING:
            if (self.key, self.value) != (None, None):
                raise ValueError("and, or and not take filters alone")
            if self.type == "not" and len(self.filters or ()) > 1:
                raise ValueError("not takes one filter")
        elif self.filters is not None:
            raise ValueError("a comparison takes a key and a value alone")
        elif self.value is not None and (self.type in ("in", "nin")) != isinstance(self.value, list):
            raise ValueError("value must be an array for in and nin, and none otherwise")
        return self


def to_condition(sent: dict[str, Any], *, attributes: bool = False) -> Condition:
    """Return a condition as a record. ``attributes``: every key is one of the metadata. Raises ValidationError of the part at
    fault, or ValueError for a condition that is too large or asks for what a field cannot answer."""
    condition = _condition(sent, depth=1, attributes=attributes)
    if _size(condition) > _MOST_COMPARISONS:
        raise ValueError(f"has more than {_MOST_COMPARISONS} comparisons")
    return condition


def _condition(sent: dict[str, Any], *, depth: int, attributes: bool) -> Condition:
    deepest = _DEEPEST_OF_ATTRIBUTES if attributes else _DEEPEST
    if depth > deepest:
        raise ValueError(f"is nested more than {deepest} deep")
    part = _Condition.model_validate(sent)
    needed = ("filters",) if part.type in _JOINING else ("key", "value")
    if missing := [name for name in needed if getattr(part, name) is None]:
        flaws: list[InitErrorDetails] = [{"type": "missing", "loc": (name,), "input": sent} for name in missing]
        raise ValidationError.from_exception_data("condition", flaws)
    if part.filters is not None:
        parts = tuple(_condition(inner, depth=depth + 1, attributes=attributes) for inner in part.filters)
        return Compound(operator=cast(Any, part.type), parts=parts)
    value = tuple(part.value) if isinstance(part.value, list) else cast(Scalar, part.value)
    key, own = (str(part.key), False) if attributes else field_named(str(part.key))
    found = Comparison(key=key, operator=cast(Any, part.type), value=value, own=own)
    if own:
        _require_answerable(found)
    return found


def _require_answerable(comparison: Comparison) -> None:
    """Raise ValueError for a comparison of a document's own field that has no meaning."""
    key, operator = comparison.key, comparison.operator
    if operator == "exists":
        return
    if key == "published_at":
        if operator not in _OF_ORDER or not isinstance(comparison.value, str) or moment_in(comparison.value) is None:
            raise ValueError("published_at is compared with a time by gt, gte, lt or lte")
    elif operator in _OF_ORDER or (key == "tags" and operator != "has"):
        raise ValueError("tags are asked for by has" if key == "tags" else f"{key} has no order")
    elif not all(isinstance(value, str) for value in _values(comparison)):
        raise ValueError(f"{key} is compared with texts")


def _values(comparison: Comparison) -> tuple[Any, ...]:
    return comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)


def _size(condition: Condition) -> int:
    return 1 if isinstance(condition, Comparison) else sum(map(_size, condition.parts))


def _checked(where: dict[str, Any]) -> dict[str, Any]:
    try:
        to_condition(where)
    except ValidationError as error:
        flaw = error.errors(include_url=False, include_input=False)[0]
        named = ".".join(str(part) for part in flaw["loc"] if isinstance(part, str) and part.islower())
        raise ValueError(f"{named or 'a part'} {sentence(flaw)}") from None
    return where


_DESCRIBED: Final = (
    f"A condition on fields ({', '.join(f'`{name}`' for name in OWN_FIELDS)}) and on keys of the metadata (`metadata.year`): "
    "`{type, key, value}` with type eq, ne, gt, gte, lt, lte, in, nin, has (the value, or a list that holds it) or exists; "
    "or `{type, filters}` with and, or, not; or an expression, `year > 2020 and tags:hr`."
)
_OBJECT_OR_TEXT: Final = {
    "anyOf": [{"type": "object", "additionalProperties": True}, {"type": "string", "maxLength": LONGEST_FILTERS}],
    "description": _DESCRIBED,
}


def read_expression(sent: Any) -> Any:
    """Return filters that were sent as an expression as an object; any other value unchanged. Raises ValueError."""
    if not isinstance(sent, str):
        return sent
    _require_short(sent)
    return parse_filter(sent)


def _read_condition(sent: Any) -> Any:
    if not isinstance(sent, str):
        return sent
    _require_short(sent)
    return condition_as_json(parse_condition(sent))


def _require_short(text: str) -> None:
    if len(text) > LONGEST_FILTERS:
        raise ValueError(f"has more than {LONGEST_FILTERS} characters")


Where = Annotated[
    dict[str, Any], BeforeValidator(_read_condition), AfterValidator(_checked), WithJsonSchema(_OBJECT_OR_TEXT)
]
