"""A query at its end, as it is shown to operators: ids, times, codes and numbers, no text."""

from __future__ import annotations

import time

from pipeline.answer.ended_query import UNDERSTAND, EndedQuery, TaskRun
from pipeline.answer.result import Answer
from pipeline.query.request import Envelope
from pipeline.records import ChannelName
from pipeline.retrieval.arrived import Arrived


def ended_query(arrived: Arrived, answer: Answer, *, began_at: float) -> EndedQuery:
    """Return the tasks of a query and its outcome. ``began_at``: when composing began, seconds since the epoch."""
    query = arrived.query
    runs = [_run(channel, arrived) for channel in query.channels]
    if query.model_steps and UNDERSTAND in arrived.elapsed_ms:
        runtime_s = arrived.elapsed_ms[UNDERSTAND] / 1000
        runs.append(TaskRun(part=UNDERSTAND, worker="", started_at=query.created_at, runtime_s=runtime_s))
    losses = [f"{lost.part}:{lost.code}" for lost in answer.stats.degradations]
    return EndedQuery(
        tenant_id=query.tenant_id,
        query_id=query.query_id,
        runs=tuple(runs),
        composed_at=began_at,
        composing_s=max(0.0, time.time() - began_at),
        total_ms=(time.time() - query.created_at) * 1000,
        degraded=answer.stats.degraded,
        error="" if answer.error is None else answer.error.code,
        result=" ".join([f"{len(answer.chunks)} chunks", *(["degraded", *losses] if losses else [])]),
    )


def _run(channel: ChannelName, arrived: Arrived) -> TaskRun:
    started_at, worker = arrived.ran.get(channel, (arrived.query.created_at, ""))
    envelope = arrived.envelopes.get(channel)
    return TaskRun(
        part=channel.value,
        worker=worker,
        started_at=started_at,
        runtime_s=arrived.elapsed_ms.get(channel, 0.0) / 1000,
        error=_error(envelope),
        result="" if envelope is None else f"{len(envelope.chunk_ids)} hits",
    )


def _error(envelope: Envelope | None) -> str:
    if envelope is None:
        return "no_answer"
    return "" if envelope.status == "ok" else envelope.code or envelope.status
