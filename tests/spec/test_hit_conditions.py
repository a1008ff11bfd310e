"""Dify's operators as a table: which values of a field meet which condition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_gateway.dialects.dify import OPERATORS, DifyConditions, to_conditions
from api_gateway.http.problems import Problem
from pipeline.filters.python_filters import as_sent, may_be_more, moment_in, narrowing, number_in
from pipeline.records import Filters

DAY = "2026-03-01T12:00:00Z"
NOON = 1772366400  # the same moment in seconds


def conditions(*each: tuple, join: str = "and"):
    sent = [{"name": name, "comparison_operator": operator, "value": value} for name, operator, value in each]
    found = to_conditions(DifyConditions.model_validate({"logical_operator": join, "conditions": sent}))
    assert found is not None
    return found


def meets(held, operator, value, *, name="field"):
    return conditions((name, operator, value)).met_by({"field": held} if held is not None else {})


class DescribeEveryOperator:
    @pytest.mark.parametrize(
        ("operator", "value", "met_by", "not_met_by"),
        [
            ("contains", "ump", ["pump", "pumps", ["valve", "pump"]], ["PUMP", "", None, ["valve"], 5]),
            ("not contains", "ump", ["PUMP", "", None, ["valve"], 5], ["pump", ["valve", "pump"]]),
            ("start with", "pu", ["pump", ["a", "pump"]], ["a pump", "Pump", None]),
            ("end with", "mp", ["pump"], ["pumps", None]),
            ("is", "faq", ["faq", ["x", "faq"]], ["faqs", "FAQ", None, ""]),
            ("is", 5, [5, 5.0, "5"], [5.5, "5.0", True]),
            ("is", True, [True, "true"], [1, False]),
            ("is not", "faq", ["faqs", None, "", []], ["faq", ["x", "faq"]]),
            ("in", ["a", "b"], ["a", "b", ["z", "b"]], ["c", None]),
            ("in", "a, b", ["a", "b"], ["a, b", None]),
            ("not in", ["a", "b"], ["c", None], ["a", ["z", "b"]]),
            ("empty", None, [None, "", [], {}], ["x", 0, False, ["x"]]),
            ("not empty", None, ["x", 0, False, ["x"]], [None, "", [], {}]),
            ("=", "5", [5, 5.0, "5", "5.0", [1, 5]], [6, "five", None, True]),
            ("≠", 5, [6, "five", None], [5, "5.0"]),
            (">", 5, [6, "5.1"], [5, "x", None]),
            ("<", "5", [4.9], [5, None]),
            ("≥", 5, [5, 6], [4, None]),
            ("≤", 5, [5, 4], [6, None]),
            ("before", DAY, ["2026-03-01T11:59:59Z", "2026-02-28", NOON - 1], [DAY, NOON, "soon", None]),
            ("before", NOON, ["2026-03-01T12:30:00+02:00"], [DAY]),
            ("after", "2026-03-01", [DAY, NOON, NOON * 1000], ["2026-03-01", "2026-02-28", None]),
        ],
    )
    def it_holds_for_some_values_and_not_for_others(self, operator, value, met_by, not_met_by):
        assert [held for held in met_by if not meets(held, operator, value)] == []
        assert [held for held in not_met_by if meets(held, operator, value)] == []

    @pytest.mark.parametrize(
        ("operator", "same"), [("!=", "≠"), (">=", "≥"), ("<=", "≤"), ("starts with", "start with"), ("Is", "is")]
    )
    def it_is_known_by_other_spellings(self, operator, same):
        assert conditions(("field", operator, "5")) == conditions(("field", same, "5"))

    @settings(max_examples=30)
    @given(
        held=st.one_of(st.none(), st.text(max_size=5), st.integers(), st.booleans(), st.lists(st.text(max_size=3))),
        value=st.integers(min_value=0, max_value=99),
        denied=st.sampled_from([("contains", "not contains"), ("is", "is not"), ("in", "not in"), ("=", "≠")]),
    )
    def it_denies_exactly_what_the_other_says(self, held, value, denied):
        says, denies = denied
        assert meets(held, says, value) != meets(held, denies, value)


class DescribeSeveralConditions:
    def it_joins_them_with_and_or_with_or(self):
        both = [("a", "is", "x"), ("b", ">", 1)]
        assert conditions(*both).met_by({"a": "x", "b": 2})
        assert not conditions(*both).met_by({"a": "x", "b": 0})
        assert conditions(*both, join="or").met_by({"a": "x", "b": 0})
        assert not conditions(*both, join="or").met_by({"a": "y", "b": 0})

    def it_takes_a_list_of_names_as_any_of_them(self):
        assert meets("x", "is", "x", name=["other", "field"])
        assert not meets("x", "is not", "x", name=["other", "field"])

    @pytest.mark.parametrize("sent", [None, {}, {"conditions": None}, {"logical_operator": "or", "conditions": []}])
    def it_asks_for_nothing_where_there_are_none(self, sent):
        assert to_conditions(None if sent is None else DifyConditions.model_validate(sent)) is None

    @pytest.mark.parametrize(
        ("operator", "value", "at"),
        [
            ("resembles", "x", "comparison_operator"),
            *[(operator, "five", "value") for operator in ("=", "≠", ">", "<", "≥", "≤")],
            *[(operator, "soon", "value") for operator in ("before", "after")],
            *[(operator, None, "value") for operator in ("contains", "is", "in", "not in", "start with")],
            *[("is", "", "value"), ("in", [], "value"), ("in", ["x"] * 257, "value"), ("is", "x" * 1025, "value")],
        ],
    )
    def it_refuses_what_makes_no_sense_and_says_where(self, operator, value, at):
        with pytest.raises(Problem) as refused:
            conditions(("field", operator, value))
        assert refused.value.status == 422
        assert [place["pointer"] for place in refused.value.errors] == [f"/metadata_condition/conditions/0/{at}"]

    @settings(max_examples=30)
    @given(
        operator=st.sampled_from(sorted(OPERATORS)), value=st.one_of(st.none(), st.text(max_size=30)), held=st.text()
    )
    def it_ends_in_a_verdict_or_a_refusal_whatever_is_sent(self, operator, value, held):
        try:
            found = conditions(("field", operator, value))
        except Problem as problem:
            ended = problem.status
        else:
            ended = found.met_by({"field": held})
            assert as_sent(found)["conditions"]["every"]
        assert ended in (True, False, 422)


class DescribeWhatChannelsMaySearchBy:
    @pytest.mark.parametrize(
        ("asked", "metadata"),
        [
            ([("team", "is", "blue")], {"team": "blue"}),
            ([("team", "is", "blue"), ("size", ">", 3)], {"team": "blue"}),
            ([("type", "is", "faq")], {}),  # the document's own field, or one of that name in its metadata
            ([("team", "is not", "blue")], {}),
            ([("team", "in", ["blue"])], {}),
            ([("team", "is", "5")], {}),  # a number 5 is meant as well
            ([(["team", "group"], "is", "blue")], {}),
        ],
    )
    def it_is_never_more_than_the_conditions_ask(self, asked, metadata):
        assert narrowing(conditions(*asked)) == Filters(metadata=metadata)

    def it_is_nothing_where_any_condition_is_enough(self):
        assert narrowing(conditions(("team", "is", "blue"), ("size", "is", "xl"), join="or")) == Filters()

    @pytest.mark.parametrize(
        ("recalled", "read", "more"),
        [([3, 7], 8, False), ([400, 3], 400, True), ([20, 20], 1000, True), ([], 0, False)],
    )
    def it_says_when_nobody_has_looked_at_everything(self, recalled, read, more):
        assert may_be_more(recalled, read) is more


class DescribeValues:
    @pytest.mark.parametrize(
        ("value", "number"),
        [
            ("5", 5.0),
            (" -1.5e3 ", -1500.0),
            ("0\x1f", 0.0),
            (True, None),
            ("nan", None),
            ("inf", None),
            ("１", None),
            ("1_000", None),
        ],
    )
    def it_reads_numbers(self, value, number):
        assert number_in(value) == number

    @pytest.mark.parametrize("value", ["", "soon", 1e300, float("nan"), "99999-01-01", None, True, ["x"], 10**400])
    def it_reads_no_moment_out_of_anything_else(self, value):
        assert moment_in(value) is None
