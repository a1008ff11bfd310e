"""Filters as expressions: what they say as JSON, the way back, and the errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from api_gateway.resources.retrieval.conditions import to_condition
from pipeline.filters.expressions import parse_filter, write_filter
from pipeline.filters.python_filters import condition_as_json, unmet
from pipeline.records import Comparison, Compound, Condition, DocumentFields, Filters


def key(name: str, kind: str, value: Any) -> dict[str, Any]:
    return {"type": kind, "key": name, "value": value}


def all_of(*parts: Any, kind: str = "and") -> dict[str, Any]:
    return {"type": kind, "filters": list(parts)}


YEAR, TEAM = key("metadata.year", "gt", 2020), key("metadata.team", "in", ["a", "b"])
DRAFT, STAFF = key("type", "eq", "draft"), key("metadata.部门", "has", "人事")
MEANINGS: list[tuple[str, dict[str, Any]]] = [
    ("tags:hr", {"tags": ["hr"]}),
    ("tags:hr and tags:'on call' and tags:hr", {"tags": ["hr", "on call"]}),
    ("year > 2020 and tags:hr", {"tags": ["hr"], "where": YEAR}),
    ("YEAR>2020", {"where": key("metadata.YEAR", "gt", 2020)}),
    ("team in (a, b)", {"where": TEAM}),
    ("team not in (a)", {"where": key("metadata.team", "nin", ["a"])}),
    ("type = manual AND author:ada", {"type": "manual", "author": "ada"}),
    ("type:2024", {"type": "2024"}),
    ("metadata.type:2024", {"metadata": {"type": 2024}}),
    ("部门：人事 and 年份≥2020", {"metadata": {"部门": "人事"}, "where": key("metadata.年份", "gte", 2020)}),
    ("部门 in （人事、财务）", {"where": key("metadata.部门", "in", ["人事", "财务"])}),
    ("标题 = “年度 报告”", {"where": key("metadata.标题", "eq", "年度 报告")}),
    ("a = 1 or b != -2.5 and c <= 1e3", {
        "where": all_of(key("metadata.a", "eq", 1),
                        all_of(key("metadata.b", "ne", -2.5), key("metadata.c", "lte", 1000.0)), kind="or")}),
    ("(a = true or b = 'true') and c < \"2\"", {
        "where": all_of(all_of(key("metadata.a", "eq", True), key("metadata.b", "eq", "true"), kind="or"),
                        key("metadata.c", "lt", "2"))}),
    ("not (type:draft or 部门:人事)", {"where": all_of(all_of(DRAFT, STAFF, kind="or"), kind="not")}),
    ("tags != hr", {"where": all_of(key("tags", "has", "hr"), kind="not")}),
    ("team:* and not author:*", {
        "where": all_of(key("metadata.team", "exists", True), all_of(key("author", "exists", True), kind="not"))}),
    ("published_at >= 2026-01-02", {"start": "2026-01-02T00:00:00Z"}),
    ("published_at = 2026-01-02", {"start": "2026-01-02T00:00:00Z", "end": "2026-01-02T23:59:59.999999Z"}),
    ("published_at <= 2026-01-02T08:30:00+08:00", {"end": "2026-01-02T00:30:00Z"}),
    ("published_at < 2026-01-02", {"where": key("published_at", "lt", "2026-01-02T00:00:00Z")}),
    ("published_at > 2026-01-02", {"where": key("published_at", "gt", "2026-01-02T23:59:59.999999Z")}),
    ("due > 2026-01-02T08:30Z", {"where": key("metadata.due", "gt", "2026-01-02T08:30Z")}),
    (r'name:"say \"hi\" \\ now"', {"metadata": {"name": 'say "hi" \\ now'}}),
    ("x:1 and x:2", {"metadata": {"x": 1}, "where": key("metadata.x", "has", 2)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "filters"), MEANINGS, ids=[text for text, _ in MEANINGS])
def it_says_the_filter_in_json_and_back(text, filters):
    assert parse_filter(text) == filters
    written = write_filter(filters)
    assert written is not None
    assert parse_filter(written) == filters


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "at character 1: expected the name of a field, not, or (, found the end"),
        ("year >", "at character 7: expected a value, found the end"),
        ("year > and tags:hr", "at character 8: expected a value, found and"),
        ("year 2020", "at character 6: expected one of : = != < <= > >= in, found 2020"),
        ("year > 2020 tags:hr", "at character 13: expected and, or, or the end, found tags"),
        ("(a:1 or b:2", "at character 12: expected and, or, or ), found the end"),
        ("a:1)", "at character 4: expected and, or, or the end, found )"),
        ("team in a", "at character 9: expected ( before the values, found a"),
        ("team in (a b)", "at character 12: expected , or ), found b"),
        ("team not a", "at character 10: expected in, found a"),
        ("a:1 and and b:2", "at character 9: expected the name of a field, not, or (, found and"),
        ("部门：“人事", "at character 4: expected a closing quote, found “人事"),
        ("a & b", "at character 3: expected one of : = != < <= > >= in, found &"),
        ("a ! b", "at character 3: expected a name, a value or a sign, found ! b"),
        ("tags > hr", "at character 6: expected : = or != after tags, found >"),
        (
            "published_at > soon",
            "at character 16: expected a date such as 2026-01-31 or 2026-01-31T08:00:00Z, found soon",
        ),
        (
            "published_at < 9999-12-31",
            "at character 16: expected a date such as 2026-01-31 or 2026-01-31T08:00:00Z, found 9999-12-31",
        ),
        (
            "published_at > 1700000000",
            "at character 16: expected a date such as 2026-01-31 or 2026-01-31T08:00:00Z, found 1700000000",
        ),
        ("published_at != 2026-01-02", "at character 14: expected one of : = < <= > >= after published_at, found !="),
        ("a = " + "9" * 20, "at character 5: expected a number of at most 64 bits, found " + "9" * 20),
        ("(" * 17 + "a:1", "at character 18: is nested more than 16 deep"),
        (" and ".join(["a:1"] * 65), "at character 513: has more than 64 comparisons"),
    ],
)
def it_names_the_position_and_the_expectation(text, error):
    with pytest.raises(ValueError) as refused:
        parse_filter(text)
    assert str(refused.value) == error


TEXTS = some.text(
    some.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=8
) | some.sampled_from(
    [
        "and",
        "or",
        "IN",
        "true",
        "10",
        "-1.5",
        "type",
        "metadata.type",
        "2026-01-02",
        "a b",
        '"',
        "\\",
        "人事",
        "*",
        "（",
    ]
)
SCALARS = TEXTS | some.booleans() | some.integers(-(2**60), 2**60) | some.floats(-1e9, 1e9, allow_subnormal=False)
COMPARISONS = (
    some.builds(
        Comparison, key=TEXTS, operator=some.sampled_from(["eq", "ne", "gt", "gte", "lt", "lte", "has"]), value=SCALARS
    )
    | some.builds(
        Comparison,
        key=TEXTS,
        operator=some.sampled_from(["in", "nin"]),
        value=some.lists(SCALARS, max_size=3).map(tuple),
    )
    | some.builds(Comparison, key=TEXTS, operator=some.just("exists"), value=some.just(True))
    | some.builds(Comparison, key=some.just("type"), operator=some.just("eq"), value=TEXTS, own=some.just(True))
    | some.builds(Comparison, key=some.just("tags"), operator=some.just("has"), value=TEXTS, own=some.just(True))
)
CONDITIONS = some.recursive(
    COMPARISONS,
    lambda inner: (
        some.builds(
            Compound,
            operator=some.sampled_from(["and", "or"]),
            parts=some.lists(inner, min_size=2, max_size=3).map(tuple),
        )
        | some.builds(Compound, operator=some.just("not"), parts=some.tuples(inner))
    ),
    max_leaves=5,
)
FIELDS = [
    DocumentFields(),
    DocumentFields(type="type", tags=("人事", "a b"), metadata={"and": "true", "type": 10, "a b": ["10", True, -1.5]}),
    DocumentFields(type="true", tags=("*",), metadata={"metadata.type": True, "type": "10", "人事": "2026-01-02"}),
]


@given(CONDITIONS)
def it_says_every_condition(condition: Condition):
    text = write_filter({"where": condition_as_json(condition)})
    assert text is not None
    parsed = parse_filter(text)
    where = parsed.get("where")
    filters = Filters(
        type=parsed.get("type"),
        author=parsed.get("author"),
        tags=tuple(parsed.get("tags", ())),
        metadata=parsed.get("metadata", {}),
        where=None if where is None else to_condition(where),
    )
    written = write_filter(parsed)
    assert written is not None
    assert parse_filter(written) == parsed
    for fields in FIELDS:
        assert unmet(filters, fields) is unmet(Filters(where=condition), fields) or (
            unmet(filters, fields) is not None and unmet(Filters(where=condition), fields) is not None
        )


def it_leaves_what_no_expression_says_as_json():
    assert write_filter({"metadata": {"size": {"width": 3}}}) is None
    assert write_filter({}) == ""
