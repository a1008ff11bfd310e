from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.strategies import lists, sampled_from

from pipeline.models.rerank_local import Reading, evidence, identifiers

terms = lists(sampled_from("abcdefgh"), max_size=12)


def reading(text: str) -> Reading:
    return Reading(terms=text.split(), text=text)


def ranked(query: str, *texts: str) -> list[str]:
    scores = evidence(reading(query), [reading(text) for text in texts])
    return [text for _, text in sorted(zip(scores, texts, strict=True), key=lambda pair: -pair[0])]


class DescribeEvidence:
    @pytest.mark.parametrize(
        ("query", "best", "worse"),
        [
            ("red fox", "a red fox", "a red car"),  # more of the query
            ("red fox", "red fox x x x", "red x x x fox"),  # nearer together
            ("red fox", "x red fox x", "x fox red x"),  # in the query's order
            ("pump ppr-9087", "x ppr-9087 pump", "x ppr-9087-b pump ppr-90870"),  # the very identifier
        ],
    )
    def it_prefers(self, query: str, best: str, worse: str):
        assert ranked(query, worse, best) == [best, worse]

    def it_counts_a_rare_term_for_more(self):
        texts = ["common x", "rare x", "common y", "common z"]
        assert ranked("common rare", *texts)[0] == "rare x"

    def it_gives_1_to_a_repetition_and_0_to_a_stranger(self):
        assert evidence(reading("red fox e12"), [reading("red fox e12"), reading("blue")]) == [pytest.approx(1.0), 0.0]

    def it_gives_equal_scores_to_equal_texts(self):
        first, second, _ = evidence(reading("red fox"), [reading("red x"), reading("red x"), reading("fox")])
        assert first == second

    def it_has_nothing_to_say_about_an_empty_query(self):
        assert evidence(reading(""), [reading("red"), reading("")]) == [0.0, 0.0]

    @settings(max_examples=30)
    @given(query=terms, texts=lists(terms, max_size=6))
    def it_stays_between_0_and_1_and_does_not_depend_on_order(self, query: list[str], texts: list[list[str]]):
        asked = Reading(terms=query, text=" ".join(query))
        readings = [Reading(terms=text, text=" ".join(text)) for text in texts]
        scores = evidence(asked, readings)
        assert all(0.0 <= score <= 1.0 for score in scores)
        assert evidence(asked, readings[::-1]) == pytest.approx(scores[::-1])

    @settings(max_examples=30)
    @given(query=lists(sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True), text=terms)
    def it_never_prefers_a_text_to_the_query_itself(self, query: list[str], text: list[str]):
        asked = Reading(terms=query, text=" ".join(query))
        other, itself = evidence(asked, [Reading(terms=text, text=" ".join(text)), asked])
        assert itself == pytest.approx(1.0)
        assert other <= itself


class DescribeIdentifiers:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("valve PPR-9087, see node.js", {"ppr-9087", "node.js"}),
            ("错误E1234的处理", {"e1234"}),
            ("in 2024 we sold 12 of 100", {"2024", "100"}),
            ("state-of-the-art, e.g. this one", set()),
            ("HTTP/2 and a_b_c", {"http/2", "a_b_c"}),
            ("", set()),
        ],
    )
    def it_finds(self, text: str, found: set[str]):
        assert identifiers(text) == found
