"""The parts of one run of a query on one axis of time: the gateway, the waits in queues, the channels, the steps of
composing, and their calls to stores and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipeline.query.query_state import ChannelRun
from pipeline.telemetry.tracing import OutsideCall

SpanKind = Literal["gateway", "queue", "channel", "callback", "step", "store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """One part of a run. ``start_ms``: since the request, by the clock of the process that ran it, so that clocks apart
    show as an offset. ``name``: a channel, a step, a store; ``part``: what a wait or a call belongs to, a channel or
    `callback`; ``worker``: empty where it is unknown."""

    name: str
    kind: SpanKind
    start_ms: float
    ms: float
    part: str = ""
    worker: str = ""


def timeline(
    created_at: float,
    *,
    opened_at: float | None,
    ran: Mapping[str, ChannelRun],
    elapsed_ms: Mapping[str, float],
    composed_at: float,
    steps: Iterable[tuple[str, float, float]],
    calls: Sequence[OutsideCall],
    total_ms: float,
) -> list[TimelineSpan]:
    """Return the parts of a run in the order in which they began, each wait before its part, each call after it.

    All moments are in seconds since the epoch. ``opened_at``: the gateway stored the query, and sent it; None if that is
    unknown. ``composed_at``: the callback began. ``steps``: of the callback, with beginning and milliseconds;
    ``calls``: of the callback. A channel that did not return has no part.
    """

    def since(moment: float) -> float:
        return round((moment - created_at) * 1000, 3)

    def span(name: str, kind: SpanKind, begins: float, ms: float, part: str = "", worker: str = "") -> TimelineSpan:
        return TimelineSpan(
            name=name, kind=kind, start_ms=since(begins), ms=round(max(0.0, ms), 3), part=part, worker=worker
        )

    def outside(made: Iterable[OutsideCall], part: str) -> list[TimelineSpan]:
        return [span(call.name, "store", call.at, call.ms, part) for call in made]

    spans: list[TimelineSpan] = []
    if opened_at is not None:
        spans.append(span("gateway", "gateway", created_at, (opened_at - created_at) * 1000))
    last = opened_at
    for name, run in sorted(ran.items(), key=lambda item: (item[1].started_at, item[0])):
        if opened_at is not None and run.started_at > opened_at:
            spans.append(span("queue", "queue", opened_at, (run.started_at - opened_at) * 1000, name))
        spans.append(span(name, "channel", run.started_at, elapsed_ms.get(name, 0.0), name, run.worker))
        spans.extend(outside(run.calls, name))
        ended_at = run.started_at + elapsed_ms.get(name, 0.0) / 1000
        last = ended_at if last is None else max(last, ended_at)
    if last is not None and composed_at > last:
        spans.append(span("queue", "queue", last, (composed_at - last) * 1000, "callback"))
    spans.append(span("callback", "callback", composed_at, total_ms - since(composed_at)))
    spans.extend(span(name, "step", at, ms, "callback") for name, at, ms in steps)
    spans.extend(outside(calls, "callback"))
    return spans
