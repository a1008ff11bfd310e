"""The factor of the semantic channel's weight, by what both searches found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import builds, floats, none, one_of

from pipeline.ranking.query_weights import QueryEvidence, lead_of, semantic_factor
from pipeline.records import ChunkId

share = floats(0, 1)


def evidence(**known: float | None) -> QueryEvidence:
    usual = {"covered": 0.4, "unread": 0.0, "lead": None, "long": 0.0, "beyond_words": 1.0}
    return QueryEvidence(**{**usual, **known})


@pytest.mark.parametrize(
    ("known", "factor"),
    [
        ({}, 1.0),
        ({"covered": 0.0, "unread": 1.0}, 54.6),  # a question in another language
        ({"covered": 0.1, "unread": 0.4}, 5.294),  # numbers and names are in both
        ({"covered": 0.6, "unread": 1.0}, 1.0),  # a passage holds most of the question
        ({"covered": 0.0, "unread": 0.2}, 1.0),
        ({"covered": 0.0, "unread": 1.0, "beyond_words": 0.0}, 1.0),  # the model reads one language
        ({"covered": 0.0, "unread": 1.0, "foreign": 0.0}, 1.0),  # English passages in other words
        ({"covered": 0.3, "unread": 0.6, "foreign": 0.6}, 20.09),  # passages in another language
        ({"lead": 0.2, "long": 1.0}, 1.0),
        ({"lead": 0.01, "long": 1.0}, 0.622),
        ({"lead": 0.9, "long": 1.0}, 1.649),
        ({"lead": 0.9, "long": 0.5}, 1.284),
        ({"lead": 0.9, "long": 0.0}, 1.0),
    ],
)
def it_counts_meaning_more_where_words_cannot_judge(known, factor):
    assert semantic_factor(evidence(**known)) == pytest.approx(factor, rel=1e-3)


@given(
    builds(
        QueryEvidence,
        covered=share,
        unread=share,
        lead=one_of(none(), share),
        long=share,
        beyond_words=share,
        foreign=one_of(none(), share),
    )
)
def it_stays_within_its_bounds(found):
    assert 0.6 < semantic_factor(found) < 666


class DescribeEvidence:
    MEANING = tuple((f"m{place}", 0.9 - place / 100) for place in range(12))

    def of(self, **changed) -> QueryEvidence:
        usual = {"scored": {}, "bound": 10.0, "unspaced": False, "long": 0.0, "beyond_words": 0.5}
        return QueryEvidence.of((2.0, 1.0), self.MEANING, **{**usual, **changed})

    def it_is_the_share_that_the_first_hit_by_words_covers(self):
        assert self.of().covered == pytest.approx(0.2)
        assert self.of(unspaced=True).covered == pytest.approx(0.36)
        assert self.of(bound=None).covered == 0.0

    def it_counts_first_hits_by_meaning_without_a_word_of_the_query(self):
        scored = {ChunkId(f"m{place}"): 0.0 for place in (0, 3, 11)} | {ChunkId("m4"): 0.1}
        assert self.of(scored=scored).unread == pytest.approx(0.2)  # m11 is none of the first ten
        assert self.of().unread == 0.0  # all were found by words, or could not be scored in time

    def it_measures_the_lead_by_the_span_of_the_scores(self):
        assert lead_of((0.9, 0.7, *[0.5] * 10)) == pytest.approx(0.5)
        assert lead_of((0.9, 0.7)) is None
        assert lead_of((0.5,) * 20) is None
