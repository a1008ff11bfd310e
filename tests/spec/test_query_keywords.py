"""Keywords of a query, found without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import text

from pipeline.query.keywords import entities_of, keywords_of


class DescribeKeywords:
    @pytest.mark.parametrize(
        ("query", "keywords"),
        [
            ("血压偏高咖啡限量", ["血压", "偏高", "咖啡", "限量"]),
            ("如何重置路由器的密码", ["重置", "路由器", "密码"]),
            ("我想知道糖尿病患者能不能吃西瓜", ["糖尿病", "患者", "西瓜"]),
            ("林远在城门口等候商队", ["林远", "城门口", "等候", "商队"]),
            ("和田玉怎么办理出口", ["和田玉", "办理", "出口"]),
            ("我们应该如何办理退货", ["办理", "退货"]),
            ("早上血压150/95要不要吃阿司匹林", ["早上", "血压", "150", "95", "阿司匹林"]),
            ("為什麼天空是藍色的", ["天空", "藍色"]),
            ("这项研究的目的是什么", ["研究", "目的"]),
            ("苹果公司的总部在哪里？", ["苹果公司", "总部"]),
            ("控制电路板 PPR-9087 的扭矩是多少", ["PPR-9087", "控制", "电路板", "扭矩"]),
            ("How do I install node.js on Windows?", ["node.js", "install", "Windows"]),
            ("what is the boiling-point of water", ["boiling-point", "water"]),
            ("Router router ROUTER", ["Router"]),
            ("the of and", []),
            ("吗？呢", []),
            ("", []),
        ],
    )
    def it_finds(self, query, keywords):
        assert keywords_of(query) == keywords

    @given(text(max_size=500))
    def it_takes_anything_within_its_bounds(self, query):
        found = keywords_of(query)
        assert len(found) <= 10
        assert len({word.casefold() for word in found}) == len(found)
        assert all(0 < len(word) <= 40 for word in found)


class DescribeEntities:
    @pytest.mark.parametrize(
        ("query", "entities"),
        [
            ("《红楼梦》的作者是谁", ["红楼梦"]),
            ("谁说过“知之为知之”", ["知之为知之"]),
            ("電影「臥虎藏龍」的導演", ["臥虎藏龍"]),
            ("What did Albert Einstein say about Max Planck in Berlin?", ["Albert Einstein", "Max Planck", "Berlin"]),
            ("How does the University of Oxford rank", ["University of Oxford"]),
            ("Reset the router", []),
            ("torque of PPR-9087", ["PPR-9087"]),
            ("call getUserName", ["getUserName"]),
            ("如何重置路由器", []),
        ],
    )
    def it_names(self, query, entities):
        assert entities_of(query) == entities
