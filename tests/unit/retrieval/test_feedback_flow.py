"""When feedback applies, and what it reads: the index rows of the first candidates, and nothing where it has no say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.query.plan import ChannelPlan, FusionPlan, Plan, RetrievePlan
from pipeline.query.request import Envelope
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.records import ChannelName, ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.fuse import support_neighbours
from pipeline.settings import load
from tests.support.corpora.queries import query_of


def arrived(trust: float = 1.0, **fusion: object) -> Arrived:
    weights = fusion.pop("weights", (0.7, 0.3))
    names = ("keyword", "semantic")[: len(weights)]
    channels = {name: ChannelPlan(weight=weight) for name, weight in zip(names, weights, strict=True)}
    query = query_of("wing flow", plan=Plan(retrieve=RetrievePlan(channels=channels, fusion=FusionPlan(**fusion))))
    envelopes = {
        ChannelName(name): Envelope(
            channel=ChannelName(name),
            status="ok",
            chunk_ids=("a", "b", "c"),
            scores=(0.9, 0.5, 0.1),
            trust=trust if name == "semantic" else 1.0,
        )
        for name in names
    }
    return Arrived(query=query, envelopes=envelopes, elapsed_ms={})


def gated_out() -> Arrived:
    """Two channels, the second of which the gate keeps out."""
    said = arrived(gate=0.5)
    envelopes = {
        name: replace(envelope, chunk_ids=("a", "b"), scores=scores, upper_bound=1.0)
        for (name, envelope), scores in zip(said.envelopes.items(), ((0.9, 0.5), (0.2, 0.1)), strict=True)
    }
    return replace(said, envelopes=envelopes)


def without_words() -> Arrived:
    """Two channels, the first of which found nothing."""
    said = arrived()
    nothing = replace(said.envelopes[ChannelName.KEYWORD], chunk_ids=(), scores=())
    return replace(said, envelopes={**said.envelopes, ChannelName.KEYWORD: nothing})


FUSED = [
    Fused(
        chunk_id=ChunkId(name),
        score=score,
        contributions=(
            Contribution(channel=ChannelName.KEYWORD, rank=1, score=1.0, normalized=1.0, contribution=score),
        ),
    )
    for name, score in (("a", 0.9), ("b", 0.5), ("c", 0.1))
]


@pytest.fixture
def use() -> Resources:
    """Resources whose database addresses refuse connections."""
    nowhere = "mysql+pymysql://nobody:nothing@127.0.0.1:1/none"
    return Resources(load({"mysql_url": nowhere}), timeout_s=1.0)


class DescribeWithFeedback:
    @pytest.mark.parametrize(
        "said",
        [
            arrived(feedback=False),
            arrived(strategy="rrf"),
            arrived(weights=(0.7,)),
            arrived(weights=(0.7, 0.0)),
            arrived(trust=0.0),
            gated_out(),
            without_words(),
        ],
        ids=[
            "switched off",
            "rrf",
            "one channel",
            "one channel with a say",
            "one channel that understood",
            "one through the gate",
            "one with hits",
        ],
    )
    def it_reads_nothing_where_it_has_no_say(self, use, said):
        assert support_neighbours(said, FUSED, use, {}) == FUSED
        assert said.journal.degradations == []

    def it_says_when_the_words_cannot_be_read(self, use):
        said = arrived()
        assert support_neighbours(said, FUSED, use, {}) == FUSED
        assert [(lost.part, lost.code) for lost in said.journal.degradations] == [("feedback", "store_unavailable")]
