"""Evaluate conditions on metadata in Python; `filters.sql` has the same rules in SQL.

Numbers compare with numbers, texts with texts by code points, truth values with truth values (without order). An absent
key or another kind fails every operator but ``ne`` and ``nin``, the contraries of ``eq`` and ``in``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from pipeline.records import Comparison, Condition, Scalar

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def holds(condition: Condition, metadata: Mapping[str, Any]) -> bool:
    """Return whether metadata meet the condition."""
    if isinstance(condition, Comparison):
        return _compared(condition, metadata.get(condition.key))
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


def _compared(comparison: Comparison, held: object) -> bool:
    if comparison.operator in ("eq", "in"):
        return any(_equal(held, value) for value in choices_of(comparison))
    if comparison.operator in ("ne", "nin"):
        return not any(_equal(held, value) for value in choices_of(comparison))
    kind = kind_of(held)
    ordered = kind in ("number", "string") and kind == kind_of(comparison.value)
    return ordered and _ORDERS[comparison.operator](held, comparison.value)


def _equal(held: object, value: Scalar) -> bool:
    return kind_of(held) == kind_of(value) and held == value
