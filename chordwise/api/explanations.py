"""Explanations of answers: trace, why-not, replay with other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date, datetime
from typing import Any

from chordwise.api.queries import QueryResult, query_id_of
from chordwise.contract import explanation
from chordwise.event_stream import EventStream
from chordwise.records import Result, decode
from chordwise.resource import Resource, as_content, operation, path
from chordwise.retries import RetryPolicy, exchange, problem
from chordwise.transport import Answer, Call, Steps, encode

_PROBLEM = {"content-type": "application/problem+json"}


class Stage(Result):
    """The order after one step, best first. ``round`` is 2 in a second retrieval."""

    stage: str
    round: int = 1
    hits: tuple[Mapping[str, Any], ...] = ()


class Dropped(Result):
    """A chunk dropped by a rule: its ``value``, and the ``limit`` it would have needed."""

    chunk_id: str
    stage: str
    reason: str = ""
    value: float | None = None
    limit: float | None = None


class Trace(Result):
    """The steps that led to an answer. ``explained`` gives the reason for each chunk's position; ``channels`` what each
    recalled, ``stages`` the order after each step, ``drops`` the dropped chunks. Everything else is in ``raw``."""

    query_id: str
    explained: tuple[str, ...] = ()
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    drops: tuple[Dropped, ...] = ()
    returned: tuple[str, ...] = ()
    rerank_weight: float | None = None
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    timeline: tuple[Mapping[str, Any], ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    degradations: tuple[Mapping[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


TraceSummary = explanation.TraceSummary
WhyNot = explanation.WhyNot
Difference = explanation.Difference


class Replay(Result):
    """A query run again with other settings; ``of`` is the id of the original."""

    query_id: str
    of: str
    difference: Difference
    answer: QueryResult


WrittenCitation = explanation.WrittenCitation
WrittenAnswer = explanation.WrittenAnswer


class AnswerEvent(Result):
    """One event of an answer that is being written. ``kind``: ``text`` with the next part of it in ``delta``, whose
    citations are not checked yet, or ``finished`` with the checked ``answer``."""

    kind: str
    id: str = ""
    delta: str = ""
    answer: WrittenAnswer | None = None


class AnswerEvents(EventStream[AnswerEvent]):
    """The events of one answer. A broken stream is not resumed, because the model stops with it."""

    def __init__(self, query: QueryResult | str, policy: RetryPolicy, *, timeout_s: float) -> None:
        super().__init__(_to_write(query, timeout_s, safe=False), policy)

    def event(self, kind: str, event_id: str, data: Any) -> AnswerEvent | None:
        """Return the event. Raises ProblemError for the event ``error``."""
        if kind == "error":
            status = data.get("status") if isinstance(data, dict) else None
            raise problem(Answer(status=status or 500, headers=_PROBLEM, content=encode(data)))
        if kind == "finished":
            self.finished = True
            return AnswerEvent(kind=kind, id=event_id, answer=decode(WrittenAnswer, data)).received(data)
        return decode(AnswerEvent, {"kind": kind, "id": event_id, **data}) if kind == "text" else None


class ExplanationOperations(Resource):
    """Operations that explain answers."""

    @operation
    def trace(self, query: QueryResult | str) -> Steps[Trace]:
        """Return the trace of a query asked with ``trace=True``, or of one of ``traces``. ProblemError with status 404
        for any other."""
        return self._one(Trace, "GET", _path(query, "trace"))

    @operation
    def traces(
        self,
        *,
        mark: str | None = None,
        namespace: str | None = None,
        profile: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[TraceSummary]]:
        """List kept traces, newest first: slow, degraded, failed and empty queries, requested ones, and a sample of the
        others; ``mark`` names one reason. ``limit`` None for all. Needs a key with the scope admin."""
        filters = {"mark": mark, "namespace": namespace, "profile": profile, "since": since, "until": until}
        return self._pages(TraceSummary, "/v1/traces", filters, limit=limit)

    @operation
    def why_not(self, query: QueryResult | str, chunk_id: str) -> Steps[WhyNot]:
        """Find the step that dropped a chunk. ProblemError with status 404 for an expired query
        or an unknown chunk, and with 409 before the query is answered."""
        return self._one(WhyNot, "POST", _path(query, "why-not"), body={"chunk_id": chunk_id})

    @operation
    def replay(self, query: QueryResult | str, plan: Mapping[str, Any]) -> Steps[Replay]:
        """Run a query again with parts of the plan changed, on the current documents, and compare."""
        return self._one(Replay, "POST", _path(query, "replay"), content=as_content({"plan": plan}, "plan"))

    @operation
    def write_answer(self, query: QueryResult | str, *, timeout: float = 30.0) -> Steps[WrittenAnswer]:
        """Have the server's language model answer a query from its hits, citing them, within ``timeout`` seconds (up to
        60). ProblemError with status 409 without a language model. ``stream_answer`` gives the text as it is written."""
        call = _to_write(query, timeout, safe=True)
        return decode(WrittenAnswer, (yield from exchange(call, self._policy, clock=self._clock)).json())


def _to_write(query: QueryResult | str, timeout_s: float, *, safe: bool) -> Call:
    content = as_content({"deadline_ms": round(timeout_s * 1000)})
    return Call(method="POST", path=_path(query, "answer"), content=content, hold_s=timeout_s, safe=safe)


def _path(query: QueryResult | str, explanation: str) -> str:
    return path("queries", query_id_of(query), explanation)
