"""Chunking: examples, and the laws that hold for any text."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking.cut import chunk, embedding_text
from pipeline.chunking.strategies.registry import cut
from pipeline.chunking.tokens import count_tokens
from pipeline.parsing.formats import parse
from pipeline.records import Chunking, Parsed, Passage, Section

markdown = st.lists(
    st.sampled_from(
        [
            "# One\n\n",
            "## Two\n\n",
            "### Three\n\n",
            "Short. ",
            "A sentence of some words, with a clause. ",
            "维生素缺乏会引起疾病。",
            "没有标点的很长一段文字" * 6,
            "word " * 40,
            "\n\n",
            "\n",
            "- item\n",
            "e\u0301" * 30,
            "👩\u200d🔬",
            "3.14 Dr. X ",
        ]
    ),
    min_size=1,
    max_size=25,
).map("".join)
chunkings = st.builds(
    Chunking, max_tokens=st.sampled_from([1, 5, 16, 50, 400]), overlap=st.sampled_from([0, 0.2, 0.3, 0.9])
)


def parsed(text: str) -> Parsed:
    return parse(text.encode(), media_type="text/markdown")


def numbered(count: int) -> str:
    """Sentences of nine tokens each."""
    return " ".join(f"Word word word word word word {number:03}." for number in range(count))


class DescribeChunk:
    def it_puts_paragraphs_together_while_they_fit(self):
        passages = chunk(parsed("\n\n".join([numbered(4)] * 5)), Chunking(max_tokens=80))
        assert [passage.token_count for passage in passages] == [64, 64, 32]
        assert not any(passage.text.startswith("\n") for passage in passages)

    def it_cuts_a_long_paragraph_into_windows_that_repeat_whole_sentences(self):
        passages = chunk(parsed(numbered(100)), Chunking(max_tokens=80, overlap=0.25))
        for before, after in itertools.pairwise(passages):
            repeated = before.end - after.start
            assert before.text.endswith(after.text[:repeated])
            assert after.text.startswith("Word")
            assert 0.2 <= count_tokens(after.text[:repeated]) / 80 <= 0.375
        assert len(passages) > 100 * 8 / 80

    def it_repeats_nothing_without_overlap_or_between_paragraphs(self):
        for text, overlap in ((numbered(100), 0.0), ("\n\n".join([numbered(6)] * 10), 0.3)):
            passages = chunk(parsed(text), Chunking(max_tokens=60, overlap=overlap))
            assert all(one.end <= other.start for one, other in itertools.pairwise(passages))

    def it_starts_a_passage_at_a_heading(self):
        text = f"# Guide\n\n{numbered(20)}\n\n## Setup\n\n{numbered(20)}\n\n## Use\n\n{numbered(20)}"
        passages = chunk(parsed(text), Chunking(max_tokens=300))
        assert [passage.text.split("\n")[0] for passage in passages] == ["Guide", "Setup", "Use"]
        assert [passage.heading_path for passage in passages] == [("Guide",), ("Guide", "Setup"), ("Guide", "Use")]

    def it_merges_tiny_sections_under_one_heading(self):
        text = "# Terms\n\n" + "\n\n".join(f"## Term {n}\n\nIt means {n}." for n in range(6))
        [passage] = chunk(parsed(text), Chunking(max_tokens=400))
        assert passage.heading_path == ("Terms",)

    def it_keeps_tiny_sections_of_different_chapters_apart(self):
        passages = chunk(parsed("# A\n\n## X\n\nOne.\n\n# B\n\n## Y\n\nTwo."), Chunking(max_tokens=40))
        assert [passage.text.split("\n")[0] for passage in passages] == ["A", "B"]

    def it_keeps_a_bare_heading_with_what_follows(self):
        passages = chunk(parsed(f"# Chapter\n\n## Section\n\n{numbered(100)}"), Chunking(max_tokens=100))
        assert passages[0].text.startswith("Chapter\n\nSection\n\nWord")
        assert passages[1].heading_path == ("Chapter", "Section")

    def it_takes_the_page_from_the_section(self):
        sections = (Section(start=0, end=4, page=1), Section(start=4, end=8, heading_path=("H",), page=2))
        passages = chunk(Parsed(text="One.Two.", sections=sections), Chunking(max_tokens=2))
        assert [passage.page for passage in passages] == [1, 2]

    @pytest.mark.parametrize(("first", "second"), [("One page.", "Another."), ("第一页。", "第二页。")])
    def it_keeps_short_pages_apart(self, first, second):
        sections = (
            Section(start=0, end=len(first), page=1),
            Section(start=len(first), end=len(first + second), page=2),
        )
        passages = chunk(Parsed(text=first + second, sections=sections), Chunking())
        assert [(each.text, each.page, each.page_end) for each in passages] == [(first, 1, 1), (second, 2, 2)]

    def it_cites_the_pages_of_a_heading_and_what_follows_it(self):
        text = "Reset\n\nHold the button."
        sections = (
            Section(start=0, end=7, heading_path=("Reset",), page=3),
            Section(start=7, end=len(text), heading_path=("Reset",), page=4),
        )
        (passage,) = chunk(Parsed(text=text, sections=sections), Chunking())
        assert (passage.page, passage.page_end) == (3, 4)

    @pytest.mark.parametrize("strategy", ["qa", "parent_child"])
    def it_cites_both_pages_where_the_notes_of_one_stand_below_the_first_lines_of_the_next(self, strategy):
        pieces = ["Q: How long may the pump run?\nA: Until the seal [1]", " is worn.\n\n", "[1] Made of rubber."]
        ends = [sum(map(len, pieces[: count + 1])) for count in range(3)]
        sections = tuple(
            Section(start=end - len(piece), end=end, heading_path=("Seals",), page=page)
            for piece, end, page in zip(pieces, ends, (1, 2, 1), strict=True)
        )
        found = cut(Parsed(text="".join(pieces), sections=sections), Chunking(strategy=strategy), most=100)
        assert {each.page_end for each in (*found.parents, *found.passages) if "worn" in each.text} == {2}
        assert all(each.page <= each.page_end for each in (*found.parents, *found.passages))

    def it_gives_nothing_for_an_empty_text(self):
        assert chunk(Parsed(text="", sections=()), Chunking()) == []

    @pytest.mark.parametrize(
        "chunking", [Chunking(strategy="magic"), Chunking(max_tokens=0), Chunking(overlap=1.0), Chunking(overlap=-0.1)]
    )
    def it_refuses_what_it_cannot_do(self, chunking):
        with pytest.raises(ValueError):
            chunk(parsed("text"), chunking)

    @settings(max_examples=30)
    @given(markdown.map("Begin. ".__add__), chunkings)
    def it_keeps_its_promises_for_any_text(self, text, chunking):
        document = parsed(text)
        passages = chunk(document, chunking)
        covered = bytearray(len(document.text))
        for passage in passages:
            assert passage.text == document.text[passage.start : passage.end] == passage.text.strip()
            assert passage.token_count == count_tokens(passage.text) <= chunking.max_tokens
            covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
        assert all(inside or character.isspace() for inside, character in zip(covered, document.text, strict=True))
        assert all(one.start < other.start and one.end < other.end for one, other in itertools.pairwise(passages))
        assert chunk(document, chunking) == passages
        for one, other in itertools.pairwise(passages):
            if other.start < one.end:
                assert "\n\n" not in document.text[other.start : one.end]

    @pytest.mark.parametrize(
        "text", ["维生素缺乏引起疾病。" * 50_000, "维生素缺乏引起疾病" * 50_000, "word " * 100_000, "a" * 1_000_000]
    )
    def it_takes_time_in_proportion_to_the_text(self, text):
        started = time.process_time()
        passages = chunk(Parsed(text=text, sections=(Section(start=0, end=len(text)),)), Chunking())
        assert time.process_time() - started < 5
        assert passages[-1].end == len(text.rstrip())


class DescribeEmbeddingText:
    @pytest.mark.parametrize(
        ("title", "path", "text", "expected"),
        [
            ("Guide", ("Setup", "Linux"), "Run it.", "Guide > Setup > Linux\nRun it."),
            ("Guide", ("Guide", "Setup"), "Setup\n\nRun it.", "Guide\nSetup\n\nRun it."),
            (None, ("Setup",), "Run it.", "Setup\nRun it."),
            ("Guide", (), "Run it.", "Guide\nRun it."),
            (None, (), "Run it.", "Run it."),
        ],
    )
    def it_says_where_the_passage_stands(self, title, path, text, expected):
        passage = Passage(text=text, start=0, end=len(text), token_count=1, heading_path=path)
        assert embedding_text(passage, title) == expected
