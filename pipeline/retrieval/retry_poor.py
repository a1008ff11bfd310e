"""Retrieve a second time where the first round was poor: once, within the deadline, fused with the first hits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from chordwise.contract.answer import SecondRetrieval, sureness
from pipeline.channels.channel import Channel
from pipeline.query.plan import ChannelPlan, Method, Plan, UnderstandPlan
from pipeline.query.request import Degradation, Envelope, Query
from pipeline.ranking.hits import Hit
from pipeline.records import ChannelName, ChunkId
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import RESERVE_S, ask_other_wordings, ask_side_by_side

# Not started with less than this left for the channels.
LEAST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRound:
    """The result of one round: all hits in their last order, and the returned ones. ``capped``: the number of hits that
    were left out as duplicates, or beyond the cap of their document."""

    arrived: Arrived
    ordered: list[Hit]
    returned: list[Hit]
    capped: int = 0


def retry_poor(
    first: RetrievalRound,
    run: Callable[[Arrived], RetrievalRound],
    channels: Mapping[ChannelName, Channel],
    *,
    expand: Callable[[Query], tuple[Query, Sequence[Degradation]]] | None = None,
) -> RetrievalRound:
    """Return the first round or, where it falls short of the plan's demands, the better of it and a second one: ``run``
    over the channels' results of both rounds. ``expand`` gives a query its sub-queries, and the losses on the way.
    Failures are losses in the journal."""
    query, journal = first.arrived.query, first.arrived.journal
    poor = shortcomings(first.returned, query.plan)
    if not poor:
        return first
    started, ladder = time.perf_counter(), journal.ladder
    understanding = query.understanding
    unrouted = query.original.plan if query.channels else None  # a query that is searched nowhere stays so
    expanded = understanding is not None and bool(understanding.sub_queries)
    changes = changes_of(query.plan, expanded=expanded, unrouted=unrouted)
    if "expand" in changes and expand is None:
        journal.lost("second", "cannot_expand", "the query was to be expanded, for which nothing is configured")
        del changes["expand"]
    best = first
    if not _is_possible(first.arrived, channels, changes):
        changes = {}
    again = replace(query, plan=changed(query.plan, changes, unrouted=unrouted))
    if "expand" in changes and expand is not None:
        again, losses = expand(again)
        for loss in losses:
            journal.lost(loss.part, loss.code, loss.detail)
        if again.understanding is None or not again.understanding.sub_queries:
            del changes["expand"]  # the model failed, or there are none, as for an identifier
    if changes:
        left_out = list(journal.drops)
        journal.begin_again()
        second = run(_ask_again(first.arrived, again, channels, changes))
        if len(second.returned) >= len(first.returned):
            best = second
            journal.asked_again = second.arrived.envelopes
        else:
            journal.ladder, journal.drops[:] = ladder, left_out
    journal.second = SecondRetrieval(
        reason="; ".join(poor),
        changed=changes,
        hits_before=len(first.returned),
        hits_after=len(best.returned),
    )
    journal.took("second", started)
    return best


def _needs_channels(changes: Mapping[str, object]) -> bool:
    """Return whether channels must be asked: changed thresholds and reranking work on the present hits."""
    return not changes.keys().isdisjoint({"pool", "method", "expand"})


def _is_possible(arrived: Arrived, channels: Mapping[ChannelName, Channel], changes: Mapping[str, object]) -> bool:
    if not changes:
        return True
    if arrived.query.deadline.left_s() < RESERVE_S + LEAST_S:
        arrived.journal.lost("second", "no_time", "the result was poor, but no time was left for a second retrieval")
        return False
    if _needs_channels(changes) and not channels:
        arrived.journal.lost("second", "no_channels", "the result was poor, but channels cannot be asked from here")
        return False
    return True


def _ask_again(
    arrived: Arrived, query: Query, channels: Mapping[ChannelName, Channel], changes: Mapping[str, object]
) -> Arrived:
    """Return the results with those of a second request to the channels that may return something new."""
    if not _needs_channels(changes):
        return replace(arrived, query=query)
    asked_channels = {
        name: channels[name] for name in query.channels if name in channels and _has_more(name, arrived, query, changes)
    }
    return with_answers(arrived, query, asked_channels, part="second")[0]


def with_answers(
    arrived: Arrived, query: Query, channels: Mapping[ChannelName, Channel], *, part: str
) -> tuple[Arrived, Mapping[ChannelName, Envelope]]:
    """Ask these channels ``query``. Return the results with theirs, and theirs alone; a failure is a loss of ``part``."""
    envelopes = dict(arrived.envelopes)
    answered, elapsed_ms = ask_side_by_side(query, channels)
    answered = ask_other_wordings(query, answered, channels, reserve_s=RESERVE_S)
    for name, envelope in answered.items():
        if envelope.status != "ok":
            arrived.journal.lost(part, envelope.code or envelope.status, f"the {name} channel failed when asked again")
        elif lost := (envelope.guard or {}).get("lost"):
            arrived.journal.lost(name, lost["code"], lost["detail"])
        envelopes[name] = merged(envelopes.get(name), envelope)
    together = dict(arrived.elapsed_ms)
    for channel, elapsed in elapsed_ms.items():
        together[channel] = together.get(channel, 0.0) + elapsed
    return replace(arrived, query=query, envelopes=envelopes, elapsed_ms=together), answered


def _has_more(name: ChannelName, arrived: Arrived, query: Query, changes: Mapping[str, object]) -> bool:
    before = arrived.usable.get(name)
    if before is None or "expand" in changes:
        return True
    # A channel that returned less than its limit has no further hits.
    full = len(before.chunk_ids) >= arrived.query.pool_of(name)
    return full and query.pool_of(name) > arrived.query.pool_of(name)


def shortcomings(hits: Sequence[Hit], plan: Plan) -> list[str]:
    """Return the conditions of the plan that these hits, the ones to be returned, fail to meet, in words."""
    second = plan.retrieve.second
    if second is None:
        return []
    reasons = []
    wanted = None if second.min_hits is None else min(second.min_hits, plan.top_k)
    if wanted is not None and len(hits) < wanted:
        reasons.append(f"min_hits: {len(hits)} of {wanted}")
    documents = {hit.document for hit in hits}
    wanted = None if second.min_documents is None else min(second.min_documents, plan.top_k)
    if wanted is not None and len(documents) < wanted:
        reasons.append(f"min_documents: {len(documents)} of {wanted}")
    if second.min_score is not None:
        best = max((sureness(hit.confidence) for hit in hits), default=0.0)
        if best < second.min_score:
            reasons.append(f"min_score: {best:.4f} of {second.min_score:g}")
    return reasons


def changes_of(plan: Plan, *, expanded: bool, unrouted: Plan | None = None) -> dict[str, Any]:
    """Return the settings that a second retrieval changes, with new values. Settings that hold already are omitted, and
    so are those that would narrow the search: a threshold is only lowered, a pool only enlarged. ``expanded``: whether
    the query has been expanded already. ``unrouted``: the plan before a route removed a channel; a method that names
    this channel brings it back."""
    second = plan.retrieve.second
    if second is None:
        return {}
    changes: dict[str, Any] = {}
    if second.score_threshold is not None and second.score_threshold < plan.retrieve.score_threshold:
        changes["score_threshold"] = second.score_threshold
    if second.pool is not None and any(
        plan.retrieve.allocation != "pool" or (channel.pool or 0) < second.pool for channel in plan.channels.values()
    ):
        changes["pool"] = second.pool
    if second.method is not None and (
        second.method != plan.retrieve.method or not _by(second.method, unrouted or plan) <= plan.channels.keys()
    ):
        changes["method"] = second.method
    if second.expand is True and not expanded:
        changes["expand"] = True
    if second.rerank is not None and second.rerank != plan.rerank.enabled:
        changes["rerank"] = second.rerank
    return changes


def changed(plan: Plan, changes: Mapping[str, Any], *, unrouted: Plan | None = None) -> Plan:
    """Return the plan of the second retrieval: channels keep their weight; no routing, no third retrieval."""
    retrieve, whole = plan.retrieve, (unrouted or plan).retrieve.channels
    channels: dict[Any, ChannelPlan] = dict(whole if "method" in changes else retrieve.channels)
    if "pool" in changes:
        own = retrieve.allocation == "pool"  # or the channels' pools had no say so far
        channels = {
            name: replace(channel, pool=max(changes["pool"], channel.pool or 0 if own else 0))
            for name, channel in channels.items()
        }
    method, understand = retrieve.method, plan.understand
    if "method" in changes:
        searched = {*plan.channels, *_by(changes["method"], unrouted or plan)}
        channels = {
            name: channel if ChannelName(name) in searched else replace(channel, weight=0.0)
            for name, channel in channels.items()
        }
        method, understand = "hybrid", replace(understand, router="off")
    if "expand" in changes:
        understand = replace(understand, enabled=True, expand=understand.expand or UnderstandPlan().expand)
    return replace(
        plan,
        retrieve=replace(
            retrieve,
            method=method,
            channels=channels,
            allocation="pool" if "pool" in changes else retrieve.allocation,
            score_threshold=changes.get("score_threshold", retrieve.score_threshold),
            second=None,
        ),
        rerank=replace(plan.rerank, enabled=changes.get("rerank", plan.rerank.enabled)),
        understand=understand,
    )


def _by(method: Method, plan: Plan) -> set[ChannelName]:
    """Return the channels that a plan would search by another method."""
    return set(replace(plan, retrieve=replace(plan.retrieve, method=method)).channels)


def merged(first: Envelope | None, again: Envelope) -> Envelope:
    """Merge two results of a channel: every chunk with its best score, best first, equal scores by chunk id. If one of
    the two failed, return the other."""
    if first is None or first.status != "ok":
        return again
    if again.status != "ok":
        return first
    scores: dict[str, float] = dict(zip(first.chunk_ids, first.scores, strict=True))
    for chunk_id, score in zip(again.chunk_ids, again.scores, strict=True):
        scores[chunk_id] = max(score, scores.get(chunk_id, score))
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    bounds = [item.upper_bound for item in (first, again) if item.upper_bound is not None]
    supplied = {item.chunk_id: item for item in (*first.supplied, *again.supplied)}
    return replace(
        again,
        chunk_ids=tuple(ChunkId(chunk_id) for chunk_id, _ in ordered),
        scores=tuple(score for _, score in ordered),
        upper_bound=max(bounds, default=None),
        supplied=tuple(supplied.values()),
    )
