"""Token counts: the selectable vocabularies agree with a real encoding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import text
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from pipeline.chunking.tokens import count_tokens
from pipeline.errors import Misconfigured
from pipeline.models.tokenizer import bundled, fewest_tokens, token_counter

COUNT = token_counter("llama-2")
VOCABULARY = Tokenizer.from_file(str(bundled(Path("tokenizers") / "l2_supercat_tokenizer_config.json")))


class DescribeTokenCounter:
    @given(text(max_size=200))
    def it_counts_as_the_vocabulary_does(self, sample: str):
        encoding = VOCABULARY.encode(sample.encode("utf-8", "replace").decode())
        assert COUNT(sample) == len(encoding.ids) - 1  # the mark at its beginning

    @given(text(max_size=80) | text(alphabet="ab \n\t<s>/.'维", max_size=80))
    def it_has_no_fewer_than_it_says_sooner(self, sample: str):
        assert fewest_tokens("llama-2")(sample) <= COUNT(sample)

    def it_says_nothing_sooner_of_what_it_does_not_know(self):
        assert fewest_tokens("estimate")("hello world") == fewest_tokens("some/tokenizer.json")("hello world") == 0

    @pytest.mark.parametrize(("sample", "tokens"), [("", 0), ("hello world", 2), ("路由器", 4)])
    def it_knows_both_scripts(self, sample, tokens):
        assert token_counter("llama-2")(sample) == tokens

    def it_can_estimate(self):
        assert token_counter("estimate") is count_tokens

    def it_reads_the_file_of_a_model(self, tmp_path: Path):
        own = Tokenizer(WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
        own.pre_tokenizer = Whitespace()
        own.enable_truncation(2)
        own.save(str(tmp_path / "tokenizer.json"))
        assert token_counter(str(tmp_path / "tokenizer.json"))("a b c a b") == 5

    def it_names_what_is_no_vocabulary(self, tmp_path: Path):
        (tmp_path / "tokenizer.json").write_text(json.dumps({"no": "tokenizer"}), encoding="utf-8")
        with pytest.raises(Misconfigured, match="CHORDWISE_CONTEXT_TOKENIZER"):
            token_counter(str(tmp_path / "tokenizer.json"))
