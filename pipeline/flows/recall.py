"""Answer a query: each channel by itself, then one place where everything comes together.

The callback of the chord and whoever finds the deadline passed run the same code on what has arrived; the first
answer written wins. Nothing in here raises to the user: what is lost on the way is named in ``stats.degradations``.
"""

from __future__ import annotations

import time

import structlog

from pipeline.channels.port import Channel
from pipeline.core.query import Envelope, Query
from pipeline.errors import PipelineError, Unavailable
from pipeline.flows.answer import compose, render
from pipeline.flows.arrived import Arrived
from pipeline.flows.channels import aside
from pipeline.flows.resources import Resources
from pipeline.records import ChannelName, QueryId, TenantId

log = structlog.get_logger(__name__)

# Left for putting the answer together when a channel takes all the time it has.
_RESERVE_S = 0.1


def recall(tenant_id: TenantId, query_id: QueryId, channel: Channel, use: Resources) -> Envelope | None:
    """Ask one channel and keep what it said. None if the query is gone or answered: then nobody needs it.

    Never raises for what a channel can do wrong: it gives an envelope that says so.
    """
    query = use.queries(tenant_id).load(query_id)
    if query is None:
        return None
    started = time.perf_counter()
    envelope = _ask(query, channel)
    elapsed_ms = (time.perf_counter() - started) * 1000
    use.queries(tenant_id).report(query, envelope, elapsed_ms=elapsed_ms)
    log.info(
        "channel_answered",
        query_id=query_id,
        request_id=query.request_id,
        channel=channel.name,
        status=envelope.status,
        code=envelope.code,
        hits=len(envelope.chunk_ids),
        latency_ms=round(elapsed_ms, 2),
    )
    return envelope


def _ask(query: Query, channel: Channel) -> Envelope:
    """One channel within its time, tried again as often as the query allows while there is time left."""
    last: PipelineError | None = None
    timeout_ms = query.timeout_ms_of(channel.name)
    for _ in range(query.retry_of(channel.name) + 1):
        left = query.deadline_at - time.time() - _RESERVE_S
        if left <= 0:
            break
        try:
            found = aside(channel.recall, query).result(timeout=min(left, timeout_ms / 1000))
        except TimeoutError:
            return _lost(channel, "timeout", "timeout", f"no answer within {timeout_ms} ms")
        except Unavailable as error:
            last = error
        except PipelineError as error:
            last = error
            break
        except Exception as error:
            log.exception("channel_bug", channel=channel.name, query_id=query.query_id)
            return _lost(channel, "failed", "internal_error", f"unexpected {type(error).__name__}")
        else:
            return Envelope(
                channel=channel.name,
                status="ok",
                chunk_ids=tuple(found.chunk_ids),
                scores=tuple(found.scores),
                upper_bound=found.upper_bound,
                trust=found.trust,
                brought=tuple(found.brought),
                guard=found.guard,
            )
    if last is None:
        return _lost(channel, "timeout", "timeout", "the query's deadline had passed")
    return _lost(channel, "failed", last.code, str(last))


def _lost(channel: Channel, status: str, code: str, error: str) -> Envelope:
    return Envelope(channel=channel.name, status="timeout" if status == "timeout" else "failed", code=code, error=error)


def answer(tenant_id: TenantId, query_id: QueryId, use: Resources, channels: dict[ChannelName, Channel]) -> bool:
    """Put the answer together from what the channels have said so far, and store it. False if somebody else was first."""
    queries = use.queries(tenant_id)
    state = queries.state(query_id)
    if state is None or state.answer is not None:
        return False
    arrived = Arrived(
        query=state.query,
        envelopes={envelope.channel: envelope for envelope in state.envelopes},
        elapsed_ms=state.elapsed_ms,
    )
    composed = compose(arrived, use, channels)
    first = queries.answer(query_id, render(composed))
    log.info(
        "query_answered",
        query_id=query_id,
        request_id=state.query.request_id,
        first=first,
        chunks=len(composed.chunks),
        hits=dict(composed.stats.hits),
        degraded=composed.stats.degraded,
        degradations=[f"{lost.part}:{lost.code}" for lost in composed.stats.degradations],
        latency_ms=composed.stats.latency_ms["total"],
        config_version=state.query.config_version,
    )
    return first


def finish(
    tenant_id: TenantId, query_id: QueryId, use: Resources, channels: dict[ChannelName, Channel] | None = None
) -> None:
    """Answer a query whose deadline has passed, from what has arrived: a lost task costs its channel, not the answer."""
    answer(tenant_id, query_id, use, channels or {})
