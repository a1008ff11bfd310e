"""Ask channels again with a query's other wordings: all in one call, merged into one ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace

from pipeline.channels.channel import Channel, PreparingChannel
from pipeline.deadline import Deadline
from pipeline.query.request import Degradation, Envelope, Query
from pipeline.query.understanding import Wording, merged, pool_share, wordings_of
from pipeline.records import ChannelName
from pipeline.retrieval.ask_channels import CallFailure, aside, envelope_of, settled

_Rankings = list[tuple[Wording, Envelope]]


def unasked(query: Query, envelope: Envelope, *, code: str = "no_answer") -> Envelope:
    """Return a successful envelope with the code for its missing wordings, if the query has any."""
    lacks = envelope.status == "ok" and wordings_of(query, envelope.channel)
    return replace(envelope, unasked=code) if lacks else envelope


def ask_other_wordings(
    query: Query,
    envelopes: Mapping[ChannelName, Envelope],
    channels: Mapping[ChannelName, Channel],
    *,
    reserve_s: float,
) -> dict[ChannelName, Envelope]:
    """Return the envelopes with the hits of the query's other wordings added, asking the channels in parallel.

    Each has its channel's own time, but ends ``reserve_s`` before the query's deadline. Hits found by then count, and
    the envelope names the missing wordings. Never raises for a channel.
    """
    answers: dict[ChannelName, Envelope] = dict(envelopes)
    running: dict[ChannelName, tuple[Future[None], _Rankings, Deadline]] = {}
    deadline = query.deadline.before(reserve_s)
    for name, envelope in envelopes.items():
        wordings = wordings_of(query, name) if envelope.status == "ok" else ()
        channel = channels.get(name)
        if wordings and channel is not None and not deadline.has_passed:
            rankings: _Rankings = []
            own = deadline.at_most(query.timeout_ms_of(name) / 1000)
            running[name] = aside(_recall_each, query, channel, wordings, rankings), rankings, own
        else:
            answers[name] = unasked(query, envelope, code="timeout" if channel else "no_answer")
    for name, (future, rankings, own) in running.items():
        outcome = settled(future, own, bug="wordings_bug", channel=name, query_id=query.query_id)
        code = outcome.code if isinstance(outcome, CallFailure) else None
        both = merged(envelopes[name], tuple(rankings), pool=query.pool_of(name))
        answers[name] = replace(both, unasked=code)
    return answers


def losses_of(query: Query, envelopes: Mapping[ChannelName, Envelope]) -> list[Degradation]:
    """Return a loss for each channel with missing wordings, named after the step that made the first of them."""
    return [
        Degradation(
            part=wordings[0].step,
            code=envelope.unasked,
            detail=f"the {name} channel was not asked in every wording of the query",
        )
        for name, envelope in envelopes.items()
        if envelope.unasked and (wordings := wordings_of(query, name))
    ]


def _recall_each(query: Query, channel: Channel, wordings: Sequence[Wording], rankings: _Rankings) -> None:
    """Recall by each wording and append to ``rankings``, so that a caller that stops waiting has the results so far."""
    if isinstance(channel, PreparingChannel):
        channel.prepare(query, [wording.text for wording in wordings])
    smaller = _with_pool(query, channel.name, pool_share(query.pool_of(channel.name), len(wordings)))
    for wording in wordings:
        if query.deadline.has_passed:
            return
        recalled = channel.recall(replace(smaller, query_text=wording.text))
        rankings.append((wording, envelope_of(channel, recalled)))


def _with_pool(query: Query, name: ChannelName, pool: int) -> Query:
    retrieve = query.plan.retrieve
    channels = {**retrieve.channels, name.value: replace(retrieve.channels[name.value], pool=pool)}
    return replace(query, plan=replace(query.plan, retrieve=replace(retrieve, channels=channels)))
