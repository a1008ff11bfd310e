"""The state of a query when its answer is composed: its channels' results and their weights, and the journal of the steps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final

from chordwise.contract.answer import LadderStep, SecondRetrieval
from pipeline.documents.chunk_store import StoredChunk
from pipeline.keyword.scoring import long_share
from pipeline.keyword.terms import holds_unspaced, query_terms
from pipeline.local_models import weights_of
from pipeline.outages import OutageTolerated
from pipeline.query.plan import Lane
from pipeline.query.request import Degradation, Envelope, Query
from pipeline.query.understanding import ChannelRun, QueryState
from pipeline.ranking.fusion import Completed
from pipeline.ranking.hits import Drop, Hit
from pipeline.ranking.query_weights import QueryEvidence
from pipeline.records import ChannelName, ChunkId, Ranking
from pipeline.telemetry.tracing import OutsideCall

_FROM_INDEX: Final = (
    "{why}, so words and texts are those of this host's keyword index, whose age is stats.index_age_s: what"
    " was changed or deleted since then is shown as it was"
)
_HELD_UP: Final = "MySQL answers, but did not end a statement in time (it waits for a lock, or is busy)"


@dataclass(slots=True)
class Journal:
    """The record of one composition, written by every stage. ``orders``: the hits after each stage, recorded only when
    ``tracing``, since a trace must not change the answer. ``ladder``: where the ladder of thresholds ended. ``second``:
    the changes of a second retrieval, and ``asked_again`` the channels' results after it. ``rerank_weight``: the weight
    of the reranker's scores. ``index_age_s``: the age of the index that answered in place of MySQL. ``began_at``: when
    composing began, seconds since the epoch; ``steps``: each step with its beginning and its milliseconds; ``calls``: to
    stores and models."""

    tracing: bool = False
    began_at: float = field(default_factory=time.time)
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    calls: Sequence[OutsideCall] = ()
    degradations: list[Degradation] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)
    _drops: list[Drop] = field(default_factory=list)
    _unmade: list[Iterable[Drop]] = field(default_factory=list)
    orders: list[tuple[str, tuple[Hit, ...]]] = field(default_factory=list)
    ladder: LadderStep | None = None
    second: SecondRetrieval | None = None
    rerank_weight: float | None = None
    asked_again: Mapping[ChannelName, Envelope] | None = None
    index_age_s: float | None = None

    def lost(self, part: str, code: str, detail: str) -> None:
        """Record that something failed and that the answer continues without it."""
        lost = Degradation(part=part, code=code, detail=detail)
        if lost not in self.degradations:  # a second round may lose the same again
            self.degradations.append(lost)

    def losing(self, part: str, sentence: str) -> OutageTolerated:
        """Return a block whose outage is a loss of ``part``: the answer continues without what the block makes."""
        return OutageTolerated(lambda error: self.lost(part, error.code, f"{sentence}: {error.public}"))

    def answered_from_index(self, age_s: float, *, held_up: bool = False) -> None:
        """Record that this host's index answered instead of MySQL. ``age_s``: of its oldest revision. ``held_up``: MySQL
        answers others."""
        self.index_age_s = round(max(age_s, self.index_age_s or 0.0), 3)
        known = [loss for loss in self.degradations if loss.part == "mysql"]
        if known and not held_up:
            return
        self.degradations = [loss for loss in self.degradations if loss not in known]
        why = _HELD_UP if held_up else "MySQL did not answer in time"
        self.lost("mysql", "mysql_unavailable", _FROM_INDEX.format(why=why))

    def took(self, step: str, started: float) -> None:
        """Add the time since ``started`` (of ``time.perf_counter``) to a step, which may run twice."""
        elapsed = (time.perf_counter() - started) * 1000
        self.latency_ms[step] = round(self.latency_ms.get(step, 0.0) + elapsed, 3)
        self.steps.append((step, time.time() - elapsed / 1000, elapsed))

    @property
    def drops(self) -> list[Drop]:
        """The dropped candidates, in the order in which they were recorded."""
        self._drops.extend(chain.from_iterable(self._unmade))
        self._unmade.clear()
        return self._drops

    def dropped(self, drops: Iterable[Drop]) -> None:
        """Record dropped candidates, by rule; only when tracing. They are iterated over when they are read: most traces are
        not kept, and a query drops some hundred."""
        if self.tracing:
            self._unmade.append(drops)

    def step(self, stage: str, hits: list[Hit], drops: Iterable[Drop] = ()) -> list[Hit]:
        """Return the hits of ``stage`` after recording their order, only when tracing, and the dropped ones."""
        self.dropped(drops)
        if self.tracing:
            self.orders.append((stage, tuple(hits)))
        return hits

    def begin_again(self) -> None:
        """Forget the dropped candidates before a second round, which may return some of them."""
        self.drops.clear()
        self.remarks[:] = dict.fromkeys(self.remarks)


@dataclass(frozen=True, kw_only=True)
class Arrived:
    """A query and the results of the channels that returned one. ``losses``: of understanding the query. ``ran``: when
    each channel was asked, and by which worker. ``opened_at``: when the gateway stored the query, seconds since the
    epoch. ``lane``: the one that composes the answer. ``scored``: chunks that a channel has scored already, with their
    scores. ``texts``: chunks that were read already, None for those that are not shown. ``idle_s``: how long the query
    waited for others of its batch, which is none of its time. ``journal``: the record of the composition, one for both
    rounds."""

    query: Query
    envelopes: Mapping[ChannelName, Envelope]
    elapsed_ms: Mapping[str, float]
    losses: tuple[Degradation, ...] = ()
    ran: Mapping[str, ChannelRun] = field(default_factory=dict)
    opened_at: float | None = None
    lane: Lane = "chord"
    scored: Mapping[ChannelName, tuple[Sequence[ChunkId], dict[ChunkId, float]]] = field(default_factory=dict)
    texts: Mapping[ChunkId, StoredChunk | None] = field(default_factory=dict)
    idle_s: float = 0.0
    journal: Journal = field(default_factory=Journal)

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
    def reading_weights(self) -> dict[ChannelName, float]:
        """``planned``; with the plan's reading gate, scaled by the share of the query that each channel reads."""
        how, planned = self.query.plan.retrieve.fusion, self.planned
        if how.strategy == "rrf" or not how.reading_gate:
            return planned
        return {channel: planned[channel] * envelope.trust for channel, envelope in self.usable.items()}

    def evidence(self, completed: Completed, *, foreign: int | None = None) -> QueryEvidence | None:
        """Return what the keyword and the semantic channel found, if the plan weighs by it; None if it does not, or without
        both of them. ``completed``: their scores of what only others recalled; ``foreign``: see `QueryEvidence.of`."""
        how, usable = self.query.plan.retrieve.fusion, self.usable
        words, meaning = usable.get(ChannelName.KEYWORD), usable.get(ChannelName.SEMANTIC)
        if how.strategy == "rrf" or not how.query_weights or words is None or meaning is None:
            return None
        return QueryEvidence.of(
            words.scores,
            meaning.admitted,
            scored=completed.get(ChannelName.KEYWORD, {}),
            bound=words.upper_bound,
            unspaced=holds_unspaced(self.query.query_text),
            long=long_share(len(query_terms(self.query.query_text))),
            beyond_words=meaning.beyond_words,
            foreign=foreign,
        )

    @cached_property
    def admitted(self) -> tuple[list[Ranking], dict[ChannelName, float]]:
        """The admitted hits of each usable channel that passes the plan's gate, and the channels that do not pass. A
        channel admits hits that score no less than a chunk with nothing in common with the query."""
        rankings = [_admitted(envelope) for envelope in self.usable.values()]
        gate = self.query.plan.retrieve.fusion.gate
        if gate is None:
            return rankings, {}
        return gated(rankings, {name: envelope.upper_bound for name, envelope in self.usable.items()}, gate=gate)


def _admitted(envelope: Envelope) -> Ranking:
    pairs = envelope.admitted
    chunk_ids, scores = zip(*pairs, strict=True) if pairs else ((), ())
    return Ranking(channel=envelope.channel, chunk_ids=tuple(map(ChunkId, chunk_ids)), scores=scores)


# A channel that gives so many hits one and the same score has put them in no order at all.
_LEAST_TO_BE_FLAT = 3
_FLAT = 1e-9  # spread of the scores, as a share of the highest


def strength_of(scores: Sequence[float], upper_bound: float | None) -> float | None:
    """Return the strength of a channel's best hit: its score over the highest possible score, in [0, 1].

    Three or more hits with equal scores have no meaningful order and count as 0. None without hits or upper bound.
    """
    if not scores:
        return None
    highest, lowest = max(scores), min(scores)
    if len(scores) >= _LEAST_TO_BE_FLAT and highest - lowest <= _FLAT * abs(highest):
        return 0.0
    if not upper_bound or upper_bound < 0:
        return None
    return min(1.0, max(0.0, highest / upper_bound))


def gated(
    rankings: Sequence[Ranking], bounds: Mapping[ChannelName, float | None], *, gate: float
) -> tuple[list[Ranking], dict[ChannelName, float]]:
    """Split channels into the rankings that pass, and the weak channels with the strength of their best hit, in [0, 1], which
    is below ``gate``. A channel of unknown strength passes. If no channel with hits would pass, the strongest one does, the
    first by name among equals. Several rankings of one channel pass or fail together, by the best of them."""
    strengths: dict[ChannelName, float] = {}
    unknown = set()
    for ranking in rankings:
        strength = strength_of(ranking.scores, bounds.get(ranking.channel))
        if strength is not None:
            strengths[ranking.channel] = max(strength, strengths.get(ranking.channel, 0.0))
        elif ranking.scores:
            unknown.add(ranking.channel)
    weak = {channel for channel, strength in strengths.items() if strength < gate and channel not in unknown}
    if weak and weak == {ranking.channel for ranking in rankings if ranking.scores}:
        weak.discard(min(weak, key=lambda channel: (-strengths[channel], channel)))
    kept = [ranking for ranking in rankings if ranking.channel not in weak]
    return kept, {channel: strengths[channel] for channel in sorted(weak)}
