"""Merge the rankings of several channels into one order, and correct it by the candidates' contents."""

import functools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from importlib.metadata import EntryPoint, entry_points
from numbers import Real
from types import MappingProxyType
from typing import Protocol, TypeVar, cast

import structlog

from pipeline.channels.channel import Channel
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.database.unit_of_work import reading
from pipeline.errors import FusionPluginFailed
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.keyword.inflections import is_english
from pipeline.query.request import Envelope, Query
from pipeline.ranking.fusion import (
    CONSIDERED,
    Completed,
    Fused,
    Terms,
    Weights,
    best_first,
    coverage_share,
    covered,
    feedback_share,
    followed_by,
    neighbour_feedback,
    reciprocal_rank_fusion,
    terms_of,
    weighted_fusion,
)
from pipeline.ranking.hits import Drop
from pipeline.ranking.query_weights import QueryEvidence, semantic_factor, unread_of
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import in_time
from pipeline.threads import start_call

T = TypeVar("T")

log = structlog.get_logger(__name__)

_BY_WORDS = 0.5  # of `beyond_words`: models up to it read word by word, and match no texts of other languages
_PLUGIN_S = 0.2  # a rule over a few hundred numbers takes milliseconds; a hanging one must not use up the deadline


def fuse(arrived: Arrived, channels: Mapping[ChannelName, Channel]) -> list[Fused]:
    """Return the candidates of every channel that worked, in the fused order; each channel has scored them all."""
    fusion, journal = arrived.query.plan.retrieve.fusion, arrived.journal
    rankings, weak = arrived.admitted
    completed = {} if fusion.strategy == "rrf" else _complete(arrived, rankings, channels)
    weights, evidence = _weights(arrived, rankings, completed, channels)
    journal.remarks.extend(_remarks(arrived, weak, weights, evidence))
    started = time.perf_counter()
    own = _by_plugin(arrived, rankings, weights, completed) if fusion.strategy == "custom" else None
    fused = own if own is not None else _by_rule(arrived, rankings, weights, completed)
    journal.took("fuse", started)
    journal.dropped(_drops(arrived.usable, fusion.gate, rankings, weak, fused))
    return fused


def _by_rule(arrived: Arrived, rankings: Sequence[Ranking], weights: Weights, completed: Completed) -> list[Fused]:
    """Return the candidates in the fused order.

    First come those that any ``top_k`` recalls, then those that only a greater one does: an answer begins with every
    shorter answer."""
    fusion = arrived.query.plan.retrieve.fusion

    def merge(rankings: Sequence[Ranking], completed: Completed) -> list[Fused]:
        if fusion.strategy == "rrf":
            return reciprocal_rank_fusion(rankings, weights=weights, k=fusion.k)
        return weighted_fusion(
            rankings,
            weights=weights,
            normalisation=fusion.normalisation,
            completed=completed,
            scales=_scales(arrived, rankings),
        )

    every = merge(rankings, completed)
    first = [_first_hits(ranking, least_pool(arrived.query, ranking.channel)) for ranking in rankings]
    if len(rankings) < 2 or first == list(rankings):  # a channel alone keeps its order
        return every
    candidates = {chunk_id for ranking in first for chunk_id in ranking.chunk_ids}
    known = {}
    for ranking, whole in zip(first, rankings, strict=True):
        scores = {**dict(zip(whole.chunk_ids, whole.scores, strict=True)), **completed.get(whole.channel, {})}
        others = candidates.difference(ranking.chunk_ids).intersection(scores)
        known[whole.channel] = {chunk_id: scores[chunk_id] for chunk_id in others}
    return followed_by(merge(first, known if fusion.strategy != "rrf" else {}), every)


def least_pool(query: Query, channel: ChannelName) -> int:
    """Return how many chunks a channel recalls for any ``top_k``; 0 if that follows ``top_k`` alone."""
    plan = query.plan.channels.get(channel)
    return 0 if plan is None or query.plan.retrieve.allocation != "pool" else plan.pool or 0


def _first_hits(ranking: Ranking, count: int) -> Ranking:
    """Return the first hits of a ranking; all of them for 0."""
    if not 0 < count < len(ranking.chunk_ids):
        return ranking
    return Ranking(channel=ranking.channel, chunk_ids=ranking.chunk_ids[:count], scores=ranking.scores[:count])


def _weights(
    arrived: Arrived, rankings: Sequence[Ranking], completed: Completed, channels: Mapping[ChannelName, Channel]
) -> tuple[dict[ChannelName, float], QueryEvidence | None]:
    """Return the weight of each channel with a ranking, and the evidence of the query that changed them, if any."""
    weights = {ranking.channel: arrived.reading_weights[ranking.channel] for ranking in rankings}
    evidence = None
    if {ChannelName.KEYWORD, ChannelName.SEMANTIC} <= weights.keys():
        evidence = arrived.evidence(completed, foreign=_foreign(arrived, completed, channels))
    if evidence is not None:
        weights[ChannelName.SEMANTIC] *= semantic_factor(evidence)
    return weights, evidence


def _foreign(arrived: Arrived, completed: Completed, channels: Mapping[ChannelName, Channel]) -> int | None:
    """Return how many of the first semantic hits hold no word of an English query, not even a word of grammar.

    Return None where that does not matter. The rows were read when the keyword channel scored the hits."""
    query, keyword = arrived.query, channels.get(ChannelName.KEYWORD)
    meaning, fusion = arrived.usable[ChannelName.SEMANTIC], arrived.query.plan.retrieve.fusion
    matters = fusion.query_weights and meaning.beyond_words > _BY_WORDS and is_english(query.query_text)
    if not isinstance(keyword, KeywordChannel) or not matters:
        return None
    unread = unread_of(meaning.admitted, completed.get(ChannelName.KEYWORD, {}))
    if not unread:
        return 0
    running = start_call(keyword.foreign, query, unread)
    otherwise = "the languages of the hits by meaning were not compared with the query's"
    found = _result_in_time(ChannelName.KEYWORD, running, arrived, otherwise=otherwise)
    return None if found is None else len(found)


def _result_in_time(name: ChannelName, call: Future[T], arrived: Arrived, *, otherwise: str) -> T | None:
    """Return the result of a call of a channel within the channel's own time; None, and a loss of `fuse`, without one."""
    deadline = arrived.query.deadline.at_most(arrived.query.timeout_ms_of(name) / 1000)
    return in_time(call, arrived, deadline=deadline, part="fuse", otherwise=otherwise, bug="channel_bug", channel=name)


def add_coverage(arrived: Arrived, fused: Sequence[Fused], channels: Mapping[ChannelName, Channel]) -> list[Fused]:
    """Return the fused order after `ranking.fusion`: the weight of channels that could not read the query goes to its
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
    if not applies or not isinstance(keyword, KeywordChannel):
        return list(fused)
    started = time.perf_counter()
    first = [hit.chunk_id for hit in fused[:CONSIDERED]]
    running = start_call(keyword.coverage, query, first)
    otherwise = "the coverage of the query by the candidates was not computed"
    coverage = _result_in_time(ChannelName.KEYWORD, running, arrived, otherwise=otherwise)
    if coverage is None:
        return list(fused)
    moved = _behind_in_order(covered(fused, coverage, share=share), fused)
    arrived.journal.took("coverage", started)
    return moved


def support_neighbours(
    arrived: Arrived, fused: Sequence[Fused], use: Resources, channels: Mapping[ChannelName, Channel]
) -> list[Fused]:
    """Return the fused order after `ranking.fusion`: similar candidates support each other.

    The order stays where ranks were merged, where fewer than two channels have hits and weight after the gate, and where the
    words of the candidates are late; the support shrinks with the share of the query that the channels could not read.
    Words that the keyword channel does not hold in memory cost one statement, by key.
    """
    query, fusion = arrived.query, arrived.query.plan.retrieve.fusion
    names = {ranking.channel for ranking in arrived.admitted[0] if ranking.chunk_ids}
    trust = min((envelope.trust for name, envelope in arrived.usable.items() if name in names), default=1.0)
    share = feedback_share(weight for name, weight in arrived.reading_weights.items() if name in names) * trust
    if not fusion.feedback or fusion.strategy == "rrf" or not share:
        return list(fused)
    started = time.perf_counter()
    first = [ChunkId(hit.chunk_id) for hit in fused[:CONSIDERED]]
    keyword = channels.get(ChannelName.KEYWORD)
    terms = keyword.indexed(query, first) if isinstance(keyword, KeywordChannel) else None
    if terms is None:
        terms = in_time(
            start_call(_terms, query, first, use),
            arrived,
            deadline=arrived.query.deadline.at_most(use.settings.recall_timeout_ms / 1000),
            part="feedback",
            otherwise="the candidates could not be compared with each other; the fused order stands",
            bug="feedback_bug",
        )
    if terms is None:
        return list(fused)
    moved = _behind_in_order(neighbour_feedback(fused, terms, share=share), fused)
    arrived.journal.took("feedback", started)
    return moved


def _behind_in_order(moved: Sequence[Fused], fused: Sequence[Fused]) -> list[Fused]:
    """Return moved hits; those behind the considered ones keep their former order, which their scores of 0 do not show.

    `followed_by` gives such scores."""
    if not fused or fused[-1].score > 0:
        return list(moved)
    places = {hit.chunk_id: place for place, hit in enumerate(fused)}
    return [*moved[:CONSIDERED], *sorted(moved[CONSIDERED:], key=lambda hit: places[hit.chunk_id])]


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


def _drops(
    usable: Mapping[ChannelName, Envelope],
    gate: float | None,
    rankings: Sequence[Ranking],
    weak: Mapping[ChannelName, float],
    fused: Sequence[Fused],
) -> Iterator[Drop]:
    """Yield a Drop for every chunk that only channels below the gate found, that a plug-in left out, or that scored less
    than its channel's zero and that no channel admits."""
    candidates = dict.fromkeys(chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids)
    for channel, strength in weak.items():
        for chunk_id in usable[channel].chunk_ids:
            if chunk_id not in candidates:
                yield Drop(chunk_id=chunk_id, stage="gate", reason="weak_channel", value=strength, limit=gate)
    kept = {hit.chunk_id for hit in fused}
    for chunk_id in candidates:
        if chunk_id not in kept:
            yield Drop(chunk_id=chunk_id, stage="fuse", reason="left_out_by_plugin")
    for envelope in (usable[ranking.channel] for ranking in rankings):
        for chunk_id, score in zip(envelope.chunk_ids, envelope.scores, strict=True):
            if chunk_id not in candidates and envelope.zero is not None and score < envelope.zero:
                yield Drop(chunk_id=chunk_id, stage="fuse", reason="not_admitted", value=score, limit=envelope.zero)


def _remarks(
    arrived: Arrived, weak: Mapping[ChannelName, float], weights: Weights, evidence: QueryEvidence | None
) -> Iterator[str]:
    """Report every channel below the gate; every weight that the reading gate lowered and, for a trace, that the query's
    own evidence changed, as a share of all weights before and after, unless the journal says so."""
    for channel, strength in weak.items():
        yield (
            f"the {channel} channel had no say: its best hit reaches {strength:.2f},"
            f" the gate is {arrived.query.plan.retrieve.fusion.gate:g}"
        )
    changes = list(_reading_remarks(arrived, weights))
    if arrived.query.trace and evidence is not None:
        changes.extend(_evidence_remarks(arrived, weights, evidence))
    yield from (remark for remark in changes if remark not in arrived.journal.remarks)


def _reading_remarks(arrived: Arrived, weights: Weights) -> Iterator[str]:
    planned = {channel: weight for channel, weight in arrived.planned.items() if channel in weights}
    total = math.fsum(planned.values())
    for channel in weights:
        if (weight := arrived.reading_weights[channel]) < planned[channel] and total:
            yield (
                f"reading_gate: the {channel} channel counts {weight / total:.3f} instead of {planned[channel] / total:.3f},"
                f" because its model reads too little of the query ({arrived.usable[channel].trust:.3f})"
            )


def _evidence_remarks(arrived: Arrived, weights: Weights, evidence: QueryEvidence) -> Iterator[str]:
    before = {channel: arrived.reading_weights[channel] for channel in weights}
    if (weight := weights[ChannelName.SEMANTIC]) == before[ChannelName.SEMANTIC]:
        return
    lead = "" if evidence.lead is None else f", of which the first leads by {evidence.lead:.2f} of their span"
    yield (
        f"query_weights: the semantic channel counts {weight / math.fsum(weights.values()):.3f} instead of"
        f" {before[ChannelName.SEMANTIC] / math.fsum(before.values()):.3f}, because the first hit by words covers"
        f" {evidence.covered:.2f} of the query, and {evidence.unread:.1f} of the first hits by meaning hold no word of"
        f" it{lead}"
    )


def _by_plugin(
    arrived: Arrived, rankings: Sequence[Ranking], weights: Weights, completed: Completed
) -> list[Fused] | None:
    """Return the order of the query's own fusion; None when it fails or is late."""
    name = arrived.query.plan.retrieve.fusion.plugin or ""
    try:
        if arrived.query.deadline.has_passed:
            raise TimeoutError
        call = start_call(custom_fusion, load_fusion(name), rankings, weights=weights, completed=completed)
        return call.result(timeout=arrived.query.deadline.within(_PLUGIN_S))
    except TimeoutError:
        detail = f"the fusion {name} did not end in time; weighted fusion stands in"
        arrived.journal.lost("fuse", "fusion_plugin_timeout", detail)
    except FusionPluginFailed as error:
        log.warning("fusion_plugin_failed", plugin=name, detail=str(error), exc_info=error.__cause__)
        arrived.journal.lost("fuse", error.code, f"the fusion {name} failed: {error}; weighted fusion stands in")
    return None


GROUP = "chordwise.fusion"


class FusionPlugin(Protocol):
    """A rule that fuses several channels' rankings into one score per chunk. It is called concurrently in threads."""

    def __call__(
        self, rankings: Sequence[Ranking], *, weights: Weights, completed: Completed
    ) -> Mapping[ChunkId, float]:
        """Return the score of each chunk to keep, at least 0, higher is better. ``rankings``: one per channel that
        worked, best first. ``completed``: a channel's scores of chunks that only others recalled. Do not modify the
        arguments."""
        ...


def custom_fusion(
    plugin: FusionPlugin, rankings: Sequence[Ranking], *, weights: Weights, completed: Completed | None = None
) -> list[Fused]:
    """Merge rankings by the scores of ``plugin``. Best first; equal scores are ordered by chunk id.

    A chunk without a score is dropped. A plug-in returns totals only, so ``contribution`` and ``normalized`` of every
    channel are None; rank and score are the channel's own. Raises FusionPluginFailed when the plug-in raises, invents a
    chunk, or gives a score that is not a finite number of 0 or more.
    """
    candidates = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    extra = {channel: MappingProxyType(dict(scores)) for channel, scores in (completed or {}).items()}
    try:
        scores = plugin(tuple(rankings), weights=MappingProxyType(dict(weights)), completed=MappingProxyType(extra))
    except Exception as error:  # every error of a plug-in has the same meaning: the rule did not work
        raise FusionPluginFailed(f"it raised {type(error).__name__}") from error
    if not isinstance(scores, Mapping):
        raise FusionPluginFailed(f"it gave a {type(scores).__name__} instead of a mapping from chunk to score")
    for chunk_id, score in scores.items():
        if chunk_id not in candidates:
            raise FusionPluginFailed("it gave a chunk that no channel recalled")
        if isinstance(score, bool) or not isinstance(score, Real) or not math.isfinite(score) or score < 0:
            raise FusionPluginFailed("it gave a score that is not a finite number of 0 or more")
    seen = weighted_fusion(rankings, completed=completed)
    return best_first(_rescored(hit, float(scores[hit.chunk_id])) for hit in seen if hit.chunk_id in scores)


def _rescored(hit: Fused, score: float) -> Fused:
    parts = tuple(part._replace(normalized=None, contribution=None) for part in hit.contributions)
    return hit._replace(score=score, contributions=parts)


@functools.cache
def installed_fusions() -> Mapping[str, EntryPoint]:
    """Return the installed fusions in the order of their names, without loading any."""
    return {entry.name: entry for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def load_fusion(name: str) -> FusionPlugin:
    """Return the fusion of this name. Raises FusionPluginFailed."""
    entry = installed_fusions().get(name)
    if entry is None:
        raise FusionPluginFailed("it is not installed here")
    try:
        fusion = entry.load()
    except Exception as error:  # a third-party module may raise anything when it is loaded
        raise FusionPluginFailed(f"it could not be loaded: {type(error).__name__}") from error
    if not callable(fusion):
        raise FusionPluginFailed(f"a {type(fusion).__name__} cannot be called")
    return cast(FusionPlugin, fusion)


def _complete(
    arrived: Arrived, rankings: Sequence[Ranking], channels: Mapping[ChannelName, Channel]
) -> dict[ChannelName, dict[ChunkId, float]]:
    """Return each channel's scores of the candidates that only others found, which would count as 0."""
    if len(rankings) < 2:
        return {}
    started = time.perf_counter()
    completed: dict[ChannelName, dict[ChunkId, float]] = {}
    running: dict[ChannelName, Future[dict[ChunkId, float]]] = {}
    for name, unscored in unscored_of(rankings).items():
        channel, (known, scores) = channels.get(name), arrived.scored.get(name, ((), {}))
        if unscored and known == unscored:
            completed[name] = scores
        elif channel is not None and unscored:
            running[name] = start_call(channel.score, arrived.query, unscored)
    for name, future in running.items():
        found = _result_in_time(name, future, arrived, otherwise=f"{name} could not score what other channels found")
        if found is not None:
            completed[name] = found
    arrived.journal.took("complete", started)
    return completed


def unscored_of(rankings: Sequence[Ranking]) -> dict[ChannelName, list[ChunkId]]:
    """Return the candidates that each channel did not find itself, ordered by id."""
    union = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    return {ranking.channel: sorted(union.difference(ranking.chunk_ids)) for ranking in rankings}
