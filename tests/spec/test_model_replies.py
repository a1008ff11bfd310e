"""Replies of language models are read in any wrapping."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis.strategies import text

from pipeline.keyword.terms import query_terms
from pipeline.query.model_replies import (
    Rewritten,
    Routed,
    distinct,
    json_in,
    read_passage,
    read_rewrite,
    read_route,
    read_sub_queries,
)

QUERY = "how to reset the router"


def expanded(reply: str, *, query: str = QUERY, most: int = 4) -> tuple[str, ...] | None:
    return read_sub_queries(reply, query_text=query, most=most)


class DescribeSubQueries:
    @pytest.mark.parametrize(
        "reply",
        [
            '["factory settings modem", "恢复出厂设置"]',
            '好的：\n```json\n["factory settings modem", "恢复出厂设置",]\n```\n以上。',
            '{"queries": ["factory settings modem", "恢复出厂设置"]}',
            '[{"query": "factory settings modem", "why": "synonym"}, {"query": "恢复出厂设置"}]',
            '{"1": "factory settings modem", "2": "恢复出厂设置"}',
            '<think>["no", "not this"]</think>["factory settings modem", "恢复出厂设置"]',
            "1. factory settings modem\n2. 恢复出厂设置",
            "- factory settings modem\n- 恢复出厂设置\n",
            '["factory settings modem", "恢复出厂设置", "cut o',
            '["  factory\\u0000 settings\\nmodem ", "恢复出厂设置 [phone]"]',
        ],
    )
    def it_reads_what_models_write(self, reply):
        assert expanded(reply) == ("factory settings modem", "恢复出厂设置")

    @pytest.mark.parametrize("reply", ["", "null", "5", "{}", "I am sorry, I cannot do that.", "[1, 2, null]", "[[[["])
    def it_finds_none_in(self, reply):
        assert expanded(reply) is None

    def it_takes_no_other_words_for_an_answer(self):
        assert expanded("[]") == ()

    @pytest.mark.parametrize(
        ("query", "written", "kept"),
        [
            (QUERY, ["How to reset the routers?", "RESET router", "restart modem"], ["restart modem"]),
            (QUERY, ["restart the modem", "modem restart!", "reboot modem"], ["restart the modem", "reboot modem"]),
            ("如何重置路由器", ["重置路由器", "路由器恢复出厂设置", "路由器恢复出厂设置？"], ["路由器恢复出厂设置"]),
            ("如何重置路由器", ["怎么把路由器重启", "🙂", "", "？"], ["怎么把路由器重启"]),
        ],
    )
    def it_keeps_only_what_means_something_else(self, query, written, kept):
        assert expanded(json.dumps(written), query=query) == tuple(kept)

    def it_keeps_to_its_bounds(self):
        reply = json.dumps([f"subject {number} " + "word " * 500 for number in range(40)])
        found = distinct([f"subject{number} alone" for number in range(40)], query_text=QUERY)
        assert len(found) == 40
        assert all(len(each) <= 200 for each in expanded(reply) or ())
        assert len(expanded(json.dumps([f"a{n} b{n}" for n in range(40)])) or ()) == 4

    @pytest.mark.parametrize(
        "reply", ["[" * 20_000, '{"a":' * 4_000, '["' * 10_000, '"\\ud800"', '["\\ud800 lone", "two"]']
    )
    def it_survives_hostile_replies_quickly(self, reply):
        started = time.process_time()
        for found in expanded(reply) or ():
            found.encode()
        assert time.process_time() - started < 1.0

    @settings(max_examples=30)
    @given(text(alphabet='{}[]",:01 ab\\\n', max_size=200))
    def it_takes_anything(self, reply):
        json_in(reply)
        read_rewrite(reply)
        read_route(reply)
        read_passage(reply)
        for found in expanded(reply) or ():
            assert query_terms(found)


class DescribeARewrite:
    @pytest.mark.parametrize(
        ("reply", "rewritten"),
        [
            (
                '{"expanded_query": "恢复出厂设置", "keywords": ["路由器", "重置", "重置"], "entity_mentions": ["Archer"]}',
                Rewritten(expanded_query="恢复出厂设置", keywords=("路由器", "重置"), entity_mentions=("Archer",)),
            ),
            ('{"expanded_query": null, "keywords": "a1, b2；c3"}', Rewritten(keywords=("a1", "b2", "c3"))),
            (
                '{"query": "x y", "entities": ["Z"], "keywords": [1]}',
                Rewritten(expanded_query="x y", entity_mentions=("Z",)),
            ),
            ('{"expanded_query": "", "keywords": [], "entity_mentions": []}', None),
            ('["a", "b"]', None),
            ("nothing", None),
        ],
    )
    def it_reads(self, reply, rewritten):
        assert read_rewrite(reply) == rewritten

    def it_keeps_to_its_bounds(self):
        reply = json.dumps({"expanded_query": "x" * 9000, "keywords": [f"k{n}" for n in range(99)] + ["y" * 500]})
        found = read_rewrite(reply)
        assert len(found.expanded_query) <= 1000
        assert len(found.keywords) == 12


class DescribeARoute:
    @pytest.mark.parametrize(
        ("reply", "routed"),
        [
            ('{"route": "full_text", "rerank": false}', Routed(method="full_text", rerank=False)),
            ('{"route": "None"}', Routed(method=None)),
            ('"semantic"', Routed(method="semantic")),
            ('```{"route": "full-text",}```', Routed(method="full_text")),
            ('{"route": "sparse", "rerank": "no"}', Routed(method="full_text")),
            ('{"route": "everywhere"}', None),
            ('{"route": 7}', None),
            ("hybrid", None),
        ],
    )
    def it_reads(self, reply, routed):
        assert read_route(reply) == routed


class DescribeAPassage:
    @pytest.mark.parametrize(
        ("reply", "passage"),
        [
            ('{"passage": "长按复位键十秒。"}', "长按复位键十秒。"),
            ('"Hold the button."', "Hold the button."),
            ("I cannot help with that.", None),
            ('{"passage": ""}', None),
            ('{"passage": "[phone]"}', None),
        ],
    )
    def it_reads(self, reply, passage):
        assert read_passage(reply) == passage
