"""The state of a running or answered query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import Understood
from pipeline.telemetry.tracing import OutsideCall


class ChannelRun(NamedTuple):
    """When a channel was asked (seconds since the epoch), by which worker, and its calls to stores and models."""

    started_at: float
    worker: str
    calls: Sequence[OutsideCall] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of a query. ``elapsed_ms``: by channel, of those that returned, and of ``understand``; ``answer``:
    JSON, once written. ``understood``: the result of the model, None while it is not there. ``ran``: when each channel
    was asked, by which worker. ``opened_at``: when the gateway stored it, seconds since the epoch."""

    query: Query
    status: str
    envelopes: tuple[Envelope, ...]
    elapsed_ms: dict[str, float]
    answer: bytes | None
    understood: Understood | None = None
    ran: Mapping[str, ChannelRun] = field(default_factory=dict)
    opened_at: float | None = None

    @property
    def overdue_s(self) -> float:
        """Seconds since the deadline of an unanswered query; 0 before the deadline and for an answered query."""
        return 0.0 if self.answer is not None else self.query.deadline.overdue_s()
