"""Hits read from answers of a business API, well-formed or not."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.api_sources.api_answer import passages_of
from pipeline.api_sources.api_request import filled
from pipeline.api_sources.api_source import (
    MISSING,
    ApiMapping,
    ApiSource,
    header_value,
    is_pointer,
    read_source,
    resolve,
    source_as_json,
)
from pipeline.errors import ApiSourceFailed
from pipeline.records import Comparison, Filters, TenantId

MAPPING = {
    "items": "/hits",
    "id": "/id",
    "title": "/title",
    "text": "/text",
    "score": "/score",
    "url": "/url",
    "published_at": "/at",
    "author": "/who",
    "type": "/type",
    "tags": "/tags",
    "metadata": {"price": "/price", "deep": "/deep"},
}
VALUES = {"query": "{top_k} tea", "top_k": 3, "namespaces": ["a", "b"], "filters": {"type": "x"}}


def source(**changes) -> ApiSource:
    return ApiSource(
        **{"url": "https://crm.example/", "mapping": ApiMapping(**{**MAPPING, **changes.pop("mapping", {})}), **changes}
    )


def read(answer, *, tenant="t", name="crm", filters=None, **changes):
    raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return passages_of(
        raw, source(**changes), name=name, tenant_id=TenantId(tenant), namespace="kb", filters=filters or Filters()
    )


def hits(*items, **changes):
    return read({"hits": list(items)}, **changes)


class DescribePointers:
    @pytest.mark.parametrize(
        ("pointer", "found"),
        [
            ("", {"a": [1, {"b/c": 2, "d~e": 3}], "": 4}),
            ("/a/0", 1),
            ("/a/1/b~1c", 2),
            ("/a/1/d~0e", 3),
            ("/", 4),
            ("/a/2", MISSING),
            ("/a/-1", MISSING),
            ("/a/00", MISSING),
            ("/a/0/x", MISSING),
            ("/x", MISSING),
        ],
    )
    def it_leads_to_one_value(self, pointer, found):
        assert resolve({"a": [1, {"b/c": 2, "d~e": 3}], "": 4}, pointer) == found

    @pytest.mark.parametrize(
        ("text", "valid"), [("", True), ("/a/b", True), ("a", False), ("/~", False), ("/~2", False)]
    )
    def it_has_a_form(self, text, valid):
        assert is_pointer(text) is valid


class DescribeTemplates:
    @pytest.mark.parametrize(
        ("template", "found"),
        [
            ("{query}", "{top_k} tea"),
            ("{top_k}", 3),
            ("{namespaces}", ["a", "b"]),
            ("{filters}", {"type": "x"}),
            ("q={query}&n={top_k}", "q={top_k} tea&n=3"),
            ("{namespaces}!", "a,b!"),
            ("f:{filters}", 'f:{"type":"x"}'),
            ("{ search { id } } {other}", "{ search { id } } {other}"),
            ({"{query}": ["{top_k}", 1, None, True]}, {"{query}": [3, 1, None, True]}),
        ],
    )
    def it_fills_placeholders_once(self, template, found):
        assert filled(template, VALUES) == found


class DescribeAnAnswer:
    def it_becomes_passages(self):
        found = hits(
            {
                "id": 7,
                "title": "Tea",
                "text": " Green\x00 tea ",
                "score": 0.5,
                "url": "https://shop.example/7",
                "at": "2026-05-01T08:00:00+08:00",
                "who": "Li",
                "type": "offer",
                "tags": ["a", "a", 3],
                "price": 9.5,
                "deep": {"x": 1},
            }
        )
        ((passage, score),) = found.found
        assert (passage.document_id, passage.title, passage.text, score) == ("7", "Tea", "Green tea", 0.5)
        assert passage.namespace == "kb"
        assert passage.published_at == datetime(2026, 5, 1, tzinfo=UTC)
        assert passage.metadata == {
            "price": 9.5,
            "type": "offer",
            "author": "Li",
            "tags": ["a"],
            "published_at": passage.published_at,
            "source_uri": "https://shop.example/7",
            "api_source": "crm",
        }

    def it_gives_ids_that_repeat_and_are_the_tenants_own(self):
        one = {"id": "7", "text": "x"}
        ids = {hits(one, **who).found[0][0].chunk_id for who in ({}, {"tenant": "u"}, {"name": "shop"}, {})}
        assert len(ids) == 3

    def it_orders_by_score_then_by_id(self):
        found = hits(*({"id": str(n), "text": "x", "score": n % 2} for n in range(6))).found
        assert [score for _, score in found] == [1, 1, 1, 0, 0, 0]
        ids = [passage.chunk_id for passage, _ in found]
        assert ids[:3] == sorted(ids[:3])

    @pytest.mark.parametrize(
        ("score", "found"),
        [
            (5, 0.5),
            (-3, 0.0),
            (99, 1.0),
            ("2.5", 0.25),
            (True, 0.5),
            ("high", 0.5),
            (None, 0.5),
            ("nan", 0.5),
            ("1e999", 0.5),
        ],
    )
    def it_brings_scores_to_one_range_and_counts_places_without(self, score, found):
        ((_, got),) = hits({"id": "1", "text": "x", "score": score}, mapping={"score_range": (0.0, 10.0)}).found
        assert got == found

    def it_ranks_by_place_where_no_score_is_mapped(self):
        found = hits(*({"id": str(n), "text": "x"} for n in range(3)), mapping={"score": None}).found
        assert [(passage.document_id, round(score, 3)) for passage, score in found] == [
            ("0", 0.5),
            ("1", 0.333),
            ("2", 0.25),
        ]

    @pytest.mark.parametrize(
        ("at", "found"),
        [
            (1_777_593_600, datetime(2026, 5, 1, tzinfo=UTC)),
            (1_777_593_600_000, datetime(2026, 5, 1, tzinfo=UTC)),
            ("2026-05-01", datetime(2026, 5, 1, tzinfo=UTC)),
            ("yesterday", None),
            (-1, None),
            (10**300, None),
            ({}, None),
        ],
    )
    def it_reads_moments(self, at, found):
        assert hits({"id": "1", "text": "x", "at": at}).found[0][0].published_at == found

    def it_leaves_out_and_says_why(self):
        items = [
            {"id": 1, "text": "kept", "score": 1},
            {"id": 1, "text": "again", "score": 1},
            {"id": 2, "text": "  ", "score": 1},
            {"id": 3, "text": 5, "score": 1},
            {"id": 4, "text": "weak", "score": 0.1},
            "no object",
            {"id": 5, "text": "late", "score": 1},
        ]
        found = hits(*items, max_items=6, min_score=0.2)
        assert [passage.text for passage, _ in found.found] == ["kept"]
        assert found.left_out == {"beyond_max_items": 1, "same_id": 1, "no_text": 3, "below_min_score": 1}

    def it_bounds_text(self):
        ((passage, _),) = hits(
            {"id": "1", "text": "x" * 9000, "title": "t" * 5000, "price": "p" * 9000}, max_text=100
        ).found
        assert (len(passage.text), len(passage.title), len(passage.metadata["price"])) == (100, 1024, 512)

    def it_takes_no_link_but_to_the_web(self):
        assert "source_uri" not in hits({"id": "1", "text": "x", "url": "javascript:alert(1)"}).found[0][0].metadata

    def it_makes_an_id_where_there_is_none_or_a_long_one(self):
        without, long = (hits(item).found[0][0] for item in ({"text": "x"}, {"id": "i" * 500, "text": "x"}))
        assert 1 <= len(without.document_id) <= 64
        assert long.document_id == long.chunk_id

    @pytest.mark.parametrize(
        ("filters", "fits"),
        [
            (Filters(type="offer"), True),
            (Filters(type="manual"), False),
            (Filters(tags=("a",)), True),
            (Filters(tags=("a", "z")), False),
            (Filters(author="Li"), True),
            (Filters(author="Wu"), False),
            (Filters(start=datetime(2026, 5, 1, tzinfo=UTC)), True),
            (Filters(end=datetime(2026, 4, 1, tzinfo=UTC)), False),
            (Filters(metadata={"price": 9.5}), True),
            (Filters(metadata={"other": 1}), False),
            (Filters(metadata={"labels": "hot"}), True),  # as in the stores, a list meets what is in it
            (Filters(metadata={"labels": "cold"}), False),
            (Filters(metadata={"price": True}), False),
            (Filters(where=Comparison(key="price", operator="gt", value=9)), True),
            (Filters(where=Comparison(key="price", operator="gt", value=10)), False),
            (Filters(story_time=5), True),
        ],
    )
    def it_applies_filters_to_what_items_say_of_themselves(self, filters, fits):
        item = {
            "id": "1",
            "text": "x",
            "type": "offer",
            "tags": ["a", "b"],
            "who": "Li",
            "at": "2026-05-01",
            "price": 9.5,
            "labels": ["hot", "new"],
        }
        mapping = {"metadata": {"price": "/price", "labels": "/labels"}}
        assert bool(hits(item, filters=filters, mapping=mapping).found) is fits
        assert hits(item, filters=filters, mapping=mapping, applies_filters=True).found

    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"<html>",
            b'{"hits": [',
            b"[" * 5000,
            b'{"hits": {"a": 1}}',
            b'{"hits": null}',
            b"{}",
            b"5",
            b'"\xff"',
            b'{"hits": "x"}',
        ],
    )
    def it_refuses_what_has_no_list(self, answer):
        with pytest.raises(ApiSourceFailed):
            read(answer)

    @settings(max_examples=40)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    st.sampled_from(["hits", "id", "text", "score", "at", "tags", "price"]), inner, max_size=5
                )
            ),
            max_leaves=20,
        )
    )
    def it_never_breaks(self, answer):
        try:
            found = read({"hits": answer})
        except ApiSourceFailed:
            return
        for passage, score in found.found:
            assert 0.0 <= score <= 1.0
            assert passage.text
            assert passage.text == passage.text.strip()


class DescribeADescription:
    def it_comes_back_as_it_was(self):
        found = source(
            params={"q": "{query}"}, headers={"X-Key": "crm", "Authorization": None}, body={"a": [1]}, method="POST"
        )
        assert read_source(source_as_json(found)) == found

    @pytest.mark.parametrize(
        "changes",
        [
            {"url": "ftp://x"},
            {"url": "http://user:pw@x/"},
            {"method": "PUT"},
            {"mapping": {"items": ""}},
            {"mapping": {"text": "text"}},
            {"mapping": {"text": "/t", "score_range": [1, 0]}},
            {"headers": {"Host": "crm"}},
            {"headers": {"Content-Length": None}},
            {"headers": {"a b": None}},
            {"headers": {"Proxy-Authorization": None}},
            {"timeout_ms": 2001},
            {"timeout_ms": 99},
            {"max_items": 0},
            {"unknown": 1},
            {"body": {"a": "x" * 20_000}},
        ],
    )
    def it_is_refused(self, changes):
        base = {"url": "https://x/", "mapping": {"text": "/t"}}
        assert read_source(json.dumps(base)).max_items == 20
        with pytest.raises(ValueError, match="validation error"):
            read_source(json.dumps({**base, **changes}))

    @pytest.mark.parametrize("value", ["a\r\nX: 1", "a\x00", "中", "x" * 4097])
    def it_takes_no_value_that_would_break_a_header(self, value):
        with pytest.raises(ValueError, match="Latin-1"):
            header_value(value)
