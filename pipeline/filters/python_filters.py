"""Apply filters in Python. `filters.sql_filters` and `filters.index_filters` give every operator the same meaning.

Numbers compare with numbers, texts with texts by code points, truth values with truth values (without order). An absent
key or another kind fails every operator but ``ne`` and ``nin``, the contraries of ``eq`` and ``in``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pipeline.records import Comparison, Condition, DocumentFields, Filters, Scalar

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def unmet(filters: Filters, fields: DocumentFields) -> str | None:
    """Return the first filter that these fields do not meet, or None. A list meets a value that it holds."""
    if filters.type is not None and fields.type != filters.type:
        return "type"
    if filters.author is not None and fields.author != filters.author:
        return "author"
    if not set(filters.tags) <= set(fields.tags):
        return "tags"
    if not _contains(fields.metadata, filters.metadata):
        return "metadata"
    if filters.where is not None and not holds(filters.where, fields.metadata):
        return "where"
    if filters.start is not None and (fields.published_at is None or _utc(fields.published_at) < _utc(filters.start)):
        return "start"
    if filters.end is not None and (fields.published_at is None or _utc(fields.published_at) > _utc(filters.end)):
        return "end"
    latest, story_time = filters.story_time, fields.story_time
    if latest is not None and story_time is not None and story_time > latest:
        return "story_time"
    return None


def holds(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata meet the condition."""
    if isinstance(condition, Comparison):
        return _compare(condition, metadata.get(condition.key))
    results = (holds(part, metadata) for part in condition.parts)
    return all(results) if condition.operator == "and" else any(results)


def kind_of(value: object) -> str | None:
    """Return ``boolean``, ``number`` or ``string``; None for a value that cannot be compared."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else None


def choices_of(comparison: Comparison) -> tuple[Scalar, ...]:
    """Return the values that ``eq``, ``ne``, ``in`` or ``nin`` includes or excludes."""
    return comparison.value if isinstance(comparison.value, tuple) else (comparison.value,)


def condition_as_json(condition: Condition) -> dict[str, Any]:
    """Return the condition in JSON: ``{"type", "key", "value"}`` or ``{"type", "filters"}``."""
    if isinstance(condition, Comparison):
        value = list(condition.value) if isinstance(condition.value, tuple) else condition.value
        return {"type": condition.operator, "key": condition.key, "value": value}
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
