"""Several channels' rankings to one order, each channel having scored what only others found."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import cast

import structlog

from pipeline.channels.port import Channel
from pipeline.core.custom_fusion import custom_fusion
from pipeline.core.fusion import Completed, Fused, Weights, reciprocal_rank_fusion, weighted_fusion
from pipeline.core.gate import Weak, gated
from pipeline.core.hits import Drop
from pipeline.errors import FusionPluginFailed
from pipeline.flows.arrived import Arrived
from pipeline.flows.channels import aside, in_time
from pipeline.flows.fusion_plugins import load_fusion
from pipeline.flows.journal import Journal
from pipeline.records import ChannelName, ChunkId, Ranking

log = structlog.get_logger(__name__)

_PLUGIN_S = 0.2  # a rule over a few hundred numbers takes milliseconds; one that hangs must not cost the deadline


def heard(arrived: Arrived) -> tuple[list[Ranking], list[Weak]]:
    """What each channel that worked found, those that the plan's gate lets pass, and the channels that it does not."""
    rankings = [
        Ranking(
            channel=envelope.channel,
            chunk_ids=cast("tuple[ChunkId, ...]", envelope.chunk_ids),
            scores=envelope.scores,
        )
        for envelope in arrived.usable.values()
    ]
    gate = arrived.query.plan.retrieve.fusion.gate
    return (rankings, []) if gate is None else gated(rankings, arrived.bounds, gate=gate)


def fuse(arrived: Arrived, channels: Mapping[ChannelName, Channel], journal: Journal) -> list[Fused]:
    """The candidates of every channel that worked, in the fused order."""
    how = arrived.query.plan.retrieve.fusion
    rankings, weak = heard(arrived)
    if how.gate is not None:
        journal.remarks.extend(
            f"the {each.channel} channel had no say: its best hit reaches {each.strength:.2f}, the gate is {how.gate:g}"
            for each in weak
        )
        journal.dropped(_kept_out(arrived, weak, rankings, gate=how.gate))
    weights = {ranking.channel: arrived.weights[ranking.channel] for ranking in rankings}
    if how.strategy == "rrf":
        started = time.perf_counter()
        fused = reciprocal_rank_fusion(rankings, weights=weights, k=how.k)
    else:
        completed = _complete(arrived, rankings, channels, journal)
        started = time.perf_counter()
        own = _by_plugin(arrived, rankings, weights, completed, journal) if how.strategy == "custom" else None
        fused = (
            weighted_fusion(rankings, weights=weights, normalisation=how.normalisation, completed=completed)
            if own is None
            else own
        )
    journal.took("fuse", started)
    held = {hit.chunk_id for hit in fused}
    candidates = dict.fromkeys(chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids)
    journal.dropped(
        Drop(chunk_id=chunk_id, stage="fuse", reason="left_out_by_plugin")
        for chunk_id in candidates
        if chunk_id not in held
    )
    return fused


def _kept_out(arrived: Arrived, weak: Sequence[Weak], rankings: Sequence[Ranking], *, gate: float) -> Iterator[Drop]:
    """What only channels without a say had found."""
    found = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    for each in weak:
        for chunk_id in arrived.usable[each.channel].chunk_ids:
            if chunk_id not in found:
                yield Drop(chunk_id=chunk_id, stage="gate", reason="weak_channel", value=each.strength, limit=gate)


def _by_plugin(
    arrived: Arrived, rankings: Sequence[Ranking], weights: Weights, completed: Completed, journal: Journal
) -> list[Fused] | None:
    """The order that the query's own fusion makes; None when it fails or is late, and the weighted order stands in."""
    how = arrived.query.plan.retrieve.fusion
    name = how.plugin or ""
    left_s = min(arrived.left_s, _PLUGIN_S)
    try:
        if left_s <= 0:
            raise TimeoutError
        plugin = load_fusion(name)
        fused = aside(
            custom_fusion,
            plugin,
            rankings,
            weights=weights,
            normalisation=how.normalisation,
            completed=completed,
        ).result(timeout=left_s)
    except TimeoutError:
        journal.lost(
            "fuse", "fusion_plugin_timeout", f"the fusion {name} did not end in time; weighted fusion stands in"
        )
    except FusionPluginFailed as error:
        log.warning("fusion_plugin_failed", plugin=name, detail=str(error), exc_info=error.__cause__)
        journal.lost("fuse", error.code, f"the fusion {name} failed: {error}; weighted fusion stands in")
    else:
        return fused
    return None


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
            scores = in_time(
                future,
                limit_s=min(arrived.left_s, arrived.query.timeout_ms_of(name) / 1000),
                journal=journal,
                part="fuse",
                otherwise=f"{name} could not score what other channels found",
            )
            if scores is not None:
                completed[name] = scores
        except Exception as error:  # a channel may be a stranger's code
            log.exception("channel_bug", channel=name, query_id=arrived.query.query_id)
            detail = f"{name} could not score what other channels found: unexpected {type(error).__name__}"
            journal.lost("fuse", "internal_error", detail)
    journal.took("complete", started)
    return completed
