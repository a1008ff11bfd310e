"""Coverage scores where a channel could not read the query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ranking.fusion import CONSIDERED, Contribution, Fused, coverage_share, covered
from pipeline.records import ChannelName, ChunkId

KEYWORD, SEMANTIC, FAQ = ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ


def hit(name: str, keyword: float | None, semantic: float = 0.0) -> Fused:
    given_by = {KEYWORD: keyword, SEMANTIC: semantic}
    parts = tuple(
        Contribution(channel=channel, rank=1, score=1.0, normalized=1.0, contribution=contribution)
        for channel, contribution in given_by.items()
        if contribution is not None
    )
    return Fused(chunk_id=ChunkId(name), score=sum(part.contribution for part in parts), contributions=parts)


class DescribeCoverageShare:
    @pytest.mark.parametrize(
        ("planned", "heard", "share"),
        [
            ({KEYWORD: 0.7, SEMANTIC: 0.3}, {KEYWORD: 0.7, SEMANTIC: 0.3}, 0.0),
            ({KEYWORD: 0.7, SEMANTIC: 0.3}, {KEYWORD: 0.7, SEMANTIC: 0.09}, 0.21),
            ({KEYWORD: 0.7, SEMANTIC: 0.3}, {KEYWORD: 0.7, SEMANTIC: 0.0}, 0.3),
            ({KEYWORD: 1.4, SEMANTIC: 0.6}, {KEYWORD: 1.4, SEMANTIC: 0.0}, 0.3),
            ({SEMANTIC: 0.3}, {SEMANTIC: 0.1}, 0.0),
            ({SEMANTIC: 0.3, FAQ: 0.1}, {SEMANTIC: 0.1, FAQ: 0.1}, 0.0),
            ({KEYWORD: 0.7}, {KEYWORD: 0.7}, 0.0),
            ({}, {}, 0.0),
        ],
        ids=[
            "all read",
            "hardly read",
            "not read",
            "weights are relative",
            "alone",
            "without words",
            "words alone",
            "none",
        ],
    )
    def it_is_what_was_lost_of_all_weight(self, planned, heard, share):
        assert coverage_share(planned, heard) == pytest.approx(share)


class DescribeCovered:
    def it_prefers_the_one_that_holds_more_of_the_query(self):
        fused = [hit("often", 0.70), hit("all", 0.65), hit("little", 0.1)]
        coverage = {ChunkId("often"): 0.4, ChunkId("all"): 0.9, ChunkId("little"): 0.2}
        moved = covered(fused, coverage, share=0.2)
        assert [each.chunk_id for each in moved] == ["all", "often", "little"]
        assert [each.score for each in moved] == pytest.approx([0.8 * 0.65 + 0.18, 0.8 * 0.7 + 0.08, 0.08 + 0.04])

    def it_is_told_as_the_keyword_channels_part(self):
        [moved] = covered([hit("a", 0.5, 0.2)], {ChunkId("a"): 1.0}, share=0.2)
        assert [part.contribution for part in moved.contributions] == pytest.approx([0.8 * 0.5 + 0.2, 0.8 * 0.2])

    @pytest.mark.parametrize(("coverage", "share"), [({}, 0.2), ({ChunkId("a"): 1.0}, 0.0)], ids=["untold", "no share"])
    def it_changes_nothing_without_coverage_or_share(self, coverage, share):
        fused = [hit("a", 0.5), hit("b", 0.4)]
        assert covered(fused, coverage, share=share) == fused

    def it_moves_those_it_knows_nothing_of_as_the_others_on_average(self):
        fused = [hit("a", 0.8), hit("b", 0.4), hit("untold", 0.6), hit("wordless", None, 0.5)]
        coverage = {ChunkId("a"): 0.4, ChunkId("b"): 0.2, ChunkId("wordless"): 1.0}
        moved = {each.chunk_id: each.score for each in covered(fused, coverage, share=0.2)}
        assert moved == pytest.approx({"a": 0.72, "b": 0.36, "untold": 0.54, "wordless": 0.45})

    def it_leaves_those_behind_that_were_not_considered(self):
        fused = [hit(f"{place:03}", 1 - place / 100) for place in range(CONSIDERED + 2)]
        moved = covered(fused, {each.chunk_id: 0.0 for each in fused[:-2]} | {fused[-1].chunk_id: 1.0}, share=0.5)
        assert [each.chunk_id for each in moved] == [each.chunk_id for each in fused]

    @given(
        st.lists(st.tuples(st.floats(0, 0.7), st.floats(0, 0.3), st.floats(0, 1) | st.none()), max_size=8),
        st.floats(0, 1),
    )
    def it_stays_between_0_and_1_and_the_sum_of_its_parts(self, given_scores, share):
        fused = [hit(str(place), keyword, semantic) for place, (keyword, semantic, _) in enumerate(given_scores)]
        coverage = {ChunkId(str(place)): told for place, (*_, told) in enumerate(given_scores) if told is not None}
        moved = covered(fused, coverage, share=share)
        assert {each.chunk_id for each in moved} == {each.chunk_id for each in fused}
        for each in moved:
            assert -1e-9 <= each.score <= 1 + 1e-9
            assert each.score == pytest.approx(sum(part.contribution for part in each.contributions) + each.feedback)

    @pytest.mark.parametrize("share", [-0.1, 1.1])
    def it_refuses_a_share_that_is_none(self, share):
        with pytest.raises(ValueError, match="share"):
            covered([], {}, share=share)
