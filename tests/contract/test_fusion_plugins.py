"""The contract of fusions, built-in and plug-in. A package that brings one can subclass the contract."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.ranking.fusion import reciprocal_rank_fusion, weighted_fusion
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.retrieval.fuse import FusionPlugin, custom_fusion, load_fusion
from tests.support.corpora.fusions import installed_package

CHANNELS = (ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ)
WEIGHTS = {ChannelName.KEYWORD: 0.7, ChannelName.SEMANTIC: 0.3, ChannelName.FAQ: 0.1}


def _ranking(channel: ChannelName, scores: dict[str, float]) -> Ranking:
    best_first = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return Ranking(
        channel=channel,
        chunk_ids=tuple(ChunkId(name) for name, _ in best_first),
        scores=tuple(score for _, score in best_first),
    )


rankings = st.dictionaries(
    st.sampled_from(CHANNELS), st.dictionaries(st.sampled_from("abcdefgh"), st.floats(-1, 50), max_size=6)
).map(lambda found: [_ranking(channel, scores) for channel, scores in found.items()])
# Each class runs the contract with its own fixture, which keeps nothing between calls.
often = settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
)


class FusionContract:
    """The contract of fusions. Subclass it and provide the ``plugin`` fixture."""

    @often
    @given(found=rankings)
    def it_scores_only_what_channels_recalled_with_numbers_of_zero_or_more(self, plugin: FusionPlugin, found):
        scores = plugin(found, weights=WEIGHTS, completed={})
        assert scores.keys() <= {chunk_id for ranking in found for chunk_id in ranking.chunk_ids}
        assert all(math.isfinite(score) and score >= 0 for score in scores.values())

    @often
    @given(found=rankings)
    def it_gives_the_same_answer_every_time(self, plugin: FusionPlugin, found):
        first = dict(plugin(found, weights=WEIGHTS, completed={}))
        assert dict(plugin(found, weights=WEIGHTS, completed={})) == first

    @often
    @given(found=rankings, shuffle=st.randoms())
    def it_does_not_depend_on_which_channel_came_first(self, plugin: FusionPlugin, found, shuffle: random.Random):
        scores = dict(plugin(found, weights=WEIGHTS, completed={}))
        again = dict(plugin(shuffle.sample(found, len(found)), weights=WEIGHTS, completed={}))
        assert again == pytest.approx(scores)

    @often
    @given(found=rankings)
    def it_is_taken_as_it_is(self, plugin: FusionPlugin, found):
        fused = custom_fusion(plugin, found, weights=WEIGHTS)
        assert {hit.chunk_id: hit.score for hit in fused} == dict(plugin(found, weights=WEIGHTS, completed={}))

    def it_has_nothing_to_say_of_nothing(self, plugin: FusionPlugin):
        assert dict(plugin([], weights={}, completed={})) == {}


class DescribeReciprocalRankFusionAsAPlugin(FusionContract):
    @pytest.fixture
    def plugin(self) -> FusionPlugin:
        return lambda found, *, weights, completed: {
            hit.chunk_id: hit.score for hit in reciprocal_rank_fusion(found, weights=weights)
        }


class DescribeWeightedFusionAsAPlugin(FusionContract):
    @pytest.fixture
    def plugin(self) -> FusionPlugin:
        return lambda found, *, weights, completed: {
            hit.chunk_id: hit.score for hit in weighted_fusion(found, weights=weights, completed=completed)
        }


class DescribeAnInstalledFusion(FusionContract):
    @pytest.fixture
    def plugin(self, tmp_path) -> Iterator[FusionPlugin]:
        with installed_package(tmp_path):
            yield load_fusion("best_of")
