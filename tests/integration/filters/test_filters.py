"""Filters on metadata mean the same in Python, in MySQL or MariaDB, and in PostgreSQL."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.filters.python_filters import unmet
from pipeline.filters.sql_filters import mysql_condition, postgres_condition
from pipeline.records import DocumentFields, Filters

METADATA: dict[str, Any] = {
    "topic": ["a", "b", 3, True],
    "unit": "a",
    "deep": {"topic": ["a", "b"], "unit": "x", "deeper": {"list": [1, 2.5]}},
    "rows": [{"x": 1, "y": 2}, {"x": 3}],
    "nothing": None,
    'q"uote.点': ["鱼", "'"],
}


class DescribeFiltersOnMetadata:
    @pytest.mark.parametrize(
        ("condition", "is_met"),
        [
            ({"unit": "a"}, True),
            ({"unit": "b"}, False),
            ({"unit": ["a"]}, False),  # a list is not met by a single value
            ({"topic": "a"}, True),
            ({"topic": "c"}, False),
            ({"topic": 3}, True),
            ({"topic": "3"}, False),
            ({"topic": True}, True),
            ({"topic": False}, False),
            ({"topic": ["a"]}, True),
            ({"topic": ["b", "a"]}, True),
            ({"topic": ["a", "c"]}, False),
            ({"topic": "a", "unit": "a"}, True),
            ({"topic": "a", "unit": "b"}, False),
            ({"deep": {"unit": "x"}}, True),
            ({"deep": {"topic": "a", "unit": "x"}}, True),
            ({"deep": {"topic": "a", "unit": "y"}}, False),
            ({"deep": {"topic": ["a", "b"]}}, True),
            ({"deep": {"deeper": {"list": 2.5}, "topic": "b"}, "unit": "a"}, True),
            ({"deep": {"deeper": {"list": 3}}}, False),
            ({"deep": {}}, True),
            ({"unit": {}}, False),
            ({"rows": [{"x": 3}]}, True),
            ({"rows": [{"x": 3, "y": 2}]}, False),
            ({"nothing": None}, True),
            ({"nobody": None}, False),
            ({'q"uote.点': "鱼"}, True),
            ({'q"uote.点': "'"}, True),
            ({'q"uote.点': "鸟"}, False),
        ],
        ids=str,
    )
    def it_gives_the_same_result_in_all_three(self, use, condition, is_met):
        filters = Filters(metadata=condition)
        stored = json.dumps(METADATA, ensure_ascii=False)
        where, values = mysql_condition(filters, alias="g", chunk="c")
        mysql = _count(use.mysql, f"(SELECT :stored AS metadata) g WHERE {where}", {**values, "stored": stored})
        where, values = postgres_condition(filters)
        source = "(SELECT CAST(:stored AS jsonb) AS metadata) e"
        postgres = _count(use.postgres, f"{source} WHERE {where}", {**values, "stored": stored})
        python = unmet(filters, DocumentFields(metadata=METADATA)) is None
        assert (mysql, postgres, python) == (is_met, is_met, is_met)


def _count(engine: Any, source: str, values: dict[str, Any]) -> bool:
    with engine.connect() as connection:
        return bool(connection.execute(text(f"SELECT COUNT(*) FROM {source}"), values).scalar_one())
