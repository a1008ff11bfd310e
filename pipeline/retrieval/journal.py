"""Record the losses, dropped candidates and times of the steps of one composition."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.query.request import Degradation, Envelope
from pipeline.ranking.hits import Drop, Hit
from pipeline.ranking.threshold_ladder import Rung
from pipeline.records import ChannelName
from pipeline.telemetry.tracing import OutsideCall

_FROM_INDEX: Final = (
    "MySQL does not answer, so words and texts are those of this host's keyword index, whose age is stats.index_age_s: what"
    " was changed or deleted since then is shown as it was"
)


@dataclass(slots=True)
class Journal:
    """The record of one composition, written by every stage. ``orders``: the hits after each stage, recorded only when
    ``tracing``, since a trace must not change the answer. ``rung``: where the ladder of thresholds ended. ``second``:
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
    drops: list[Drop] = field(default_factory=list)
    orders: list[tuple[str, tuple[Hit, ...]]] = field(default_factory=list)
    rung: Rung | None = None
    second: Mapping[str, Any] | None = None
    rerank_weight: float | None = None
    asked_again: Mapping[ChannelName, Envelope] | None = None
    index_age_s: float | None = None

    def lost(self, part: str, code: str, detail: str) -> None:
        """Record that something failed and that the answer continues without it."""
        lost = Degradation(part=part, code=code, detail=detail)
        if lost not in self.degradations:  # a second round may lose the same again
            self.degradations.append(lost)

    def answered_from_index(self, age_s: float) -> None:
        """Record that this host's index answered instead of MySQL. ``age_s``: of its oldest revision."""
        self.index_age_s = round(max(age_s, self.index_age_s or 0.0), 3)
        self.lost("mysql", "mysql_unavailable", _FROM_INDEX)

    def took(self, step: str, started: float) -> None:
        """Add the time since ``started`` (of ``time.perf_counter``) to a step, which may run twice."""
        elapsed = (time.perf_counter() - started) * 1000
        self.latency_ms[step] = round(self.latency_ms.get(step, 0.0) + elapsed, 3)
        self.steps.append((step, time.time() - elapsed / 1000, elapsed))

    def dropped(self, drops: Iterable[Drop]) -> None:
        """Record dropped candidates, by rule; only when tracing."""
        if self.tracing:
            self.drops.extend(drops)

    def saw(self, stage: str, hits: Sequence[Hit]) -> None:
        """Record the order after ``stage``; only when tracing."""
        if self.tracing:
            self.orders.append((stage, tuple(hits)))

    def step(self, stage: str, hits: list[Hit], drops: Iterable[Drop] = ()) -> list[Hit]:
        """Return the hits of ``stage`` after recording them with the dropped ones; see `saw` and `dropped`."""
        self.dropped(drops)
        self.saw(stage, hits)
        return hits

    def begin_again(self) -> None:
        """Forget the dropped candidates before a second round, which may return some of them."""
        self.drops.clear()
        self.remarks[:] = dict.fromkeys(self.remarks)
