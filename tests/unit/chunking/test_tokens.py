"""The token estimate: what it counts, and that parts and wholes agree."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking.tokens import TokenMap, count_tokens, token_starts

texts = st.text(alphabet=st.characters(codec="utf-8") | st.sampled_from("ab 12.,维生素。\n"), max_size=60)


class DescribeCountTokens:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("", 0),
            (" \n\t\u200b", 0),
            ("cat", 1),
            ("the cat sat", 3),
            ("internationalisation", 3),
            ("2024", 2),
            ("3.14", 3),
            ("...", 1),
            ("维生素缺乏。", 6),
            ("ビタミン", 4),
            ("비타민", 3),
            ("维生素B12", 5),
            ("naïve", 3),
            ("привет", 2),
            ("😀😀", 2),
            ("\U00020000", 1),
            ("\ud800", 1),
        ],
    )
    def it_counts_by_kind_of_character(self, text, tokens):
        assert count_tokens(text) == tokens

    def it_counts_about_four_tokens_for_three_english_words(self):
        text = "The boundary layer separates where the pressure gradient along the wall becomes adverse. " * 20
        assert 1.1 <= count_tokens(text) / len(text.split()) <= 1.6

    @given(texts, texts)
    def it_never_counts_a_whole_higher_than_its_parts(self, first, second):
        assert count_tokens(first + second) <= count_tokens(first) + count_tokens(second)

    @settings(max_examples=30)
    @given(texts, texts, st.sampled_from([" ", "\n", "\n\n"]))
    def it_adds_up_exactly_at_white_space(self, first, second, space):
        assert count_tokens(first + space + second) == count_tokens(first) + count_tokens(second)

    @settings(max_examples=30)
    @given(texts, st.integers(0, 60), st.integers(0, 60))
    def it_never_counts_a_part_higher_than_the_whole(self, text, start, end):
        assert count_tokens(text[start:end]) <= count_tokens(text)


class DescribeTokenMap:
    @given(texts, st.integers(0, 60), st.integers(0, 60))
    def it_counts_parts_exactly_or_one_too_many(self, text, start, end):
        start, end = sorted((min(start, len(text)), min(end, len(text))))
        counted, exact = TokenMap(text).count(start, end), count_tokens(text[start:end])
        assert exact <= counted <= exact + 1
        if start < end and token_starts(text)[start]:
            assert counted == exact

    @settings(max_examples=30)
    @given(texts, st.integers(1, 20))
    def it_reaches_as_far_as_the_limit_allows(self, text, limit):
        starts = token_starts(text)
        start = next((place for place, begins in enumerate(starts) if begins), None)
        if start is None:
            return
        end = TokenMap(text).reach(start, limit)
        assert count_tokens(text[start:end]) <= limit
        assert end == len(text) or count_tokens(text[start : end + 1]) == limit + 1
