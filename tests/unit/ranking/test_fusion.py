"""Fusion: tables of rankings and what becomes of them, and the laws of both strategies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ranking.fusion import followed_by, reciprocal_rank_fusion, weighted_fusion
from pipeline.records import ChannelName, ChunkId, Ranking

KEYWORD, SEMANTIC, FAQ = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ


def ranked(channel: ChannelName, ids: str) -> Ranking:
    """A ranking in which only the order means something."""
    chunk_ids = tuple(map(ChunkId, ids.split()))
    return Ranking(channel=channel, chunk_ids=chunk_ids, scores=tuple(float(-n) for n in range(len(chunk_ids))))


def scored(channel: ChannelName, **scores: float) -> Ranking:
    best_first = sorted(scores.items(), key=lambda pair: -pair[1])
    return Ranking(
        channel=channel,
        chunk_ids=tuple(ChunkId(name) for name, _ in best_first),
        scores=tuple(score for _, score in best_first),
    )


def order(fused) -> str:
    return " ".join(hit.chunk_id for hit in fused)


finite = st.floats(allow_nan=False, allow_infinity=False)
rankings = st.lists(
    st.builds(
        lambda channel, scores: scored(channel, **scores),
        st.sampled_from([KEYWORD, SEMANTIC, FAQ]),
        st.dictionaries(st.sampled_from("abcdefg"), finite, max_size=6),
    ),
    max_size=4,
)
weights = st.dictionaries(st.sampled_from([KEYWORD, SEMANTIC, FAQ]), st.floats(0, 100), max_size=3)
completed = st.dictionaries(
    st.sampled_from([KEYWORD, SEMANTIC]), st.dictionaries(st.sampled_from("abcxyz"), finite, max_size=5), max_size=2
)


class DescribeReciprocalRankFusion:
    @pytest.mark.parametrize(
        ("lexical", "dense", "fused"),
        [
            ("a b c", "", "a b c"),  # one silent channel changes nothing
            ("a b", "b a", "a b"),  # a tie falls to the smaller id
            ("a b c", "c", "c a b"),  # 1/63 + 1/61 beats 1/61
            ("", "", ""),
        ],
    )
    def it_orders_by_total_then_by_id(self, lexical, dense, fused):
        assert order(reciprocal_rank_fusion([ranked(KEYWORD, lexical), ranked(SEMANTIC, dense)])) == fused

    def it_reports_sub_queries_of_a_channel_together(self):
        [hit] = reciprocal_rank_fusion([ranked(KEYWORD, "a"), ranked(KEYWORD, "a")])
        [part] = hit.contributions
        assert (part.rank, part.contribution) == (1, pytest.approx(2 / 61))

    @settings(max_examples=30)
    @given(rankings)
    def it_holds_every_chunk_once(self, given_rankings):
        fused = reciprocal_rank_fusion(given_rankings)
        assert sorted(hit.chunk_id for hit in fused) == sorted({c for r in given_rankings for c in r.chunk_ids})


class DescribeWeightedFusion:
    def it_takes_the_scores_of_what_a_channel_did_not_recall(self):
        fused = weighted_fusion(
            [scored(KEYWORD, a=4.0, b=2.0), scored(SEMANTIC, c=0.8, d=0.4)],
            weights={KEYWORD: 0.5, SEMANTIC: 0.5},
            completed={SEMANTIC: {"a": 0.6, "b": 0.0, "z": 9.0}, KEYWORD: {"c": 3.0, "d": 0.0}},
        )
        assert order(fused) == "a c b d"
        by_id = {hit.chunk_id: hit for hit in fused}
        assert "z" not in by_id
        [keyword, semantic] = by_id["c"].contributions
        assert (keyword.rank, keyword.score, keyword.normalized) == (None, 3.0, 0.75)
        assert (semantic.rank, semantic.normalized) == (1, 1.0)

    @pytest.mark.parametrize(
        ("lexical", "dense", "extra", "scores"),
        [
            ({}, {}, {}, {}),
            ({"a": 3.0}, {}, {}, {"a": 0.7}),  # a channel that found nothing still counts
            ({"a": 3.0, "b": 3.0}, {}, {}, {"a": 0.7, "b": 0.7}),  # equal scores are 1 each
            ({"a": 0.0}, {"a": 0.0}, {}, {"a": 1.0}),
            ({}, {"a": 0.8}, {KEYWORD: {"a": 0.0}}, {"a": 0.3}),  # equal, but recalled nothing itself
        ],
    )
    def it_settles_degenerate_scores(self, lexical, dense, extra, scores):
        fused = weighted_fusion(
            [scored(KEYWORD, **lexical), scored(SEMANTIC, **dense)],
            weights={KEYWORD: 0.7, SEMANTIC: 0.3},
            completed=extra,
        )
        assert {hit.chunk_id: pytest.approx(hit.score) for hit in fused} == scores

    def it_divides_weights_among_the_channels_present(self):
        [hit] = weighted_fusion([scored(SEMANTIC, a=0.5)], weights={KEYWORD: 0.7, SEMANTIC: 0.3})
        assert hit.score == pytest.approx(1.0)
        [hit] = weighted_fusion([scored(SEMANTIC, a=0.5)], weights={KEYWORD: 0.7, SEMANTIC: 0.0})
        assert hit.score == pytest.approx(1.0)

    @pytest.mark.parametrize("score", [float("nan"), float("inf")])
    def it_refuses_scores_that_are_no_numbers(self, score):
        with pytest.raises(ValueError, match="finite"):
            weighted_fusion([scored(KEYWORD, a=score)])

    @given(rankings, weights, completed, st.sampled_from(["min_max", "z_score"]), st.randoms())
    def it_stays_between_zero_and_one_in_any_order(self, given_rankings, given_weights, extra, how, shuffle):
        options = {"weights": given_weights, "completed": extra, "normalisation": how}
        fused = weighted_fusion(given_rankings, **options)
        assert all(0 <= hit.score <= 1.000001 for hit in fused)
        assert all(0 <= part.normalized <= 1 for hit in fused for part in hit.contributions)
        assert weighted_fusion(shuffle.sample(given_rankings, len(given_rankings)), **options) == fused
        assert fused == sorted(fused, key=lambda hit: (-hit.score, hit.chunk_id))


class DescribeFurtherHits:
    """The order of hits that only a greater ``top_k`` recalls."""

    WORDS, MEANING = "abcdefgh", "hgfexyzw"

    def _fused(self, count: int):
        def first(hits: str, channel: ChannelName) -> Ranking:
            return scored(channel, **{hit: 1 - place / 10 for place, hit in enumerate(hits[:count])})

        return weighted_fusion([first(self.WORDS, KEYWORD), first(self.MEANING, SEMANTIC)], weights={KEYWORD: 0.7})

    def it_is_behind_all_others_by_the_best_rank(self):
        found = followed_by(self._fused(2), self._fused(5))
        assert order(found) == order(self._fused(2)) + " c f d e x"
        assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
        assert all(hit.score == sum(part.contribution for part in hit.contributions) for hit in found)

    @pytest.mark.parametrize("count", range(2, 9))
    def it_does_not_depend_on_how_many_there_are(self, count):
        every = followed_by(self._fused(2), self._fused(8))
        assert order(every).startswith(order(followed_by(self._fused(2), self._fused(count))))

    def it_is_none_without_further_hits(self):
        assert followed_by(self._fused(4), self._fused(4)) == self._fused(4)
