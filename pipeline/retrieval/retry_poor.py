"""Retrieve a second time where the first round was poor: once, within the deadline, fused with the first hits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pipeline.channels.channel import Channel
from pipeline.query.request import Query
from pipeline.ranking.hits import Hit
from pipeline.ranking.second_retrieval import changed, changes_of, merged, shortcomings
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import RESERVE_S, ask_side_by_side
from pipeline.retrieval.ask_other_wordings import ask_other_wordings
from pipeline.retrieval.journal import Journal

# Not started with less than this left for the channels.
_LEAST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRound:
    """The result of one round: all hits in their last order, and the returned ones."""

    arrived: Arrived
    ordered: list[Hit]
    returned: list[Hit]


def retry_poor(
    first: RetrievalRound,
    run: Callable[[Arrived], RetrievalRound],
    channels: Mapping[ChannelName, Channel],
    journal: Journal,
    *,
    expand: Callable[[Query], Query] | None = None,
) -> RetrievalRound:
    """Return the first round or, where it falls short of the plan's demands, the better of it and a second one: ``run``
    over the channels' results of both rounds. ``expand`` gives a query its sub-queries. Failures are losses in the
    journal."""
    query = first.arrived.query
    poor = shortcomings(first.returned, query.plan)
    if not poor:
        return first
    started, rung = time.perf_counter(), journal.rung
    understanding = query.understanding
    unrouted = query.original.plan if query.channels else None  # a query that is searched nowhere stays so
    expanded = understanding is not None and bool(understanding.sub_queries)
    changes = changes_of(query.plan, expanded=expanded, unrouted=unrouted)
    if "expand" in changes and expand is None:
        journal.lost("second", "cannot_expand", "the query was to be expanded, for which nothing is configured")
        del changes["expand"]
    best = first
    if not _is_possible(first.arrived, channels, changes, journal):
        changes = {}
    again = replace(query, plan=changed(query.plan, changes, unrouted=unrouted))
    if "expand" in changes and expand is not None:
        again = expand(again)
        if again.understanding is None or not again.understanding.sub_queries:
            del changes["expand"]  # an identifier, for one, has no sub-queries
    if changes:
        left_out = list(journal.drops)
        journal.begin_again()
        second = run(_ask_again(first.arrived, again, channels, changes, journal))
        if len(second.returned) >= len(first.returned):
            best = second
            journal.asked_again = second.arrived.envelopes
        else:
            journal.rung, journal.drops[:] = rung, left_out
    journal.second = {
        "reason": "; ".join(poor),
        "changed": changes,
        "hits_before": len(first.returned),
        "hits_after": len(best.returned),
    }
    journal.took("second", started)
    return best


def _needs_channels(changes: Mapping[str, object]) -> bool:
    """Return whether channels must be asked: changed thresholds and reranking work on the present hits."""
    return not changes.keys().isdisjoint({"pool", "method", "expand"})


def _is_possible(
    arrived: Arrived, channels: Mapping[ChannelName, Channel], changes: Mapping[str, object], journal: Journal
) -> bool:
    if not changes:
        return True
    if arrived.deadline.left_s() < RESERVE_S + _LEAST_S:
        journal.lost("second", "no_time", "the result was poor, but no time was left for a second retrieval")
        return False
    if _needs_channels(changes) and not channels:
        journal.lost("second", "no_channels", "the result was poor, but channels cannot be asked from here")
        return False
    return True


def _ask_again(
    arrived: Arrived,
    query: Query,
    channels: Mapping[ChannelName, Channel],
    changes: Mapping[str, object],
    journal: Journal,
) -> Arrived:
    """Return the results with those of a second request to the channels that may return something new."""
    envelopes = dict(arrived.envelopes)
    if not _needs_channels(changes):
        return replace(arrived, query=query)
    asked_channels = {
        name: channels[name] for name in query.channels if name in channels and _has_more(name, arrived, query, changes)
    }
    answered, elapsed_ms = ask_side_by_side(query, asked_channels)
    answered = ask_other_wordings(query, answered, asked_channels, reserve_s=RESERVE_S)
    for name, envelope in answered.items():
        if envelope.status != "ok":
            journal.lost("second", envelope.code or envelope.status, f"the {name} channel failed when asked again")
        envelopes[name] = merged(envelopes.get(name), envelope)
    together = dict(arrived.elapsed_ms)
    for channel, elapsed in elapsed_ms.items():
        together[channel] = together.get(channel, 0.0) + elapsed
    return replace(arrived, query=query, envelopes=envelopes, elapsed_ms=together)


def _has_more(name: ChannelName, arrived: Arrived, query: Query, changes: Mapping[str, object]) -> bool:
    before = arrived.usable.get(name)
    if before is None or "expand" in changes:
        return True
    # A channel that returned less than its limit has no further hits.
    full = len(before.chunk_ids) >= arrived.query.pool_of(name)
    return full and query.pool_of(name) > arrived.query.pool_of(name)
