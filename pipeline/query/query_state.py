"""The state of a running or answered query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import Understood


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """The state of a query. ``elapsed_ms``: by channel, of those that returned, and of ``understand``; ``answer``:
    JSON, once written. ``understood``: the result of the model, None while it is not there. ``ran``: when each channel
    was asked (seconds since the epoch), and the worker that asked it."""

    query: Query
    status: str
    envelopes: tuple[Envelope, ...]
    elapsed_ms: dict[str, float]
    answer: bytes | None
    understood: Understood | None = None
    ran: Mapping[str, tuple[float, str]] = field(default_factory=dict)

    @property
    def overdue_s(self) -> float:
        """Seconds since the deadline of an unanswered query; 0 before the deadline and for an answered query."""
        return 0.0 if self.answer is not None else self.query.deadline.overdue_s()
