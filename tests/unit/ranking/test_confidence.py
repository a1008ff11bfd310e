"""Confidence from the evidence of the channels: which hits look relevant, and which questions look unanswerable."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, sampled_from, tuples

from chordwise.contract.answer import EVEN, sureness
from pipeline.distances import MEASURES
from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import LOCAL_MODELS, calibrations_of
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.query.request import Envelope
from pipeline.ranking.confidence import Confidences
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import cosine_of
from pipeline.records import ChannelName, ChunkId

KEYWORD, SEMANTIC, FAQ = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ
ENGLISH, CHINESE = "how does a wing stall", "机翼为什么会失速"
unit = floats(0, 1)


def envelopes(
    *, background: float = 0.0, words: tuple[float, ...] = (1.0,), trust: float = 1.0
) -> dict[ChannelName, Envelope]:
    """The results of three channels. ``words``: the scores of the keyword channel; one alone has the widest spread."""
    names = tuple(f"w{place}" for place in range(len(words)))
    return {
        KEYWORD: Envelope(channel=KEYWORD, status="ok", upper_bound=1.0, chunk_ids=names, scores=words),
        SEMANTIC: Envelope(
            channel=SEMANTIC, status="ok", upper_bound=1.0, zero=0.0, background=background, trust=trust
        ),
        FAQ: Envelope(channel=FAQ, status="ok", upper_bound=1.0),
    }


def hit(name: str, rank: int | None = 1, **scores: float) -> Fused:
    parts = tuple(Contribution(ChannelName(channel), rank, score, None, 0.0) for channel, score in scores.items())
    return Fused(chunk_id=ChunkId(name), score=1.0, contributions=parts)


def confidence(query: str, fused: Fused, **known: object) -> float | None:
    return Confidences(query, [fused], envelopes(**known))[fused.chunk_id]  # type: ignore[arg-type]


class DescribeConfidences:
    @pytest.mark.parametrize(("query", "background"), [(ENGLISH, 0.05), (CHINESE, 0.5)])
    def it_tells_an_answer_from_an_unrelated_text(self, query, background):
        assert confidence(query, hit("a", keyword=0.5, semantic=0.8), background=background) > 0.6
        assert confidence(query, hit("a", keyword=0.05, semantic=background + 0.1), background=background) < 0.25
        assert confidence(query, hit("a", semantic=background), background=background) < 0.1
        assert confidence(query, hit("a", keyword=0.0, semantic=0.3), background=0.25) < 0.05

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @pytest.mark.parametrize("held", [0.4, 0.2])
    def it_is_no_number_where_ten_passages_hold_the_words_alike(self, query, held):
        alike = tuple(held * (1 - place / 100) for place in range(10))
        assert confidence(query, hit("a", keyword=held, semantic=0.6), words=alike) is None
        assert confidence(query, hit("a", keyword=held, semantic=0.6, faq=0.9), words=alike) == 0.9
        assert confidence(query, hit("a", keyword=held, semantic=0.6), words=alike[:9]) >= 0.4

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    def it_is_low_where_no_passage_holds_much_of_the_query(self, query):
        alike = tuple(0.05 * (1 - place / 100) for place in range(10))
        assert confidence(query, hit("a", keyword=0.05, semantic=0.6), words=alike) < 0.1

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @given(held=floats(0.01, 1), tenth=unit, meaning=unit)
    def it_has_less_than_even_odds_only_for_what_a_hit_lacks_itself(self, query, held, tenth, meaning):
        first = hit("a", keyword=held, semantic=meaning)
        found = confidence(query, first, words=(held, *[held * tenth] * 9))
        if found is not None and found < EVEN:
            assert confidence(query, first, words=(held,)) < EVEN

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    def it_takes_meaning_that_no_model_read_for_neither_sign(self, query):
        unread = confidence(query, hit("a", keyword=0.3, semantic=0.9), trust=0.0)
        assert unread == confidence(query, hit("a", keyword=0.3))
        assert confidence(query, hit("a", keyword=0.3, semantic=0.1)) < unread
        assert confidence(query, hit("a", keyword=0.3, semantic=0.9)) > unread

    def it_is_higher_where_the_first_passages_stand_out(self):
        standing, others = ((0.4, *[score] * 9) for score in (0.05, 0.15))
        found = [confidence(ENGLISH, hit("a", keyword=0.4, semantic=0.5), words=each) for each in (standing, others)]
        assert found[0] > 0.6 > found[1]

    def it_is_not_capped_in_any_script(self):
        for query in (ENGLISH, CHINESE, "كيف يفقد الجناح قوة الرفع"):
            assert confidence(query, hit("a", keyword=0.9, semantic=0.9)) > 0.95

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @given(scores=lists(tuples(unit, unit), min_size=1, max_size=20))
    def it_is_a_probability_and_falls_with_the_place(self, query, scores):
        fused = [hit(f"c{n}", keyword=words, semantic=meaning) for n, (words, meaning) in enumerate(scores)]
        found = Confidences(query, fused, envelopes())
        assert all(0 <= sureness(found[each.chunk_id]) <= 1 for each in reversed(fused))
        same = [hit(f"c{n}", keyword=0.5, semantic=0.5) for n in range(len(scores))]
        found = Confidences(query, same, envelopes())
        ordered = [found[each.chunk_id] for each in same]
        assert ordered == sorted(ordered, reverse=True)

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @given(pair=tuples(unit, unit), meaning=unit)
    def it_rises_with_the_evidence(self, query, pair, meaning):
        low, high = (confidence(query, hit("a", keyword=words, semantic=meaning)) for words in sorted(pair))
        assert sureness(low) <= sureness(high)

    def it_takes_a_curated_question_at_its_word_where_the_channel_recalled_it(self):
        assert confidence(ENGLISH, hit("a", faq=0.9)) == 0.9
        assert confidence(ENGLISH, hit("a", None, faq=0.9)) == 0.0

    @given(cosine=floats(-1, 0.99))
    def it_gives_both_distances_the_same_cosine(self, cosine):
        distance = math.sqrt(2 - 2 * cosine)
        assert cosine_of(1 / (1 + distance), MEASURES["euclidean"].orthogonal) == pytest.approx(cosine, abs=1e-9)
        assert cosine_of(cosine, MEASURES["cosine"].orthogonal) == cosine


class DescribeCalibrations:
    @given(name=sampled_from(sorted(LOCAL_MODELS)), writing=sampled_from(["spaced", "unspaced"]))
    def it_lets_more_evidence_count_more(self, name, writing):
        assert calibrations_of(name)[writing].meaning >= 0

    @pytest.mark.parametrize(("sentences", "unspaced"), [(SPACED, False), (UNSPACED, True)])
    def it_has_reference_sentences_that_are_unlike_each_other(self, sentences, unspaced):
        assert {holds_unspaced(each) for each in sentences} == {unspaced}
        vectors = LocalEmbedder().embed(sentences)
        similar = vectors @ vectors.T
        assert similar.mean() < 0.7
