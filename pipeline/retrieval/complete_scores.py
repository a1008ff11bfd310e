"""What a channel that could not read the query leaves to its words: how much of it each of the best candidates holds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pipeline.channels.channel import Channel, Covering
from pipeline.ranking.coverage import CONSIDERED, coverage_share, covered
from pipeline.ranking.fusion import Fused
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.make_channels import aside, in_time


def with_coverage(
    arrived: Arrived, fused: Sequence[Fused], channels: Mapping[ChannelName, Channel], journal: Journal
) -> list[Fused]:
    """The fused order after `ranking.coverage`; as it was where every channel understood the query, where it was not merged
    by weights, and where the keyword channel cannot tell in time. One statement, by key."""
    query, how = arrived.query, arrived.query.plan.retrieve.fusion
    names = {ranking.channel for ranking in arrived.heard[0]}
    planned = {name: weight for name, weight in arrived.planned.items() if name in names}
    share = coverage_share(planned, {name: arrived.reading_weights[name] for name in planned})
    keyword = channels.get(ChannelName.KEYWORD)
    asked = fused and how.feedback and how.strategy == "weighted" and share
    if not asked or not isinstance(keyword, Covering):
        return list(fused)
    started = time.perf_counter()
    first = [hit.chunk_id for hit in fused[:CONSIDERED]]
    coverage = in_time(
        aside(keyword.coverage, query, first),
        deadline=query.deadline.at_most(query.timeout_ms_of(ChannelName.KEYWORD) / 1000),
        journal=journal,
        part="fuse",
        otherwise="how much of the query the candidates hold could not be told",
    )
    if coverage is None:
        return list(fused)
    moved = covered(fused, coverage, share=share)
    journal.took("coverage", started)
    return moved
