"""Confidence from the evidence of the channels: which hits look relevant, and which questions look unanswerable."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists, sampled_from, tuples

from pipeline.embedding.distance import ORTHOGONAL
from pipeline.embedding.reference_sentences import SPACED, UNSPACED
from pipeline.keyword.terms import holds_unspaced
from pipeline.local_models import LOCAL_MODELS, calibrations_of
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.ranking.hits import confidences, cosine_of
from pipeline.records import ChannelName, ChunkId

KEYWORD, SEMANTIC, FAQ = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ
ENGLISH, CHINESE = "how does a wing stall", "机翼为什么会失速"
unit = floats(0, 1)


def envelopes(*, background: float = 0.0) -> dict[ChannelName, Envelope]:
    return {
        KEYWORD: Envelope(channel=KEYWORD, status="ok", upper_bound=1.0),
        SEMANTIC: Envelope(channel=SEMANTIC, status="ok", upper_bound=1.0, zero=0.0, background=background),
        FAQ: Envelope(channel=FAQ, status="ok", upper_bound=1.0),
    }


def hit(name: str, rank: int | None = 1, **scores: float) -> Fused:
    parts = tuple(Contribution(ChannelName(channel), rank, score, None, 0.0) for channel, score in scores.items())
    return Fused(chunk_id=ChunkId(name), score=1.0, contributions=parts)


def confidence(query: str, fused: Fused, *, background: float = 0.0) -> float:
    return confidences(query, [fused], envelopes(background=background))[fused.chunk_id]


class DescribeConfidences:
    @pytest.mark.parametrize(("query", "background"), [(ENGLISH, 0.05), (CHINESE, 0.5)])
    def it_tells_an_answer_from_an_unrelated_text(self, query, background):
        assert confidence(query, hit("a", keyword=0.5, semantic=0.8), background=background) > 0.6
        assert confidence(query, hit("a", keyword=0.05, semantic=background + 0.1), background=background) < 0.1
        assert confidence(query, hit("a", semantic=background), background=background) < 0.1
        assert confidence(query, hit("a", keyword=0.0, semantic=0.3), background=0.25) < 0.01

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @given(scores=lists(tuples(unit, unit), min_size=1, max_size=20))
    def it_is_a_probability_and_falls_with_the_place(self, query, scores):
        fused = [hit(f"c{n}", keyword=words, semantic=meaning) for n, (words, meaning) in enumerate(scores)]
        found = confidences(query, fused, envelopes())
        assert all(0 <= found[each.chunk_id] <= 1 for each in reversed(fused))
        same = [hit(f"c{n}", keyword=0.5, semantic=0.5) for n in range(len(scores))]
        found = confidences(query, same, envelopes())
        ordered = [found[each.chunk_id] for each in same]
        assert ordered == sorted(ordered, reverse=True)

    @pytest.mark.parametrize("query", [ENGLISH, CHINESE])
    @given(pair=tuples(unit, unit), meaning=unit)
    def it_rises_with_the_evidence(self, query, pair, meaning):
        low, high = (confidence(query, hit("a", keyword=words, semantic=meaning)) for words in sorted(pair))
        assert low <= high

    def it_takes_a_curated_question_at_its_word_where_the_channel_recalled_it(self):
        assert confidence(ENGLISH, hit("a", faq=0.9)) == 0.9
        assert confidence(ENGLISH, hit("a", None, faq=0.9)) == 0.0

    @given(cosine=floats(-1, 0.99))
    def it_gives_both_distances_the_same_cosine(self, cosine):
        distance = math.sqrt(2 - 2 * cosine)
        assert cosine_of(1 / (1 + distance), ORTHOGONAL["euclidean"]) == pytest.approx(cosine, abs=1e-9)
        assert cosine_of(cosine, ORTHOGONAL["cosine"]) == cosine


class DescribeCalibrations:
    @given(name=sampled_from(sorted(LOCAL_MODELS)), kind=sampled_from(sorted(calibrations_of(None))))
    def it_lets_more_evidence_and_an_earlier_place_count_more(self, name, kind):
        model = calibrations_of(name)[kind]
        assert model.words >= 0
        assert model.meaning >= 0
        assert model.gap >= 0 > model.place

    @pytest.mark.parametrize(("sentences", "unspaced"), [(SPACED, False), (UNSPACED, True)])
    def it_has_reference_sentences_that_are_unlike_each_other(self, sentences, unspaced):
        assert {holds_unspaced(each) for each in sentences} == {unspaced}
        vectors = LocalEmbedder().embed(sentences)
        similar = vectors @ vectors.T
        assert similar.mean() < 0.7
