"""Merge the rankings of several channels into one order, and correct it by the candidates' contents."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future

import structlog

from pipeline.channels.channel import Channel, CoverageChannel, TokenChannel
from pipeline.database.unit_of_work import reading
from pipeline.errors import FusionPluginFailed
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.query.request import Query
from pipeline.ranking.channel_gate import WeakChannel, lead_of
from pipeline.ranking.coverage import CONSIDERED as COVERED
from pipeline.ranking.coverage import coverage_share, covered
from pipeline.ranking.custom_fusion import custom_fusion, load_fusion
from pipeline.ranking.fusion import Completed, Fused, Weights, reciprocal_rank_fusion, weighted_fusion
from pipeline.ranking.hits import Drop
from pipeline.ranking.neighbours import CONSIDERED as SUPPORTED
from pipeline.ranking.neighbours import Terms, feedback_share, neighbour_feedback, terms_of
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import aside, in_time
from pipeline.retrieval.journal import Journal

log = structlog.get_logger(__name__)

_PLUGIN_S = 0.2  # a rule over a few hundred numbers takes milliseconds; a hanging one must not use up the deadline


def fuse(arrived: Arrived, channels: Mapping[ChannelName, Channel], journal: Journal) -> list[Fused]:
    """Return the candidates of every channel that worked, in the fused order; each channel has scored them all."""
    fusion = arrived.query.plan.retrieve.fusion
    rankings, weak = arrived.admitted
    if fusion.gate is not None:
        journal.remarks.extend(
            f"the {weak_channel.channel} channel had no say: its best hit reaches {weak_channel.strength:.2f},"
            f" the gate is {fusion.gate:g}"
            for weak_channel in weak
        )
        journal.dropped(_gated_out(arrived, weak, rankings, gate=fusion.gate))
    weights = {ranking.channel: arrived.weights[ranking.channel] for ranking in rankings}
    reading_remarks = _reading_remarks(arrived, {name: arrived.reading_weights[name] for name in weights})
    journal.remarks.extend(remark for remark in reading_remarks if remark not in journal.remarks)
    if arrived.query.trace:
        journal.remarks.extend(remark for remark in _signal_remarks(arrived, weights) if remark not in journal.remarks)
    if fusion.strategy == "rrf":
        started = time.perf_counter()
        fused = reciprocal_rank_fusion(rankings, weights=weights, k=fusion.k)
    else:
        completed = _complete(arrived, rankings, channels, journal)
        started = time.perf_counter()
        own = _by_plugin(arrived, rankings, weights, completed, journal) if fusion.strategy == "custom" else None
        fused = (
            own
            if own is not None
            else weighted_fusion(
                rankings,
                weights=weights,
                normalisation=fusion.normalisation,
                completed=completed,
                scales=_scales(arrived, rankings),
            )
        )
    journal.took("fuse", started)
    journal.dropped(_not_admitted(arrived, rankings))
    return fused


def add_coverage(
    arrived: Arrived, fused: Sequence[Fused], channels: Mapping[ChannelName, Channel], journal: Journal
) -> list[Fused]:
    """Return the fused order after `ranking.coverage`: the weight of channels that could not read the query goes to its
    words.

    The order stays where every channel read the query, where scores were not merged by weights, and where the keyword
    channel is late. Costs one statement, by key.
    """
    query, fusion = arrived.query, arrived.query.plan.retrieve.fusion
    names = {ranking.channel for ranking in arrived.admitted[0]}
    planned = {name: weight for name, weight in arrived.planned.items() if name in names}
    share = coverage_share(planned, {name: arrived.reading_weights[name] for name in planned})
    keyword = channels.get(ChannelName.KEYWORD)
    applies = fused and fusion.feedback and fusion.strategy == "weighted" and share
    if not applies or not isinstance(keyword, CoverageChannel):
        return list(fused)
    started = time.perf_counter()
    first = [hit.chunk_id for hit in fused[:COVERED]]
    coverage = in_time(
        aside(keyword.coverage, query, first),
        deadline=query.deadline.at_most(query.timeout_ms_of(ChannelName.KEYWORD) / 1000),
        journal=journal,
        part="fuse",
        otherwise="the coverage of the query by the candidates was not computed",
        bug="channel_bug",
        channel=ChannelName.KEYWORD,
        query_id=query.query_id,
    )
    if coverage is None:
        return list(fused)
    moved = covered(fused, coverage, share=share)
    journal.took("coverage", started)
    return moved


def support_neighbours(
    arrived: Arrived, fused: Sequence[Fused], use: Resources, channels: Mapping[ChannelName, Channel], journal: Journal
) -> list[Fused]:
    """Return the fused order after `ranking.neighbours`: similar candidates support each other.

    The order stays where ranks were merged, where fewer than two channels have weight after the gate, and where the
    words of the candidates are late; the support shrinks with the share of the query that the channels could not read.
    Words that the keyword channel does not hold in memory cost one statement, by key.
    """
    query, fusion = arrived.query, arrived.query.plan.retrieve.fusion
    names = {ranking.channel for ranking in arrived.admitted[0]}
    trust = min((envelope.trust for name, envelope in arrived.usable.items() if name in names), default=1.0)
    share = feedback_share(weight for name, weight in arrived.reading_weights.items() if name in names) * trust
    if not fusion.feedback or fusion.strategy == "rrf" or not share:
        return list(fused)
    started = time.perf_counter()
    first = [ChunkId(hit.chunk_id) for hit in fused[:SUPPORTED]]
    keyword = channels.get(ChannelName.KEYWORD)
    terms = keyword.indexed(query, first) if isinstance(keyword, TokenChannel) else None
    if terms is None:
        terms = in_time(
            aside(_terms, query, first, use),
            deadline=arrived.deadline.at_most(use.settings.recall_timeout_ms / 1000),
            journal=journal,
            part="feedback",
            otherwise="the candidates could not be compared with each other; the fused order stands",
            bug="feedback_bug",
            query_id=query.query_id,
        )
    if terms is None:
        return list(fused)
    moved = neighbour_feedback(fused, terms, share=share)
    journal.took("feedback", started)
    return moved


def _terms(query: Query, chunk_ids: Sequence[ChunkId], use: Resources) -> dict[ChunkId, Terms]:
    with reading(use.mysql) as connection:
        rows = KeywordIndex(connection, query.tenant_id).rows(chunk_ids)
    return {row.chunk_id: terms_of(row.terms) for row in rows}


def _scales(arrived: Arrived, rankings: Sequence[Ranking]) -> dict[ChannelName, tuple[float | None, float | None]]:
    """Return the scores of each channel that become 0 and 1; None stands for the lowest and highest of the candidates.

    A single channel keeps the scale of its own scores, and so does similarity to a curated question. Others are scaled
    to the range of the candidates: a keyword score of 0 instead of the lowest costs 0.001 nDCG@10 on cranfield and
    scifact.
    """
    usable = arrived.usable
    own = [ranking.channel for ranking in rankings if len(rankings) == 1 or ranking.channel == ChannelName.FAQ]
    return {channel: (usable[channel].zero, usable[channel].upper_bound) for channel in own}


def _gated_out(
    arrived: Arrived, weak: Sequence[WeakChannel], rankings: Sequence[Ranking], *, gate: float
) -> Iterator[Drop]:
    """Yield a Drop for every chunk that only channels below the gate found."""
    fused_ids = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    for weak_channel in weak:
        for chunk_id in arrived.usable[weak_channel.channel].chunk_ids:
            if chunk_id not in fused_ids:
                yield Drop(
                    chunk_id=chunk_id, stage="gate", reason="weak_channel", value=weak_channel.strength, limit=gate
                )


def _not_admitted(arrived: Arrived, rankings: Sequence[Ranking]) -> Iterator[Drop]:
    """Yield a Drop for every chunk that scored less than its channel's zero and that no channel admits."""
    admitted = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    for ranking in rankings:
        envelope = arrived.usable[ranking.channel]
        for chunk_id, score in zip(envelope.chunk_ids, envelope.scores, strict=True):
            if chunk_id not in admitted and envelope.zero is not None and score < envelope.zero:
                yield Drop(chunk_id=chunk_id, stage="fuse", reason="not_admitted", value=score, limit=envelope.zero)


def _reading_remarks(arrived: Arrived, weights: Weights) -> Iterator[str]:
    """Report every weight that the reading gate lowered, as a share of all weights before and after."""
    planned = {channel: weight for channel, weight in arrived.planned.items() if channel in weights}
    total = math.fsum(planned.values())
    for channel, weight in weights.items():
        if weight < planned[channel] and total:
            yield (
                f"reading_gate: the {channel} channel counts {weight / total:.3f} instead of {planned[channel] / total:.3f},"
                f" because its model reads too little of the query ({arrived.usable[channel].trust:.3f})"
            )


def _signal_remarks(arrived: Arrived, weights: Weights) -> Iterator[str]:
    """Report the weight that the query's own signal gave a channel, as a share of all weights before and after."""
    before = {channel: arrived.reading_weights[channel] for channel in weights}
    for channel, weight in weights.items():
        if weight != before[channel] and len(weights) > 1:
            lead = lead_of([score for _, score in arrived.usable[channel].admitted])
            yield (
                f"query_weights: the {channel} channel counts {weight / math.fsum(weights.values()):.3f} instead of"
                f" {before[channel] / math.fsum(before.values()):.3f}, because its first hit leads by {lead or 0:.2f} of the"
                " span of its scores"
            )


def _by_plugin(
    arrived: Arrived, rankings: Sequence[Ranking], weights: Weights, completed: Completed, journal: Journal
) -> list[Fused] | None:
    """Return the order of the query's own fusion; None when it fails or is late."""
    fusion = arrived.query.plan.retrieve.fusion
    name = fusion.plugin or ""
    try:
        if arrived.deadline.has_passed:
            raise TimeoutError
        plugin = load_fusion(name)
        fused = aside(custom_fusion, plugin, rankings, weights=weights, completed=completed).result(
            timeout=arrived.deadline.within(_PLUGIN_S)
        )
    except TimeoutError:
        journal.lost(
            "fuse", "fusion_plugin_timeout", f"the fusion {name} did not end in time; weighted fusion stands in"
        )
    except FusionPluginFailed as error:
        log.warning("fusion_plugin_failed", plugin=name, detail=str(error), exc_info=error.__cause__)
        journal.lost("fuse", error.code, f"the fusion {name} failed: {error}; weighted fusion stands in")
    else:
        kept = {hit.chunk_id for hit in fused}
        journal.dropped(
            Drop(chunk_id=chunk_id, stage="fuse", reason="left_out_by_plugin")
            for chunk_id in dict.fromkeys(chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids)
            if chunk_id not in kept
        )
        return fused
    return None


def _complete(
    arrived: Arrived, rankings: Sequence[Ranking], channels: Mapping[ChannelName, Channel], journal: Journal
) -> dict[ChannelName, dict[ChunkId, float]]:
    """Return each channel's scores of the candidates that only others found, which would count as 0."""
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
        scores = in_time(
            future,
            deadline=arrived.deadline.at_most(arrived.query.timeout_ms_of(name) / 1000),
            journal=journal,
            part="fuse",
            otherwise=f"{name} could not score what other channels found",
            bug="channel_bug",
            channel=name,
            query_id=arrived.query.query_id,
        )
        if scores is not None:
            completed[name] = scores
    journal.took("complete", started)
    return completed
