"""Coverage of the query's words by the candidates: when it applies, and what happens if the keyword channel fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.errors import StoreUnavailable
from pipeline.query.plan import ChannelPlan, FusionPlan, Plan, RetrievePlan
from pipeline.query.request import Envelope, Query
from pipeline.ranking.fusion import Contribution, Fused
from pipeline.records import ChannelName, ChunkId
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.fuse import add_coverage
from tests.support.corpora.queries import query_of

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC


def arrived(trust: float = 0.5, *, semantic: float | None = 0.3, **fusion: object) -> Arrived:
    weights = {KEYWORD: 0.7} | ({} if semantic is None else {SEMANTIC: semantic})
    channels = {name.value: ChannelPlan(weight=weight) for name, weight in weights.items()}
    query = query_of(
        "机翼 气流",
        plan=Plan(retrieve=RetrievePlan(channels=channels, fusion=FusionPlan(**{"reading_gate": True, **fusion}))),
    )
    envelopes = {
        name: Envelope(channel=name, status="ok", trust=trust if name == SEMANTIC else 1.0) for name in weights
    }
    return Arrived(query=query, envelopes=envelopes, elapsed_ms={})


def without_semantic() -> Arrived:
    """A semantic channel that failed."""
    results = arrived()
    failed = replace(results.envelopes[SEMANTIC], status="failed")
    return replace(results, envelopes={**results.envelopes, SEMANTIC: failed})


FUSED = [
    Fused(
        chunk_id=ChunkId(name),
        score=score,
        contributions=(Contribution(channel=KEYWORD, rank=1, score=1.0, normalized=1.0, contribution=score),),
    )
    for name, score in (("a", 0.60), ("b", 0.55), ("c", 0.1))
]


class FakeKeywordChannel(KeywordChannel):
    """A keyword channel with a given coverage of the query by each chunk, or with an error."""

    name = KEYWORD
    __setattr__ = object.__setattr__  # the real one is frozen

    def __init__(self, shares: dict[ChunkId, float] | None = None, error: Exception | None = None) -> None:
        self.shares, self.error, self.calls = shares or {}, error, 0

    def coverage(self, query: Query, chunk_ids: Sequence[ChunkId]) -> dict[ChunkId, float]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return {chunk_id: self.shares[chunk_id] for chunk_id in chunk_ids}


class DescribeWithCoverage:
    def it_gives_the_weight_that_the_semantic_channel_lacks_to_coverage(self):
        keyword, results = FakeKeywordChannel({ChunkId("a"): 0.2, ChunkId("b"): 1.0, ChunkId("c"): 0.1}), arrived()
        moved = add_coverage(results, FUSED, {KEYWORD: keyword})
        assert [(hit.chunk_id, pytest.approx(hit.score)) for hit in moved] == [
            ("b", 0.85 * 0.55 + 0.15),
            ("a", 0.85 * 0.60 + 0.03),
            ("c", 0.85 * 0.1 + 0.015),
        ]
        assert results.journal.degradations == []

    @pytest.mark.parametrize(
        "results",
        [
            arrived(trust=1.0),
            arrived(feedback=False),
            arrived(reading_gate=False),
            arrived(strategy="rrf"),
            arrived(strategy="custom", plugin="own"),
            arrived(semantic=None),
            arrived(semantic=0.0),
            without_semantic(),
        ],
        ids=[
            "understood",
            "switched off",
            "weights as they are",
            "rrf",
            "own fusion",
            "one channel",
            "one channel with a weight",
            "one that worked",
        ],
    )
    def it_does_not_ask_the_channel_where_coverage_does_not_apply(self, results):
        keyword = FakeKeywordChannel()
        assert add_coverage(results, FUSED, {KEYWORD: keyword}) == FUSED
        assert keyword.calls == 0

    def it_keeps_the_order_without_a_keyword_channel(self):
        assert add_coverage(arrived(), FUSED, {}) == FUSED

    def it_reports_a_loss_when_the_keyword_channel_fails(self):
        results = arrived()
        keyword = FakeKeywordChannel(error=StoreUnavailable("gone"))
        assert add_coverage(results, FUSED, {KEYWORD: keyword}) == FUSED
        assert [(lost.part, lost.code) for lost in results.journal.degradations] == [("fuse", "store_unavailable")]
