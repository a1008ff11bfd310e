"""The local model's tokens, word by word, against the tokenizer's own for the whole text."""

from __future__ import annotations

from pathlib import Path

import pytest
import wordllama
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.models.tokenizer import Tokens

LOADED = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
LOADED.tokenizer.no_padding()

PIECES = [
    "the",
    "pump",
    "离心泵",
    "  ",
    " ",
    "\n",
    "\u2581",
    "<s>",
    "</s>",
    "<unk>",
    "e-mail",
    "😀",
    "\x00",
    "ß",
    "Ⅳ",
    "一",
    "\t",
]


class DescribeTokens:
    @given(text=st.one_of(st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
    @settings(max_examples=60)
    @example(text="")
    @example(text=" ")
    @example(text=" two  spaces   three ")
    @example(text="a<s> b</s>c")
    def it_gives_those_of_the_whole_text(self, text):
        tokens = Tokens(LOADED.tokenizer)
        assert tokens.of(text) == LOADED.tokenizer.encode(text, add_special_tokens=False).ids
        assert tokens.count(text) == tokens.count(text) == len(tokens.of(text))

    @pytest.mark.parametrize("text", ["The pump starts. The pump stops.", "离心泵启动前必须灌泵。" * 20])
    def it_gives_the_same_when_words_are_remembered(self, text):
        tokens = Tokens(LOADED.tokenizer)
        assert tokens.of(text) == tokens.of(text) == LOADED.tokenizer.encode(text, add_special_tokens=False).ids

    def it_may_cut_at_chinese_and_line_ends_because_no_token_of_several_characters_holds_them(self):
        vocabulary = LOADED.tokenizer.get_vocab()
        alone = set("\n离心泵，。？")
        assert not [token for token in vocabulary if len(token) > 1 and not alone.isdisjoint(token)]

    def it_may_cut_at_spaces_because_no_token_holds_one_inside(self):
        vocabulary = LOADED.tokenizer.get_vocab()
        assert not [token for token in vocabulary if "\u2581" in token.lstrip("\u2581")]
