"""Several channels' rankings to one order, each channel having scored what only others found."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from pipeline.channels.port import Channel
from pipeline.core.fusion import Fused, reciprocal_rank_fusion, weighted_fusion
from pipeline.errors import PipelineError
from pipeline.flows.arrived import Arrived
from pipeline.flows.channels import aside
from pipeline.flows.journal import Journal
from pipeline.records import ChannelName, ChunkId, Ranking


def fuse(arrived: Arrived, channels: Mapping[ChannelName, Channel], journal: Journal) -> list[Fused]:
    """The candidates of every channel that worked, in the fused order."""
    plan = arrived.query.plan
    how = plan.retrieve.fusion
    rankings = [
        Ranking(
            channel=envelope.channel,
            chunk_ids=tuple(ChunkId(chunk_id) for chunk_id in envelope.chunk_ids),
            scores=envelope.scores,
        )
        for envelope in arrived.usable.values()
    ]
    weights = arrived.weights
    if how.strategy == "rrf":
        started = time.perf_counter()
        fused = reciprocal_rank_fusion(rankings, weights=weights, k=how.k)
    else:
        completed = _complete(arrived, rankings, channels, journal)
        started = time.perf_counter()
        fused = weighted_fusion(rankings, weights=weights, normalisation=how.normalisation, completed=completed)
    journal.took("fuse", started)
    return fused


def _complete(
    arrived: Arrived, rankings: Sequence[Ranking], channels: Mapping[ChannelName, Channel], journal: Journal
) -> dict[ChannelName, dict[ChunkId, float]]:
    """Each channel's score of what only others found: without it, not being recalled would count as scoring nothing."""
    if len(rankings) < 2:
        return {}
    started = time.perf_counter()
    union = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    completed: dict[ChannelName, dict[ChunkId, float]] = {}
    running: dict[ChannelName, Future[dict[ChunkId, float]]] = {}
    for ranking in rankings:
        channel = channels.get(ranking.channel)
        unscored = sorted(union.difference(ranking.chunk_ids))
        if channel is not None and unscored:
            running[ranking.channel] = aside(channel.score, arrived.query, unscored)
    for name, future in running.items():
        try:
            completed[name] = future.result(
                timeout=max(0.0, min(arrived.left_s, arrived.query.timeout_ms_of(name) / 1000))
            )
        except (PipelineError, TimeoutError) as error:
            code = error.code if isinstance(error, PipelineError) else "timeout"
            journal.lost("fuse", code, f"{name} could not score what other channels found")
    journal.took("complete", started)
    return completed
