"""Filters as terms mean what `filters.python_filters.unmet` says of fields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.filters.index_filters import (
    Between,
    Clause,
    Every,
    Having,
    Never,
    Ordered,
    clause_of,
    microseconds,
    sortable_values,
    terms_of_fields,
)
from pipeline.filters.python_filters import is_exact, unmet
from pipeline.records import Comparison, Compound, DocumentFields, Filters
from tests.integration.filters.test_filters import METADATA


def meets(fields: DocumentFields, filters: Filters) -> bool | None:
    """Whether the terms of the fields meet the clause of the filters; None where there is none."""
    clause = clause_of(filters)
    return None if clause is None else _holds(clause, set(terms_of_fields(fields, chunk_type="parent")), fields)


def _holds(clause: Clause, terms: set[str], fields: DocumentFields) -> bool:
    if isinstance(clause, Having):
        return clause.term in terms
    if isinstance(clause, Never):
        return not _holds(clause.part, terms, fields)
    if isinstance(clause, Between):
        held = fields.story_time if clause.field == "story_time" else fields.published_at
        number = microseconds(held) if isinstance(held, datetime) else held
        return number is not None and (clause.least or number) <= number <= (clause.most or number)
    if isinstance(clause, Ordered):
        held = sortable_values(fields.metadata).get(clause.key)
        above = held is not None and (held > clause.least or (held == clause.least and not clause.excludes_least))
        return above and (held < clause.most or (held == clause.most and not clause.excludes_most))
    held_parts = [_holds(part, terms, fields) for part in clause.parts]
    return all(held_parts) if isinstance(clause, Every) else any(held_parts)


SCALARS = st.one_of(st.sampled_from(["a", "b", "鱼", "", 1, 1.0, 2.5, True, False, None]), st.integers(-3, 3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)),
    max_leaves=5,
)


class DescribeTermsOfFilters:
    @given(
        st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3),
        st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=2),
    )
    def it_agrees_on_metadata(self, held, asked):
        fields, filters = DocumentFields(metadata=held), Filters(metadata=asked)
        found = meets(fields, filters)
        assert found in (None, unmet(filters, fields) is None)

    @given(
        st.sampled_from(["eq", "ne", "in", "nin", "has", "exists"]),
        st.lists(SCALARS.filter(lambda v: v is not None), min_size=1),
    )
    def it_agrees_on_conditions(self, operator, values):
        value = tuple(values) if operator in ("in", "nin") else values[0]
        condition = Comparison(key="unit", operator=operator, value=value)
        for where in (condition, Compound(operator="and", parts=(condition,)), Compound(operator="or", parts=())):
            for held in ("a", 1, 1.0, True, None, ["a"], "鱼"):
                fields, filters = DocumentFields(metadata={"unit": held}), Filters(where=where)
                assert meets(fields, filters) is (unmet(filters, fields) is None), (held, where)

    @given(
        st.sampled_from(["gt", "gte", "lt", "lte"]),
        *2
        * (st.one_of(st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=40)),),
    )
    def it_agrees_on_order(self, operator, value, held):
        filters = Filters(where=Comparison(key="unit", operator=operator, value=value))
        for fields in (DocumentFields(metadata={"unit": held}), DocumentFields(metadata={"unit": value})):
            found = meets(fields, filters)
            assert found in (None, unmet(filters, fields) is None)
            assert found is not None or not is_exact(value) or len(value) > 15

    @pytest.mark.parametrize(
        ("held", "operator", "value"),
        [
            (9, "gt", 10.5), (-2, "lt", -1.5), (0.0, "gte", -0.0), ("2026-01-31", "gte", "2026-02"), ("鱼", "gt", "é"),
            ("a" * 80, "gt", "a" * 63), ("", "lte", "a"), ("10", "gt", 9), (True, "gte", 0), (3, "lt", True),
        ],
    )  # fmt: skip
    def it_orders_numbers_by_value_and_texts_by_code_points(self, held, operator, value):
        filters, fields = (
            Filters(where=Comparison(key="k", operator=operator, value=value)),
            DocumentFields(metadata={"k": held}),
        )
        assert meets(fields, filters) is (unmet(filters, fields) is None)

    @pytest.mark.parametrize(
        "filters",
        [
            Filters(type="manual"),
            Filters(author="Ann"),
            Filters(tags=("a", "b")),
            Filters(start=datetime(2026, 1, 1, tzinfo=UTC)),
            Filters(end=datetime(2026, 1, 1)),
            Filters(start=datetime(2026, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))),
            Filters(story_time=5),
            Filters(readers=()),
            Filters(readers=("user:1", "group:人事")),
            *(
                Filters(where=Comparison(key=key, operator=operator, value=value, own=True))
                for key, operator, value in (
                    ("type", "eq", "manual"),
                    ("author", "ne", "Ann"),
                    ("type", "in", ("manual", "x")),
                    ("tags", "has", "b"),
                    ("tags", "exists", True),
                    ("author", "exists", True),
                    ("published_at", "exists", True),
                    ("published_at", "gt", "2025-12-31T23:59:59.999999Z"),
                    ("published_at", "gte", "2026-01-01"),
                    ("published_at", "lt", "2026-01-01"),
                    ("published_at", "lte", "2026-01-01T08:00:00+08:00"),
                )
            ),
            Filters(
                where=Compound(operator="not", parts=(Comparison(key="tags", operator="has", value="a", own=True),))
            ),
        ],
        ids=str,
    )
    def it_agrees_on_other_fields(self, filters):
        for fields in (
            DocumentFields(),
            DocumentFields(type="manual", author="Ann", tags=("b", "a", "c")),
            DocumentFields(published_at=datetime(2026, 1, 1, tzinfo=UTC), story_time=5),
            DocumentFields(published_at=datetime(2025, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), story_time=6),
            DocumentFields(readers=("group:人事",)),
            DocumentFields(readers=("group:board", "user:2")),
        ):
            assert meets(fields, filters) is (unmet(filters, fields) is None), fields

    @pytest.mark.parametrize(
        "filters",
        [
            Filters(where=Comparison(key="n", operator="gt", value="a" * 64)),
            Filters(where=Compound(operator="or", parts=(Comparison(key="n", operator="lte", value="鱼" * 30),))),
            Filters(metadata={"rows": [{"x": 3}]}),
        ],
        ids=str,
    )
    def it_leaves_to_the_databases_what_terms_cannot_say(self, filters):
        assert clause_of(filters) is None

    @pytest.mark.parametrize(
        "asked", [{"topic": "a"}, {"deep": {"deeper": {"list": 2.5}}}, {'q"uote.点': "鱼"}], ids=str
    )
    def it_finds_what_the_databases_find(self, asked: dict[str, Any]):
        assert meets(DocumentFields(metadata=METADATA), Filters(metadata=asked)) is True
