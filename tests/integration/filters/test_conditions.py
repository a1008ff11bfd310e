"""Conditions on metadata mean the same in Python, in MySQL or MariaDB, and in PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from sqlalchemy import text

from pipeline.filters.python_filters import holds
from pipeline.filters.sql_filters import mysql_where, postgres_where
from pipeline.records import Comparison, Compound, Condition, DocumentFields

TEXTS = some.text(
    some.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=6
) | some.sampled_from(["a", "A", "a ", "ä", "10", "9", "true", "", "鱼类", "😀", "\uffee", "%_", "'\"\\"])
NUMBERS = (
    some.integers(-(2**40), 2**40) | some.floats(-1e9, 1e9, allow_subnormal=False) | some.sampled_from([0, 1, 1.0, 2.5])
)
SCALARS = TEXTS | NUMBERS | some.booleans()
KEYS = some.sampled_from(["a", "b", 'q"uote', "back\\slash", "点.点", "$[0]", "c'd"])
HELD = SCALARS | some.none() | some.lists(SCALARS, max_size=2) | some.dictionaries(KEYS, SCALARS, max_size=1)
METADATA = some.dictionaries(KEYS, HELD, max_size=4)
COMPARISONS = some.builds(
    Comparison,
    key=KEYS,
    operator=some.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte", "has", "exists"]),
    value=SCALARS,
) | some.builds(
    Comparison,
    key=KEYS,
    operator=some.sampled_from(["in", "nin"]),
    value=some.lists(SCALARS, max_size=3).map(tuple),
)
CONDITIONS = some.recursive(
    COMPARISONS,
    lambda inner: (
        some.builds(Compound, operator=some.sampled_from(["and", "or"]), parts=some.lists(inner, max_size=3).map(tuple))
        | some.builds(Compound, operator=some.just("not"), parts=some.tuples(inner))
    ),
    max_leaves=5,
)


class DescribeConditions:
    @settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(metadata=METADATA, condition=CONDITIONS, data=some.data())
    def it_means_the_same_everywhere(self, use, metadata: dict[str, Any], condition: Condition, data):
        # Often enough a comparison should be with what is there.
        scalars = [(key, value) for key, value in metadata.items() if isinstance(value, str | int | float)]
        if scalars and data.draw(some.booleans()):
            key, value = data.draw(some.sampled_from(scalars))
            kind = data.draw(some.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte", "has"]))
            condition = Compound(operator="and", parts=(Comparison(key=key, operator=kind, value=value), condition))
        expected = holds(condition, DocumentFields(metadata=metadata))
        document = json.dumps(metadata, ensure_ascii=False)
        assert _asked(use.mysql, mysql_where, condition, document, "t.m", "(SELECT :document AS m) t") is expected
        assert (
            _asked(use.postgres, postgres_where, condition, document, "m", "(SELECT CAST(:document AS jsonb) AS m) t")
            is expected
        )


def _asked(engine, where, condition: Condition, document: str, column: str, source: str) -> bool:
    values: dict[str, Any] = {"document": document}
    statement = f"SELECT COUNT(*) FROM {source} WHERE {where(condition, column, values)}"
    with engine.connect() as connection:
        return bool(connection.execute(text(statement), values).scalar_one())
