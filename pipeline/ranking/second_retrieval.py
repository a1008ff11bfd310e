"""The conditions of a second retrieval, and its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeline.query.plan import ChannelPlan, Method, Plan, UnderstandPlan
from pipeline.query.request import Envelope
from pipeline.ranking.hits import Hit
from pipeline.records import ChannelName, ChunkId


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
        best = max((hit.confidence for hit in hits), default=0.0)
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
    """Return the plan of the second retrieval. Channels of the first retrieval keep their weight under any method; a
    new method is final, so routing is off; there is no third retrieval."""
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
    brought = {item.chunk_id: item for item in (*first.brought, *again.brought)}
    return replace(
        again,
        chunk_ids=tuple(ChunkId(chunk_id) for chunk_id, _ in ordered),
        scores=tuple(score for _, score in ordered),
        upper_bound=max(bounds, default=None),
        brought=tuple(brought.values()),
    )
