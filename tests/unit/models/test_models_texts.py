from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import characters, text

from pipeline.models.prompt_texts import MAX_INPUT_TOKENS, estimated_tokens, sendable


class DescribeSendable:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", "."),
            (" \n\t", "."),
            ("\ud800x", "?x"),
            ("fox", "fox"),
            ("ＲＴＸ４０９０的价格，", "RTX4090的价格，"),
            ("Ｐｕｍｐ　Ｂ１２！", "Pump　B12！"),
        ],
    )
    def it_gives_what_a_model_can_take(self, before: str, after: str):
        assert sendable(before) == after

    @given(text(characters()).map(lambda piece: piece * 400))
    def it_is_never_blank_nor_too_long(self, text: str):
        sent = sendable(text)
        assert sent.strip()
        assert estimated_tokens(sent) <= MAX_INPUT_TOKENS
        sent.encode()

    @pytest.mark.parametrize("text", ["word " * 20_000, "汉" * 20_000, "w" * 30_000 + "汉" * 30_000])
    def it_keeps_nearly_all_that_fits(self, text: str):
        sent = sendable(text)
        assert text.startswith(sent)
        assert estimated_tokens(sent) > 0.9 * MAX_INPUT_TOKENS


class DescribeEstimatedTokens:
    @pytest.mark.parametrize(("text", "tokens"), [("", 1), ("abc", 2), ("汉字汉字汉", 7), ("abc汉字汉字汉", 8)])
    def it_counts_by_kind_of_character(self, text: str, tokens: int):
        assert estimated_tokens(text) == tokens
