"""Candidates that speak for each other: what must hold whatever they are."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from pipeline.keyword.terms import Tokenizer
from pipeline.ranking.fusion import (
    CONSIDERED,
    Contribution,
    Fused,
    Terms,
    feedback_share,
    neighbour_feedback,
    similarities,
    terms_of,
)
from pipeline.records import ChannelName, ChunkId, Namespace, Scope, TenantId

TOKENS = Tokenizer(Scope(tenant_id=TenantId("t"), namespace=Namespace("n")))
WORDS = ["wing", "flow", "heat", "shock", "plate", "speed", "layer", "cone", "tunnel", "drag"]


def indexed(text: str, use: Tokenizer = TOKENS) -> Terms:
    return terms_of(" ".join(use.tokens(text.split())).encode())


def hit(name: str, score: float) -> Fused:
    """As fusion makes them: two channels had a say."""
    parts = [
        Contribution(channel=channel, rank=None, score=score, normalized=score, contribution=share * score)
        for channel, share in ((ChannelName.KEYWORD, 0.7), (ChannelName.SEMANTIC, 0.3))
    ]
    return Fused(chunk_id=ChunkId(name), score=score, contributions=tuple(parts))


def ids(hits: list[Fused]) -> str:
    return " ".join(each.chunk_id for each in hits)


candidates = some.dictionaries(
    some.integers(0, 500).map(lambda number: f"c{number:03}"),
    some.tuples(some.floats(0, 1), some.lists(some.sampled_from(WORDS), max_size=12).map(" ".join)),
    max_size=40,
)


class DescribeNeighbourFeedback:
    def it_lifts_what_is_like_the_good_ones_over_what_is_like_none(self):
        fused = [hit("a", 1.0), hit("b", 0.9), hit("lonely", 0.52), hit("like", 0.5), hit("y", 0.1), hit("z", 0.1)]
        terms = {
            "a": "wing flow heat",
            "b": "wing flow speed",
            "like": "wing flow drag",
            "lonely": "cone tunnel plate",
            "y": "cone tunnel layer",
            "z": "plate tunnel shock",
        }
        moved = neighbour_feedback(fused, {ChunkId(name): indexed(text) for name, text in terms.items()}, neighbours=2)
        assert ids(moved) == "a b like lonely y z"
        assert {each.chunk_id for each in moved if each.feedback > 0} >= {"like", "y"}
        assert next(each for each in moved if each.chunk_id == "lonely").feedback < 0

    def it_leaves_a_clear_winner_where_it_is(self):
        fused = [hit("a", 1.0), hit("b", 0.4), hit("c", 0.39), hit("d", 0.38)]
        terms = {"a": "wing heat", "b": "cone drag flow", "c": "cone drag heat", "d": "cone drag wing"}
        moved = neighbour_feedback(fused, {ChunkId(name): indexed(text) for name, text in terms.items()})
        assert moved[0].chunk_id == "a"

    @settings(max_examples=30)
    @given(given=candidates, seed=some.integers(0, 99))
    def it_gives_one_order_in_whatever_order_it_is_given_them(self, given, seed):
        fused = [hit(name, score) for name, (score, _) in given.items()]
        terms = {ChunkId(name): indexed(text) for name, (_, text) in given.items()}
        shuffled, mixed = fused[:], list(terms.items())
        random.Random(seed).shuffle(shuffled)
        random.Random(seed).shuffle(mixed)
        assert neighbour_feedback(fused, terms) == neighbour_feedback(shuffled, dict(mixed))

    @settings(max_examples=30)
    @given(given=candidates, share=some.floats(0, 1))
    def it_loses_nobody_and_scores_stay_sums_between_nought_and_one(self, given, share):
        fused = [hit(name, score) for name, (score, _) in given.items()]
        terms = {ChunkId(name): indexed(text) for name, (_, text) in given.items()}
        moved = neighbour_feedback(fused, terms, share=share)
        assert sorted(each.chunk_id for each in moved) == sorted(each.chunk_id for each in fused)
        assert [each.score for each in moved] == sorted((each.score for each in moved), reverse=True)
        before = {each.chunk_id: each for each in fused}
        for each in moved:
            assert each.contributions == before[each.chunk_id].contributions
            assert each.score == pytest.approx(before[each.chunk_id].score + each.feedback)
            assert -1e-9 <= each.score <= 1 + 1e-9

    @settings(max_examples=30)
    @given(given=candidates)
    def it_changes_nothing_with_no_share_or_no_words(self, given):
        fused = sorted((hit(name, score) for name, (score, _) in given.items()), key=lambda h: (-h.score, h.chunk_id))
        terms = {ChunkId(name): indexed(text) for name, (_, text) in given.items()}
        assert neighbour_feedback(fused, terms, share=0.0) == fused
        assert neighbour_feedback(fused, {}) == fused

    def it_never_brings_what_is_far_down_among_the_first(self):
        fused = [hit(f"c{place:03}", 1 - place / 200) for place in range(150)]
        terms = {each.chunk_id: indexed(WORDS[place % 7]) for place, each in enumerate(fused)}
        moved = neighbour_feedback(fused, terms)
        assert {each.chunk_id for each in moved[:CONSIDERED]} == {each.chunk_id for each in fused[:CONSIDERED]}
        assert ids(moved[CONSIDERED:]) == ids(fused[CONSIDERED:])

    def it_treats_a_candidate_without_words_as_the_others_on_average(self):
        fused = [hit("faq", 0.8), hit("a", 1.0), hit("b", 0.5), hit("c", 0.1)]
        terms = {
            ChunkId("a"): indexed("wing heat"),
            ChunkId("b"): indexed("wing flow"),
            ChunkId("c"): indexed("flow heat"),
        }
        moved = {each.chunk_id: each for each in neighbour_feedback(fused, terms, neighbours=1)}
        support = {each.chunk_id: each.score + 5 * moved[each.chunk_id].feedback for each in fused}
        usual = min(1.0, sum(support[ChunkId(name)] for name in "abc") / 1.6)
        assert moved["faq"].feedback == pytest.approx(0.2 * 0.8 * (usual - 1), abs=1e-9)

    def it_says_the_same_of_the_same_texts_in_another_namespace(self):
        """Its tokens differ; with hundreds of terms, some would collide in any small table."""
        draw = random.Random(7)
        texts = [[f"w{draw.randrange(600)}" for _ in range(90)] for _ in range(CONSIDERED)]
        other = Tokenizer(Scope(tenant_id=TenantId("t"), namespace=Namespace("copy")))
        first, second = (similarities([indexed(" ".join(text), use) for text in texts]) for use in (TOKENS, other))
        assert first == pytest.approx(second, abs=1e-6)

    @pytest.mark.parametrize("share", [-0.1, 1.1])
    def it_refuses_a_share_that_is_none(self, share):
        with pytest.raises(ValueError, match="share"):
            neighbour_feedback([], {}, share=share)


class DescribeFeedbackShare:
    @pytest.mark.parametrize(
        ("weights", "share"),
        [
            ((), 0),
            ((0.7,), 0),
            ((0.7, 0.0), 0),
            ((0.0, 0.0), 0),
            ((0.7, 0.3), 0.2),
            ((0.9, 0.1), 1 / 15),
            ((1, 1), 0.2),
        ],
    )
    def it_is_what_the_weaker_channels_can_vouch_for(self, weights, share):
        assert feedback_share(weights) == pytest.approx(share)


class DescribeSimilarities:
    def it_is_one_for_the_same_words_and_nought_for_none_in_common(self):
        found = similarities([indexed(text) for text in ("wing flow", "wing flow", "cone drag", "heat", "drag cone")])
        assert found[0, 1] == pytest.approx(1, abs=1e-6)
        assert found[2, 4] == pytest.approx(1, abs=1e-6)
        assert found[0, 2] == found[3, 0] == 0
        assert not np.diag(found).any()
        assert (found == found.T).all()

    def it_counts_what_few_share_for_more_than_what_all_have(self):
        texts = ["wing flow", "wing heat", "wing flow", "wing cone", "wing heat"]
        found = similarities([indexed(text) for text in texts])
        assert found[0, 2] > found[0, 1] > 0

    @pytest.mark.parametrize("words", [40, 3_000, 60_000])  # of the last, hundreds share a place with another one
    def it_is_the_cosine_of_what_each_term_is_worth(self, words):
        draw = random.Random(words)
        texts = [[f"w{draw.randrange(words)}" for _ in range(draw.randint(1, 300))] for _ in range(CONSIDERED)]
        counted = [Counter(text) for text in texts]
        frequency = Counter(word for text in counted for word in text)
        average = sum(map(len, texts)) / len(texts)

        def worth(text: list[str], many: int, word: str) -> float:
            rarity = math.log1p((len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            return many / (many + 1.2 * (0.25 + 0.75 * len(text) / average)) * rarity if frequency[word] > 1 else 0.0

        worths = [
            {word: worth(text, many, word) for word, many in known.items()}
            for text, known in zip(texts, counted, strict=True)
        ]
        lengths = [math.hypot(*each.values()) or 1.0 for each in worths]
        found = similarities([indexed(" ".join(text)) for text in texts])
        for one, other in itertools.combinations(range(len(texts)), 2):
            product = sum(worths[one][word] * worths[other].get(word, 0.0) for word in worths[one])
            assert found[one, other] == pytest.approx(product / lengths[one] / lengths[other], abs=1e-5)
