"""Apply filters in Python. `filters.sql_filters` and `filters.index_filters` give every operator the same meaning.

Numbers compare with numbers, texts with texts by code points, truth values with truth values (without order). An absent
key or another kind fails every operator but ``ne`` and ``nin``, the contraries of ``eq`` and ``in``. Tags are only asked
for one by one (``has``), ``published_at`` only by order.

`HitConditions` are judged on the metadata that an answer shows. A negated one holds exactly where its contrary does not,
so also for a missing field.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from chordwise.contract.document import COMPARED
from pipeline.filters.readers import may_read
from pipeline.records import Comparison, Condition, DocumentFields, Filters, Scalar

# The fields of a document that a condition can name; every other name is a key of its metadata.
OWN_FIELDS: Final = (*COMPARED, "tags", "published_at")
METADATA: Final = "metadata."  # before a key, in JSON

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def unmet(filters: Filters, fields: DocumentFields) -> str | None:
    """Return the first filter that these fields do not meet, or None. A list meets a value that it holds."""
    for name in COMPARED:
        wanted = getattr(filters, name)
        if wanted is not None and getattr(fields, name) != wanted:
            return name
    if not set(filters.tags) <= set(fields.tags):
        return "tags"
    if not _contains(fields.metadata, filters.metadata):
        return "metadata"
    if filters.where is not None and not holds(filters.where, fields):
        return "where"
    if filters.start is not None and (fields.published_at is None or _utc(fields.published_at) < _utc(filters.start)):
        return "start"
    if filters.end is not None and (fields.published_at is None or _utc(fields.published_at) > _utc(filters.end)):
        return "end"
    latest, story_time = filters.story_time, fields.story_time
    if latest is not None and story_time is not None and story_time > latest:
        return "story_time"
    if filters.readers is not None and not may_read(fields.readers, frozenset(filters.readers)):
        return "readers"
    return None


def holds(condition: Condition, fields: DocumentFields) -> bool:
    """Return whether a document's fields meet the condition."""
    if isinstance(condition, Comparison):
        return _compare_own(condition, fields) if condition.own else _compare_key(condition, fields.metadata)
    results = (holds(part, fields) for part in condition.parts)
    if condition.operator == "not":
        return not any(results)
    return all(results) if condition.operator == "and" else any(results)


def _compare_key(comparison: Comparison, metadata: Mapping[str, Any]) -> bool:
    held = metadata.get(comparison.key)
    if comparison.operator == "exists":
        return comparison.key in metadata
    if comparison.operator == "has":
        return comparison.key in metadata and _contains(held, comparison.value)
    return _compare(comparison, held)


def _compare_own(comparison: Comparison, fields: DocumentFields) -> bool:
    held = getattr(fields, comparison.key)
    if comparison.operator == "exists":
        return held not in (None, ())
    if isinstance(held, tuple):
        return comparison.value in held
    if comparison.key == "published_at":
        moment = moment_in(comparison.value)
        return held is not None and moment is not None and _ORDERS[comparison.operator](_utc(held), moment)
    return _compare(replace(comparison, operator="eq") if comparison.operator == "has" else comparison, held)


def kind_of(value: object) -> str | None:
    """Return ``boolean``, ``number`` or ``string``; None for a value that cannot be compared."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else None


def is_exact(value: object) -> bool:
    """Return whether a value is no number, or one whose double stands for no other integer."""
    return isinstance(value, bool) or not isinstance(value, int | float) or abs(value) < 2**53


def choices_of(comparison: Comparison) -> tuple[Scalar, ...]:
    """Return the values that a comparison without order includes or excludes."""
    return comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)


def condition_as_json(condition: Condition) -> dict[str, Any]:
    """Return the condition in JSON: ``{"type", "key", "value"}`` or ``{"type", "filters"}``."""
    if isinstance(condition, Comparison):
        value = list(condition.value) if isinstance(condition.value, tuple) else condition.value
        key = condition.key if condition.own else METADATA + condition.key
        return {"type": condition.operator, "key": key, "value": value}
    return {"type": condition.operator, "filters": [condition_as_json(part) for part in condition.parts]}


def _compare(comparison: Comparison, held: object) -> bool:
    kind = kind_of(held)
    if comparison.operator in _ORDERS:
        has_order = kind in ("number", "string") and kind == kind_of(comparison.value)
        return has_order and _ORDERS[comparison.operator](held, comparison.value)
    is_equal = any(kind == kind_of(value) and held == value for value in choices_of(comparison))
    return is_equal == (comparison.operator in ("eq", "in"))


def _contains(held: Any, wanted: Any) -> bool:
    """Return whether ``held`` has every key of an object, every entry of a list, and any single value ``wanted``."""
    if isinstance(wanted, Mapping):
        return isinstance(held, Mapping) and all(
            name in held and _contains(held[name], wanted[name]) for name in wanted
        )
    if isinstance(wanted, list | tuple):
        return isinstance(held, list | tuple) and all(any(_contains(entry, one) for entry in held) for one in wanted)
    if isinstance(held, list | tuple):
        return any(_contains(entry, wanted) for entry in held)
    return bool(held == wanted) and isinstance(held, bool) == isinstance(wanted, bool)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Operator = Literal[
    "contains", "start with", "end with", "is", "in", "not empty", "=", ">", "<", "≥", "≤", "before", "after"
]

# Hits that are recalled by each channel and read where conditions have to be judged on them.
LOOKED_AT: Final = 1000
# As many of one channel mean that there may have been more: the keyword channel proposes about 500 of common words.
_MAY_BE_ALL: Final = 400

# Names of a passage's own fields in the metadata that an answer shows, in this order; the others are the document's.
SHOWN_FIELDS: Final = (
    *COMPARED,
    *("tags", "published_at", "story_time", "updated_at", "source_uri", "generation", "position"),
    *("heading_path", "chunk_type", "parent_id", "chapter_id", "entity_names", "summary"),
    *("page", "page_start", "page_end", "start", "end"),
)
_OWN_FIELDS: Final = frozenset({*SHOWN_FIELDS, "chunk_id", "document_id", "namespace", "title"})
_LATEST_SECONDS: Final = 10_000_000_000  # a larger number of seconds is one of milliseconds: it would be the year 2286
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class HitCondition:
    """``operator`` holds (not if ``negated``) between a field called by any of ``names`` and one operand."""

    names: tuple[str, ...]
    operator: Operator
    negated: bool = False
    texts: tuple[str, ...] = ()
    number: float | None = None
    moment: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HitConditions:
    """Conditions on hits: ``every`` condition, or any of them. At least one."""

    each: tuple[HitCondition, ...]
    every: bool = True

    def met_by(self, fields: Mapping[str, Any]) -> bool:
        """Return whether a hit with these fields meets them."""
        met = (_is_met(condition, fields) != condition.negated for condition in self.each)
        return all(met) if self.every else any(met)


def fields_named(
    metadata: Mapping[str, Any], *, title: str | None, document_id: str, chunk_id: str, namespace: str
) -> dict[str, Any]:
    """Return the fields that conditions apply to, of a hit that is in an answer already."""
    own = {"document_id": document_id, "chunk_id": chunk_id, "namespace": namespace}
    return {**metadata, **({} if title is None else {"title": title}), **own}


def narrowing(conditions: HitConditions) -> Filters:
    """Return filters that every hit meets which meets the conditions: the part of them that channels can search by."""
    equal = {
        condition.names[0]: condition.texts[0]
        for condition in (conditions.each if conditions.every else ())
        if condition.operator == "is"
        and not condition.negated
        and len(condition.names) == len(condition.texts) == 1
        and condition.names[0] not in _OWN_FIELDS
        and condition.texts[0]
        and number_in(condition.texts[0]) is None
        and condition.texts[0] not in ("true", "false")
    }
    return Filters(metadata=equal)


def may_be_more(recalled: Sequence[int], read: int) -> bool:
    """Return whether unread hits may meet the conditions, given the counts recalled by channel and ``read``."""
    return read >= LOOKED_AT or any(count >= _MAY_BE_ALL for count in recalled)


def as_sent(conditions: HitConditions) -> dict[str, Any]:
    """Return the conditions as JSON, as the caller sent them."""
    return {"conditions": {"every" if conditions.every else "any": list(map(_in_words, conditions.each))}}


def number_in(value: Any) -> float | None:
    """Return the number of a numeric value or of a text that spells one; None for others and for non-finite ones."""
    if isinstance(value, str):
        text = value.strip()  # also of separators such as U+001F, which float() does not skip
        return finite(float(text)) if _NUMBER.fullmatch(text) else None
    return finite(value)


def finite(value: Any) -> float | None:
    """Return a number as a finite float; None for anything else, such as an integer that no float can hold."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def sent_number(value: Any) -> int | float | None:
    """Return a number that is sent as one, or as a text; None for anything else."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return None
        return int(number) if number.is_integer() else number
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def moment_in(value: Any) -> datetime | None:
    """Return the moment of an ISO 8601 time or day (UTC), or of seconds or milliseconds since 1970; else None."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    number = number_in(value)
    try:
        if number is not None and (not isinstance(value, str) or len(value.strip()) > 8):  # 20260102 is a day
            return datetime.fromtimestamp(number / 1000 if abs(number) > _LATEST_SECONDS else number, UTC)
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _is_met(condition: HitCondition, fields: Mapping[str, Any]) -> bool:
    fits = _TESTS[condition.operator]
    return any(fits(value, condition) for name in condition.names for value in _values(fields.get(name)))


def _values(held: Any) -> tuple[Any, ...]:
    """Return the values of a field, those of a list one by one. None, an empty text and an empty list are no value."""
    if isinstance(held, list | tuple):
        return tuple(value for item in held for value in _values(item))
    return () if held is None or held in ("", {}) else (held,)


def spelled(value: Any) -> str:
    """Return a value as a condition on text sees it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)


def _in_words(condition: HitCondition) -> str:
    negation = "not " if condition.negated else ""
    if condition.moment is not None:
        operand = spelled(condition.moment)
    else:
        operand = ", ".join(condition.texts) if condition.number is None else f"{condition.number:g}"
    return f"{' or '.join(condition.names)} {negation}{condition.operator} {operand}".rstrip()


def _by_text(fits: Callable[[str, str], bool]) -> Callable[[Any, HitCondition], bool]:
    return lambda value, condition: any(fits(spelled(value), text) for text in condition.texts)


def _by_value(
    operand: str, parse: Callable[[Any], Any], fits: Callable[[Any, Any], bool]
) -> Callable[[Any, HitCondition], bool]:
    """Return a test of parsed values against the condition's ``number`` or ``moment``."""

    def test(value: Any, condition: HitCondition) -> bool:
        held, wanted = parse(value), getattr(condition, operand)
        return held is not None and wanted is not None and fits(held, wanted)

    return test


_TESTS: Final[Mapping[str, Callable[[Any, HitCondition], bool]]] = {
    "contains": _by_text(lambda held, text: text in held),
    "start with": _by_text(str.startswith),
    "end with": _by_text(str.endswith),
    "is": _by_text(str.__eq__),
    "in": _by_text(str.__eq__),
    "not empty": lambda _value, _condition: True,
    "=": _by_value("number", number_in, operator.eq),
    ">": _by_value("number", number_in, operator.gt),
    "<": _by_value("number", number_in, operator.lt),
    "≥": _by_value("number", number_in, operator.ge),
    "≤": _by_value("number", number_in, operator.le),
    "before": _by_value("moment", moment_in, operator.lt),
    "after": _by_value("moment", moment_in, operator.gt),
}
