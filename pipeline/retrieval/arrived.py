"""The state of a query when its answer is composed: its channels' results, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.deadline import Deadline
from pipeline.keyword.scoring import long_share
from pipeline.keyword.terms import query_terms
from pipeline.local_models import weights_of
from pipeline.query.plan import Lane
from pipeline.query.request import Degradation, Envelope, Query
from pipeline.query.understanding import ChannelRun, QueryState
from pipeline.ranking.channel_gate import WeakChannel, gated, lead_factor
from pipeline.records import ChannelName, ChunkId, Ranking


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A query and the results of the channels that returned one. ``losses``: of understanding the query. ``ran``: when
    each channel was asked, and by which worker. ``opened_at``: when the gateway stored the query, seconds since the
    epoch. ``lane``: the one that composes the answer."""

    query: Query
    envelopes: Mapping[ChannelName, Envelope]
    elapsed_ms: Mapping[str, float]
    losses: tuple[Degradation, ...] = ()
    ran: Mapping[str, ChannelRun] = field(default_factory=dict)
    opened_at: float | None = None
    lane: Lane = "chord"

    @classmethod
    def of(cls, state: QueryState) -> Arrived:
        """Return the results that a query has so far."""
        envelopes = {envelope.channel: envelope for envelope in state.envelopes}
        elapsed_ms, ran, opened_at = state.elapsed_ms, state.ran, state.opened_at
        return cls(query=state.query, envelopes=envelopes, elapsed_ms=elapsed_ms, ran=ran, opened_at=opened_at)

    @cached_property
    def usable(self) -> dict[ChannelName, Envelope]:
        """The envelopes of channels that succeeded, in the order in which the query names them."""
        named = (self.envelopes.get(channel) for channel in self.query.channels)
        return {envelope.channel: envelope for envelope in named if envelope is not None and envelope.status == "ok"}

    @cached_property
    def planned(self) -> dict[ChannelName, float]:
        """The weight of each usable channel: the plan's or, with the default weights, that of the embedding model."""
        plans, usable, how = self.query.plan.channels, self.usable, self.query.plan.retrieve.fusion
        semantic = usable.get(ChannelName.SEMANTIC)
        planned = {channel: plans[channel].weight for channel in usable}
        if semantic is None or how.strategy == "rrf" or not how.reading_gate:
            return planned
        return {**planned, **weights_of(semantic.model, planned)}

    @cached_property
    def weights(self) -> dict[ChannelName, float]:
        """``planned``, scaled by each channel's reading and, if planned, by the semantic channel's own signal."""
        how, weights = self.query.plan.retrieve.fusion, self.reading_weights
        semantic = self.usable.get(ChannelName.SEMANTIC)
        if how.strategy == "rrf" or not how.query_weights or semantic is None or len(weights) < 2:
            return weights
        share = long_share(len(query_terms(self.query.query_text)))
        factor = lead_factor([score for _, score in semantic.admitted], share=share)
        return {**weights, ChannelName.SEMANTIC: weights[ChannelName.SEMANTIC] * factor}

    @cached_property
    def reading_weights(self) -> dict[ChannelName, float]:
        """``planned``; with the plan's reading gate, scaled by the share of the query that each channel reads."""
        how, planned = self.query.plan.retrieve.fusion, self.planned
        if how.strategy == "rrf" or not how.reading_gate:
            return planned
        return {channel: planned[channel] * envelope.trust for channel, envelope in self.usable.items()}

    @cached_property
    def admitted(self) -> tuple[list[Ranking], list[WeakChannel]]:
        """The admitted hits of each usable channel that passes the plan's gate, and the channels that do not pass. A
        channel admits hits that score no less than a chunk with nothing in common with the query."""
        rankings = [_admitted(envelope) for envelope in self.usable.values()]
        gate = self.query.plan.retrieve.fusion.gate
        if gate is None:
            return rankings, []
        return gated(rankings, {name: envelope.upper_bound for name, envelope in self.usable.items()}, gate=gate)

    @property
    def deadline(self) -> Deadline:
        """The deadline of the query."""
        return self.query.deadline


def _admitted(envelope: Envelope) -> Ranking:
    pairs = envelope.admitted
    chunk_ids, scores = zip(*pairs, strict=True) if pairs else ((), ())
    return Ranking(channel=envelope.channel, chunk_ids=tuple(map(ChunkId, chunk_ids)), scores=scores)
