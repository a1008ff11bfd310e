"""Rules for chunks whose text was changed by hand, without any store."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.chunking.cut import chunk
from pipeline.chunking.strategies.registry import complete, cut
from pipeline.documents.clean_text import clean
from pipeline.documents.cut_document import bound_of, position_in, repeats, spliced
from pipeline.parsing.formats import PLAIN, parse
from pipeline.records import Chunking, Passage

_USUAL = {"max_tokens": 400.0, "overlap": 0.2}


def passage(text: str, start: int, end: int | None = None) -> Passage:
    return Passage(text=text, start=start, end=start + len(text) if end is None else end, token_count=0)


class DescribePreparing:
    @example("a\r\x00\na")
    @given(st.text(alphabet="a 狐\n\r\t\u00a0\u3000\u200b\x00。", max_size=40))
    def it_gives_the_text_that_ingestion_would_cut(self, text):
        kept = clean(text)
        assert clean(kept) == kept
        if kept and not kept.isspace():
            parsed = parse(text.replace("\x00", "").encode(), media_type=PLAIN)
            assert kept == parsed.text


class DescribeBounds:
    @pytest.mark.parametrize(
        ("strategy", "options", "of_chunk", "of_parent"),
        [
            ("sentences", {"max_tokens": 32}, ("max_tokens", 32), None),
            ("window", {}, ("max_tokens", 256), None),
            ("parent_child", {"max_tokens": 16, "parent_tokens": 64}, ("max_tokens", 16), ("parent_tokens", 64)),
            ("qa", {}, ("max_tokens", 512), None),
        ],
    )
    def it_names_the_option_that_bounds(self, strategy, options, of_chunk, of_parent):
        chunking = complete(strategy, options, _USUAL)
        assert [bound_of(chunking, is_parent=is_parent) for is_parent in (False, True)] == [of_chunk, of_parent]

    @given(st.text(alphabet="aé 狐狸。.!\n1", max_size=400), st.integers(16, 40))
    def it_lets_every_chunk_that_ingestion_makes_stay_as_it_is(self, text, most):
        chunking = Chunking(max_tokens=most)
        for each in cut(parse(f"x {text}".encode(), media_type=PLAIN), chunking).passages:
            bound = bound_of(chunking, is_parent=False)
            assert bound is not None
            assert each.token_count <= bound[1]


class DescribePositions:
    def it_tells_two_passages_of_one_text_apart(self):
        whole, pieces = "同。异。同。", [passage("同。", 0), passage("异。", 2), passage("同。", 4)]
        assert [position_in(whole, pieces, each) for each in pieces] == [0, 2, 4]

    def it_goes_on_from_what_edits_and_deletions_left(self):
        whole = "A longer one. Same."
        pieces = [passage("A longer one.", 0, 2), passage("Same.", 9)]
        assert position_in(whole, pieces, pieces[1]) == 14

    def it_finds_passages_that_overlap(self):
        pieces = [passage("ab cd", 0), passage("cd ef", 3)]
        assert position_in("ab cd ef", pieces, pieces[1]) == 3

    def it_finds_nothing_where_the_parent_was_reworded(self):
        pieces = [passage("狐", 0), passage("獾", 1)]
        assert position_in("鸟獾", pieces, pieces[0]) == -1
        assert position_in("鸟獾", pieces, pieces[1]) == 1

    @pytest.mark.parametrize(("new", "whole"), [("X.", "A. X. A."), ("", "A. A.")])
    def it_puts_the_new_text_there(self, new, whole):
        assert spliced("A. B. A.", 3, "B.", new) == whole


class DescribeRepetition:
    def it_is_of_words_that_the_edit_took_out(self):
        first, second = chunk(
            parse("狐狸跑。獾挖洞。鸟飞走。鱼游泳。".encode(), media_type=PLAIN), Chunking(max_tokens=12, overlap=0.4)
        )[:2]
        assert second.start < first.end
        assert repeats(second, first, "全新的。")
        assert not repeats(second, first, first.text + "新。")
        assert not repeats(passage("别的", 90), first, "全新的。")
