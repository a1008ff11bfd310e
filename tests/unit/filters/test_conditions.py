"""The meaning of conditions on metadata."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeline.filters.python_filters import condition_as_json, holds, unmet
from pipeline.query.request import filters_as_sent
from pipeline.records import Comparison, Compound, DocumentFields, Filters

HELD = {"n": 3, "t": "fox", "b": True, "list": [3], "none": None}
FIELDS = DocumentFields(
    type="manual", tags=("hr", "人事"), published_at=datetime(2026, 1, 2, 12, tzinfo=UTC), metadata=HELD
)


def compare(operator, key, value):
    return Comparison(operator=operator, key=key, value=value)


class DescribeComparisons:
    @pytest.mark.parametrize(
        ("operator", "key", "value", "expected"),
        [
            ("eq", "n", 3.0, True),
            ("eq", "n", "3", False),
            ("eq", "b", 1, False),
            ("eq", "list", 3, False),
            ("eq", "absent", 3, False),
            ("ne", "absent", 3, True),
            ("ne", "n", 3, False),
            ("ne", "n", "3", True),
            ("gt", "n", 2, True),
            ("gte", "n", 3, True),
            ("lt", "n", 3, False),
            ("lte", "n", 3, True),
            ("gt", "t", "bear", True),
            ("gt", "t", 1, False),
            ("gt", "b", False, False),
            ("lt", "none", 1, False),
            ("in", "n", (1, 3), True),
            ("in", "n", (), False),
            ("nin", "n", (), True),
            ("nin", "t", ("fox",), False),
            ("nin", "absent", ("fox",), True),
            ("has", "list", 3, True),
            ("has", "n", 3, True),
            ("has", "b", 1, False),
            ("has", "absent", 3, False),
            ("exists", "none", True, True),
            ("exists", "absent", True, False),
        ],
    )
    def it_compares_like_with_like(self, operator, key, value, expected):
        assert holds(compare(operator, key, value), FIELDS) is expected

    @pytest.mark.parametrize(
        ("operator", "key", "value", "expected"),
        [
            ("eq", "type", "manual", True),
            ("nin", "type", ("note", "book"), True),
            ("ne", "author", "ada", True),
            ("exists", "author", True, False),
            ("has", "tags", "人事", True),
            ("has", "tags", "h", False),
            ("exists", "tags", True, True),
            ("gte", "published_at", "2026-01-02", True),
            ("lt", "published_at", "2026-01-02T20:00:00+08:00", False),
            ("lte", "published_at", "2026-01-02T20:00:00+08:00", True),
        ],
    )
    def it_compares_fields_of_the_document(self, operator, key, value, expected):
        assert holds(Comparison(operator=operator, key=key, value=value, own=True), FIELDS) is expected


class DescribeCompounds:
    def it_asks_for_all_or_for_one(self):
        right, wrong = compare("eq", "n", 3), compare("eq", "n", 4)
        assert not holds(Compound(operator="and", parts=(right, wrong)), FIELDS)
        assert holds(Compound(operator="or", parts=(wrong, right)), FIELDS)
        assert holds(Compound(operator="and", parts=()), FIELDS)
        assert not holds(Compound(operator="or", parts=()), FIELDS)
        assert holds(Compound(operator="not", parts=(wrong,)), FIELDS)

    def it_is_a_filter_like_every_other(self):
        where = Compound(operator="and", parts=(compare("in", "t", ("fox",)),))
        assert unmet(Filters(where=where), FIELDS) is None
        assert unmet(Filters(where=where), DocumentFields(metadata={})) == "where"
        shown = {"type": "and", "filters": [{"type": "in", "key": "metadata.t", "value": ["fox"]}]}
        assert condition_as_json(where) == shown
        assert filters_as_sent(Filters(where=where)) == {"where": shown}
