"""A text that was cut is put together again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.documents.clean_text import joined
from pipeline.records import Passage


def passage(text: str, start: int, end: int | None = None) -> Passage:
    """A passage; one with an ``end`` was reworded."""
    reworded, end = end is not None, start + len(text) if end is None else end
    return Passage(text=text, start=start, end=end, token_count=1, reworded=reworded)


class DescribeJoining:
    @pytest.mark.parametrize(
        ("passages", "text"),
        [
            ([], ""),
            ([passage("abc", 0), passage("def", 3)], "abcdef"),
            ([passage("def", 3), passage("abc", 0)], "abcdef"),
            ([passage("abc", 0), passage("cde", 2)], "abcde"),
            ([passage("abcdef", 0), passage("cd", 2)], "abcdef"),
            ([passage("abc", 0), passage("def", 4)], "abc def"),
            ([passage("abc", 0), passage("def", 9)], "abc\n\ndef"),
            ([passage("abc", 5)], "abc"),
            ([passage("abc", 0), passage("edited", 2, 5), passage("fg", 5)], "abc\n\neditedfg"),
            ([passage("红狐捕猎", 0), passage("捕鱼白天", 2, 6)], "红狐捕猎\n\n捕鱼白天"),
        ],
    )
    def it_has_each_character_once(self, passages, text):
        assert joined(passages) == text

    @settings(max_examples=30)
    @given(st.data())
    def it_gives_back_any_text_whose_passages_overlap(self, data):
        text = data.draw(st.text(min_size=1, max_size=60))
        cuts = sorted(data.draw(st.sets(st.integers(1, len(text)), max_size=6)) | {len(text)})
        begins = [0, *cuts[:-1]]
        overlaps = [data.draw(st.integers(0, begin)) for begin in begins]
        pieces = [
            passage(text[begin - back : end], begin - back)
            for begin, end, back in zip(begins, cuts, overlaps, strict=True)
        ]
        assert joined(data.draw(st.permutations(pieces))) == text
