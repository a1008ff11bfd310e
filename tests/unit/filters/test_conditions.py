"""The meaning of conditions on metadata."""

from __future__ import annotations

import pytest

from pipeline.filters.python_filters import condition_as_json, holds, unmet
from pipeline.query.request import filters_as_sent
from pipeline.records import Comparison, Compound, DocumentFields, Filters

HELD = {"n": 3, "t": "fox", "b": True, "list": [3], "none": None}


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
        ],
    )
    def it_compares_like_with_like(self, operator, key, value, expected):
        assert holds(compare(operator, key, value), HELD) is expected


class DescribeCompounds:
    def it_asks_for_all_or_for_one(self):
        right, wrong = compare("eq", "n", 3), compare("eq", "n", 4)
        assert not holds(Compound(operator="and", parts=(right, wrong)), HELD)
        assert holds(Compound(operator="or", parts=(wrong, right)), HELD)
        assert holds(Compound(operator="and", parts=()), HELD)
        assert not holds(Compound(operator="or", parts=()), HELD)

    def it_is_a_filter_like_every_other(self):
        where = Compound(operator="and", parts=(compare("in", "t", ("fox",)),))
        assert unmet(Filters(where=where), DocumentFields(metadata=HELD)) is None
        assert unmet(Filters(where=where), DocumentFields(metadata={})) == "where"
        shown = {"type": "and", "filters": [{"type": "in", "key": "t", "value": ["fox"]}]}
        assert condition_as_json(where) == shown
        assert filters_as_sent(Filters(where=where)) == {"where": shown}
