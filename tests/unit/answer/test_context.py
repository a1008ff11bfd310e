"""Contexts: what they look like, and that they never overspend."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.chunking.tokens import count_tokens
from pipeline.query.plan import ContextOptions
from pipeline.ranking.hits import Hydrated
from pipeline.retrieval.build_context import ContextPassage, join_passages


def passage(text: str, *, title: str | None = None, path: tuple[str, ...] = (), chunk_id: str = "c") -> ContextPassage:
    hit = Hydrated(
        chunk_id=chunk_id, document_id="", namespace="", title=title, text=text, heading_path=path, metadata={}
    )
    return ContextPassage(hit=hit, text=text)


def joined(offered, *, style="markdown", count=count_tokens, fewest=lambda _: 0, **options):
    return join_passages(offered, ContextOptions(format=style, **options), count=count, fewest=fewest)


words = st.text(alphabet="ab .维\n[]#-", max_size=60)
passages = st.lists(
    st.builds(
        passage,
        words,
        title=st.none() | words,
        path=st.lists(words, max_size=3).map(tuple),
        chunk_id=st.text(max_size=3),
    ),
    max_size=8,
)


class DescribeBuildContext:
    def it_puts_each_passage_under_its_marker_title_and_headings(self):
        context = joined(
            [
                passage("One.", title="Guide", path=("Guide", "Setup"), chunk_id="x"),
                passage("Two.\n", path=("A", "B"), chunk_id="y"),
                passage("Three.", chunk_id="z"),
            ],
            max_tokens=100,
        )
        assert (
            context.text == "### [1] Guide > Setup\n\nOne.\n\n---\n\n### [2] A > B\n\nTwo.\n\n---\n\n### [3]\n\nThree."
        )
        assert [(cited.marker, cited.chunk_id) for cited in context.citations] == [
            ("[1]", "x"),
            ("[2]", "y"),
            ("[3]", "z"),
        ]
        assert context.token_count == count_tokens(context.text)

    def it_can_do_without_markdown(self):
        assert joined([passage("A"), passage("B", title="T")], max_tokens=50, style="text").text == (
            "[1]\n\nA\n\n[2] T\n\nB"
        )

    @pytest.mark.parametrize(("over_budget", "cited"), [("skip", ["a", "c"]), ("stop", ["a"])])
    def it_leaves_out_what_does_not_fit(self, over_budget, cited):
        offered = [
            passage("fits", chunk_id="a"),
            passage("far too long " * 20, chunk_id="b"),
            passage("fits too", chunk_id="c"),
        ]
        context = joined(offered, max_tokens=20, over_budget=over_budget)
        assert [citation.chunk_id for citation in context.citations] == cited
        assert [citation.marker for citation in context.citations] == ["[1]", "[2]"][: len(cited)]

    @pytest.mark.parametrize("offered", [[], [passage(" \n")], [passage("long text here")]])
    def it_may_be_empty(self, offered):
        context = joined(offered, max_tokens=3)
        assert (context.text, context.token_count, context.citations) == ("", 0, ())

    def it_counts_headers_and_separators(self):
        one = joined([passage("word")], max_tokens=100).token_count
        both = [passage("word"), passage("word")]
        separator = count_tokens("---")
        assert joined(both, max_tokens=2 * one + separator - 1).token_count == one
        assert joined(both, max_tokens=2 * one + separator).token_count == 2 * one + separator

    @settings(max_examples=30)
    @given(passages, st.integers(0, 120), st.sampled_from(["skip", "stop"]))
    def it_is_the_same_where_what_cannot_fit_is_told_sooner(self, offered, budget, over_budget):
        def count(text: str) -> int:
            return 2 * len(text.split()) + text.count("\n")

        told = joined(
            offered, max_tokens=budget, over_budget=over_budget, count=count, fewest=lambda text: len(text.split())
        )
        assert told == joined(offered, max_tokens=budget, over_budget=over_budget, count=count)

    @settings(max_examples=30)
    @given(passages, st.integers(0, 120), st.sampled_from(["markdown", "text"]), st.sampled_from(["skip", "stop"]))
    def it_never_overspends_and_counts_exactly(self, offered, budget, style, over_budget):
        context = joined(offered, max_tokens=budget, style=style, over_budget=over_budget)
        assert context.token_count == count_tokens(context.text) <= budget
        assert [cited.marker for cited in context.citations] == [f"[{n + 1}]" for n in range(len(context.citations))]
