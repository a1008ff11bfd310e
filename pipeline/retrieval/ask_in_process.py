"""Retrieval in this process without Celery: the same pipeline, and the same answer."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from pipeline.channels.channel import AbsentChannel, Channel
from pipeline.errors import Unavailable
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import ChannelRun, QueryState
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import RESERVE_S, aside, ask_other_wordings, ask_side_by_side
from pipeline.retrieval.compose import compose
from pipeline.retrieval.record_trace import trace_from
from pipeline.retrieval.run_chord import ask_and_report, settle
from pipeline.retrieval.understand import understand
from pipeline.telemetry.tracing import OutsideCall

log = structlog.get_logger(__name__)

_MOST_CHANNELS: Final = 32  # calls at a time, of all queries of this process

# A thread here waits for a channel call, as a worker's thread does in a header of the chord.
_Result = tuple[Envelope, float, Sequence[OutsideCall]]  # with milliseconds
_SIDE = ThreadPoolExecutor(_MOST_CHANNELS, thread_name_prefix="lane-channel")


def answer_in_process(
    tenant_id: TenantId, query_id: QueryId, use: Resources, channels: Mapping[ChannelName, Channel], *, worker: str = ""
) -> bool:
    """Answer an open query as the tasks of its chord do, with the same breakers, bulkhead, metrics and log lines, and
    store the answer; False if it is gone or answered. Results are stored first, so that another process can finish the
    query. ``worker``: the name of this process. Raises StoreUnavailable."""
    query = use.queries(tenant_id).load(query_id)
    if query is None:
        return False
    if query.model_steps:
        aside(understand, tenant_id, query_id, use)  # the composing process waits for its result in Redis
    began_at, results = time.time(), _ask_all(query, use, channels, worker)
    state = QueryState(
        query=query,
        status="running",
        envelopes=tuple(results[name][0] for name in sorted(results)),
        elapsed_ms={name.value: results[name][1] for name in sorted(results)},
        answer=None,
        ran={name.value: ChannelRun(began_at, worker, calls) for name, (_, _, calls) in results.items()},
    )
    return settle(state, use, channels, lane="in_process")


def _ask_all(
    query: Query, use: Resources, channels: Mapping[ChannelName, Channel], worker: str
) -> dict[ChannelName, _Result]:
    """Ask every channel of a query in parallel. A channel that raised an error is left out."""

    def ask(name: ChannelName) -> _Result:
        return ask_and_report(query, channels.get(name) or AbsentChannel(name), use, worker=worker)

    names = query.channels
    running = {name: _SIDE.submit(copy_context().run, ask, name).result for name in names[1:]}
    running |= {name: partial(ask, name) for name in names[:1]}  # the first one in this thread
    results: dict[ChannelName, _Result] = {}
    for name in names:
        try:
            results[name] = running[name]()
        except Unavailable as error:
            log.warning("channel_not_reported", channel=name, query_id=query.query_id, code=error.code)
        except Exception as error:  # as a header that raises: the answer names the channel
            log.exception("channel_bug", channel=name, query_id=query.query_id, error=type(error).__name__)
    return results


def traced_in_process(query: Query, use: Resources, channels: Mapping[ChannelName, Channel]) -> dict[str, Any]:
    """Return the trace of a query that is answered in this process."""
    arrived = replace(arrived_in_process(query, channels), journal=Journal(tracing=True))
    return trace_from(arrived, compose(arrived, use, channels))


def arrived_in_process(query: Query, channels: Mapping[ChannelName, Channel]) -> Arrived:
    """Ask the channels in parallel and return the state that `compose` answers from. Stores nothing."""
    asked_channels = {name: channels[name] for name in query.channels if name in channels}
    envelopes, elapsed_ms = ask_side_by_side(query, asked_channels)
    envelopes = ask_other_wordings(query, envelopes, asked_channels, reserve_s=RESERVE_S)
    return Arrived(query=query, envelopes=envelopes, elapsed_ms=elapsed_ms)
