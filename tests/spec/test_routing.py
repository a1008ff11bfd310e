"""Which queries are searched where, by their form alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.strategies import text

from pipeline.query.routing import codes_in, route

NOWHERE = ["hi", "Hello there!", "good morning", "thanks a lot", "how are you doing today?", "who are you?", "OK, bye!"]
NOWHERE += [
    "你好",
    "您好，在吗？",
    "谢谢你啊",
    "謝謝！",
    "再见",
    "你是谁？",
    "你好，你能做什么？",
    "哈哈哈",
    "🙂",
    "?!",
    "……",
]

BY_WORDS = ["PPR-9087", "E1234", "0x80070005", "192.168.0.1", "v1.2.3", "getUserName", "MAX_RETRY_COUNT", "13812345678"]
BY_WORDS += ["PPR-9087 torque", "错误码 E1234", "error E1234", '"to be or not to be"', "“知之为知之”", "《红楼梦》"]

BY_BOTH = [
    "How do I install node.js on Windows 10?",
    "如何重置路由器的密码",
    "what causes high blood pressure in adults",
]
BY_BOTH += ["《红楼梦》的作者是谁", "E1234 是什么意思？", "糖尿病患者能不能吃西瓜，要注意些什么"]

BY_MEANING = ["passages like the one about the storm", "有没有类似的病例", "相近的说法"]

GUESSES = ["router reset", "重置密码", "hello world program in C", "ok google", "good morning vietnam", "2023", "3 GB"]
GUESSES += ["thanks to vaccines", "你好世界程序", "and/or"]


class DescribeRouting:
    @pytest.mark.parametrize("query", NOWHERE)
    def it_searches_nowhere_when_nothing_is_asked(self, query):
        found = route(query)
        assert found.method is None
        assert found.is_sure
        assert found.reason in {"small talk", "no words"}

    @pytest.mark.parametrize("query", BY_WORDS)
    def it_looks_for_the_very_words_of_codes_and_quotations(self, query):
        found = route(query)
        assert found.method == "full_text"
        assert found.is_sure

    @pytest.mark.parametrize(
        "query", ["ошибка E1234 при запуске сервера", "서버를 시작할 때 오류 E1234", "E1234 Ошибка сервера базы"]
    )
    def it_counts_the_words_of_every_script_beside_a_code(self, query):
        assert route(query).method == "hybrid"

    def it_still_knows_a_code_beside_a_word_of_another_script(self):
        assert route("ошибка E1234").method == route("エラー E1234").method == "full_text"

    @pytest.mark.parametrize("query", BY_BOTH)
    def it_searches_long_questions_by_words_and_meaning(self, query):
        found = route(query)
        assert (found.method, found.is_sure, found.rerank) == ("hybrid", True, True)

    @pytest.mark.parametrize("query", BY_MEANING)
    def it_searches_by_meaning_for_what_is_alike(self, query):
        found = route(query)
        assert (found.method, found.is_sure) == ("semantic", True)

    @pytest.mark.parametrize("query", GUESSES)
    def it_is_not_sure_of_a_few_words(self, query):
        found = route(query)
        assert (found.method, found.is_sure) == ("hybrid", False)

    @pytest.mark.parametrize(
        ("query", "rerank"), [("PPR-9087", False), ("E1234 torque", True), ("how to reset it", True)]
    )
    def it_leaves_reranking_out_where_reading_cannot_help(self, query, rerank):
        assert route(query).rerank is rerank

    @settings(max_examples=30)
    @given(text(max_size=300))
    def it_takes_anything_and_gives_the_same_each_time(self, query):
        found = route(query)
        assert found == route(query)
        assert 0.0 <= found.certainty <= 1.0


class DescribeCodes:
    @pytest.mark.parametrize(
        ("text", "codes"),
        [
            ("replace PPR-9087, then PPR-9087 again", ["PPR-9087"]),
            ("型号ABC123的说明", ["ABC123"]),
            ("see keyword.terms and os/path/join", ["keyword.terms", "os/path/join"]),
            ("10.0.0.1:8080", ["10.0.0.1:8080"]),
            ("2024-05-06", ["2024-05-06"]),
            ("10kg in 5 ms on the 3rd", []),
            ("e.g. and/or well-known", []),
        ],
    )
    def it_finds_identifiers_and_nothing_else(self, text, codes):
        assert codes_in(text) == codes
