"""Conditions on a JSON column of metadata, for both databases; what they mean is said in `core.conditions`.

A comparison first asks what kind the stored value is, in a CASE, so that nothing is read as what it is not. Texts are
compared as bytes of UTF-8, which is the order of code points, and without regard to any collation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline.core.conditions import choices_of, kind_of
from pipeline.records import Comparison, Condition, Scalar
from pipeline.stores.rows import to_json

_ORDERS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_MYSQL_KINDS = {
    "string": "'STRING'",
    "number": "'INTEGER', 'UNSIGNED INTEGER', 'DOUBLE', 'DECIMAL'",
    "boolean": "'BOOLEAN'",
}

Compare = Callable[[Comparison, Scalar, str], str]


def mysql_where(condition: Condition, column: str, values: dict[str, Any]) -> str:
    """An SQL condition, true or false and never unknown; what it compares with is added to ``values``."""

    def compared(comparison: Comparison, value: Scalar, sign: str) -> str:
        path = _named(values, "$." + to_json(comparison.key))  # a key in a path is written as in JSON
        held, kind = f"JSON_EXTRACT({column}, :{path})", kind_of(value) or ""
        if kind == "boolean":
            test = f"JSON_UNQUOTE({held}) = '{'true' if value else 'false'}'"
        elif kind == "number":
            test = f"CAST({held} AS DOUBLE) {sign} :{_named(values, float(value))}"
        else:
            test = f"CAST(JSON_UNQUOTE({held}) AS BINARY) {sign} CAST(:{_named(values, value)} AS BINARY)"
        return f"CASE WHEN JSON_TYPE({held}) IN ({_MYSQL_KINDS[kind]}) THEN {test} ELSE FALSE END"

    return _written(condition, compared)


def postgres_where(condition: Condition, column: str, values: dict[str, Any]) -> str:
    """The same for PostgreSQL."""

    def compared(comparison: Comparison, value: Scalar, sign: str) -> str:
        key = f"CAST(:{_named(values, comparison.key)} AS text)"
        kind = kind_of(value)
        if kind == "boolean":
            test = f"({column} ->> {key}) = '{'true' if value else 'false'}'"
        elif kind == "number":
            test = f"CAST({column} ->> {key} AS numeric) {sign} CAST(:{_named(values, str(value))} AS numeric)"
        else:
            test = f'({column} ->> {key}) COLLATE "C" {sign} CAST(:{_named(values, value)} AS text)'
        return f"CASE WHEN jsonb_typeof({column} -> {key}) = '{kind}' THEN {test} ELSE FALSE END"

    return _written(condition, compared)


def _written(condition: Condition, compared: Compare) -> str:
    if isinstance(condition, Comparison):
        if condition.operator in _ORDERS:
            assert not isinstance(condition.value, tuple)
            is_ordered = kind_of(condition.value) != "boolean"
            return compared(condition, condition.value, _ORDERS[condition.operator]) if is_ordered else "FALSE"
        any_of = [compared(condition, value, "=") for value in choices_of(condition)]
        equal = f"({' OR '.join(any_of)})" if any_of else "FALSE"
        return f"NOT {equal}" if condition.operator in ("ne", "nin") else equal
    parts = [_written(part, compared) for part in condition.parts]
    if not parts:
        return "TRUE" if condition.operator == "and" else "FALSE"
    return f"({(' AND ' if condition.operator == 'and' else ' OR ').join(parts)})"


def _named(values: dict[str, Any], value: object) -> str:
    """A name for a value, another one than those that are there."""
    name = f"f_where_{len(values)}"
    values[name] = value
    return name
