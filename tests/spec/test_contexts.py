"""Contexts as a reader of stories, of examples and of manuals gets them; and the laws that hold for any of them."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordwise.contract.answer import AnswerChunk
from pipeline.chunking.tokens import count_tokens
from pipeline.models.tokenizer import token_counter
from pipeline.query.plan import ContextOptions
from pipeline.ranking.hits import Hydrated
from pipeline.retrieval.build_context import ContextPassage, answer_context, join_passages, story_line
from tests.support.corpora.hits import answer_chunk as chunk


def hydrated(found: AnswerChunk, **fields) -> Hydrated:
    return Hydrated(
        chunk_id=found.chunk_id,
        document_id=found.document_id,
        namespace=found.namespace,
        title=found.title,
        text=found.text,
        metadata=found.metadata,
        **fields,
    )


def read(*pairs, widened=None, count=count_tokens, **options):
    passages = [hydrated(found, **fields) for found, fields in pairs]
    return answer_context(passages, ContextOptions(**options), widened=widened, count=count)


def joined(offered, *, style="markdown", count=count_tokens, fewest=lambda _: 0, **options):
    return join_passages(offered, ContextOptions(format=style, **options), count=count, fewest=fewest)


class DescribeStoryLines:
    @pytest.mark.parametrize(
        ("chapter", "story_time", "title", "line"),
        [
            ("3", 1200, None, "[来源：第3章，故事时间：1200]"),
            ("十二", -5, None, "[来源：第十二章，故事时间：-5]"),
            ("c7", 0, None, "[来源：第c7章，故事时间：0]"),
            ("第三章 风起", 1200, None, "[来源：第三章 风起，故事时间：1200]"),
            ("Chapter 3", 1200, None, "[来源：Chapter 3，故事时间：1200]"),
            ("序章", None, None, "[来源：序章]"),
            ("3", None, "北城", "[来源：第3章]"),
            (None, 1200, "北城\n纪事", "[来源：北城 纪事，故事时间：1200]"),
            (None, 1200, None, "[来源：故事时间：1200]"),
            ("  ", None, None, ""),
            (None, None, None, ""),
        ],
    )
    def it_says_what_is_known(self, chapter, story_time, title, line):
        assert story_line(chapter, story_time, title=title) == line


class DescribeStoryContext:
    def it_has_the_line_above_each_passage_and_a_rule_between(self):
        context = read(
            (chunk("a", "林远进城。"), {"chapter_id": "3", "story_time": 1200}),
            (chunk("b", "The gate was shut.", document_id="e"), {"chapter_id": "4", "story_time": 1300}),
            header="story",
            format="text",
        )
        assert context.text == (
            "[来源：第3章，故事时间：1200]\n林远进城。\n\n---\n\n[来源：第4章，故事时间：1300]\nThe gate was shut."
        )
        assert context.token_count == count_tokens(context.text)
        assert [cited.marker for cited in context.citations] == ["[1]", "[2]"]

    def it_counts_headers_and_separators(self):
        pairs = [(chunk(n, "城" * 10, document_id=n), {"chapter_id": "3", "story_time": 1}) for n in "ab"]
        one = read(pairs[0], header="story").token_count
        both = 2 * one + count_tokens("---")
        assert read(*pairs, header="story", max_tokens=both).token_count == both
        assert read(*pairs, header="story", max_tokens=both - 1).token_count == one

    @pytest.mark.parametrize(("over_budget", "cited"), [("skip", ["a", "c"]), ("stop", ["a"])])
    def it_skips_or_stops_at_what_does_not_fit(self, over_budget, cited):
        pairs = [(chunk(n, text, document_id=n), {}) for n, text in (("a", "短"), ("b", "长" * 90), ("c", "短"))]
        context = read(*pairs, header="none", max_tokens=20, over_budget=over_budget)
        assert [each.chunk_id for each in context.citations] == cited

    def it_is_empty_for_no_passages(self):
        context = read(header="story")
        assert (context.text, context.token_count, context.citations, context.entities) == ("", 0, (), ())


class DescribeDialogue:
    @pytest.mark.parametrize(
        ("text", "metadata", "chunk_type", "said"),
        [
            ("问：怎么办？\n答：先休息。", {}, "qa", "用户：怎么办？\n助手：先休息。"),
            ("Q: Why?\nA: Because.", {}, "qa", "用户：Why?\n助手：Because."),
            (
                "why because",
                {"user_input": "Why?", "agent_response": "Because."},
                "parent",
                "用户：Why?\n助手：Because.",
            ),
            ("why because", {"question": "Why?", "answer": "Because."}, None, "用户：Why?\n助手：Because."),
            ("问：怎么办？\n答：先休息。", {}, "parent", "问：怎么办？\n答：先休息。"),
            ("plain text", {"user_input": "", "agent_response": 5}, "qa", "plain text"),
        ],
    )
    def it_shows_pairs_as_what_was_said(self, text, metadata, chunk_type, said):
        pair = (chunk("a", text, **metadata), {"chunk_type": chunk_type})
        assert read(pair, header="none", passages="dialogue").text == said
        assert read(pair, header="none").text == text

    def it_takes_the_pair_of_the_parent_for_a_part_of_it(self):
        pair = (chunk("a", "…second half of the answer.", title="t"), {"chunk_type": "qa"})
        whole = {"a": "Q: Why?\nA: First half, second half of the answer."}
        said = read(pair, header="none", passages="dialogue", widened=whole).text
        assert said == "用户：Why?\n助手：First half, second half of the answer."

    def it_says_a_pair_once_however_many_of_its_parts_were_found(self):
        example = {"user_input": "Why?", "agent_response": "Because."}
        pairs = [(chunk(name, f"part {name}", **example), {}) for name in "ab"]
        assert len(read(*pairs, passages="dialogue").citations) == 1


class DescribeWhatIsReadWithAHit:
    def it_falls_back_to_the_hit_where_more_does_not_fit(self):
        pairs = [(chunk(name, f"hit {name}", document_id=name), {}) for name in "abc"]
        more = {name: f"hit {name} " + "word " * 20 for name in "abc"}
        context = read(*pairs, widened=more, header="none", format="text", max_tokens=46)
        assert context.text.split("\n\n") == [more["a"].strip(), "hit b", "hit c"] or context.token_count <= 46
        assert [each.chunk_id for each in context.citations] == ["a", "b", "c"]

    def it_repeats_a_sibling_only_if_the_parent_was_left_out(self):
        parent = "one two three. " * 3 + "child a child b"
        pairs = [(chunk("a", "child a"), {}), (chunk("b", "child b"), {})]
        read_together = read(*pairs, widened={"a": parent, "b": parent}, max_tokens=200)
        assert [each.chunk_id for each in read_together.citations] == ["a"]
        apart = read(*pairs, widened={"a": parent, "b": parent}, max_tokens=30)
        assert [each.chunk_id for each in apart.citations] == ["a", "b"]

    def it_cites_where_the_hit_stands(self):
        place = {"page": 7, "start": 10, "end": 17, "source_uri": "https://example.com/a.pdf"}
        (citation,) = read((chunk("a", "child a", title="Guide"), place)).citations
        assert asdict(citation) == {
            "marker": "[1]", "chunk_id": "a", "document_id": "d", "namespace": "n", "title": "Guide", **place,
            "page_start": 7, "page_end": 7, "edited": False,
        }  # fmt: skip


_words = st.text(alphabet="ab .维章\n[]#-é🙂", max_size=60)
_passages = st.lists(
    st.builds(
        ContextPassage,
        hit=st.builds(
            Hydrated,
            chunk_id=st.text("xyz", min_size=1, max_size=3),
            namespace=st.just(""),
            document_id=st.sampled_from(["", "d", "e"]),
            title=st.none() | _words,
            text=st.just(""),
            heading_path=st.lists(_words, max_size=2).map(tuple),
            chapter_id=st.none() | _words,
            story_time=st.none() | st.integers(-9, 9),
            metadata=st.just({}),
        ),
        text=_words,
        own_text=st.none() | _words,
    ),
    max_size=8,
)
_counters = st.sampled_from([count_tokens, token_counter("llama-2"), len])


class DescribeLaws:
    @settings(max_examples=30)
    @given(
        offered=_passages,
        budget=st.integers(0, 150),
        style=st.sampled_from(["markdown", "text"]),
        header=st.sampled_from(["title", "story", "none"]),
        over_budget=st.sampled_from(["skip", "stop"]),
        count=_counters,
    )
    def it_never_overspends_and_counts_exactly(self, offered, budget, style, header, over_budget, count):
        context = joined(offered, max_tokens=budget, style=style, header=header, over_budget=over_budget, count=count)
        assert context.token_count == count(context.text) <= budget
        assert [cited.marker for cited in context.citations] == [f"[{n + 1}]" for n in range(len(context.citations))]
        assert bool(context.text) == bool(context.citations)

    @settings(max_examples=30)
    @given(offered=_passages, header=st.sampled_from(["title", "story", "none"]), count=_counters)
    def it_says_the_same_within_what_it_took(self, offered, header, count):
        roomy = joined(offered, max_tokens=100_000, header=header, count=count)
        again = joined(offered, max_tokens=roomy.token_count, header=header, count=count)
        assert again == roomy

    @settings(max_examples=30)
    @given(offered=_passages, header=st.sampled_from(["title", "story", "none"]))
    def it_says_everything_when_there_is_room(self, offered, header):
        context = joined(offered, max_tokens=100_000, header=header)
        assert all(passage.text.strip() in context.text or passage.hit.document_id for passage in offered)
        assert all((passage.own_text or passage.text).strip() in context.text or passage.text for passage in offered)
