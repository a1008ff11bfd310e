"""Ask stores for many queries of a tenant by one statement each. A query without a result asks for itself."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import structlog

from pipeline.channels.channel import Channel
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.channels.semantic_channel import SemanticChannel
from pipeline.database.rows import slices
from pipeline.deadline import Deadline
from pipeline.errors import CircuitOpen, Unavailable
from pipeline.outages import tolerate_outage
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import wordings_of
from pipeline.records import ChannelName, ChunkId, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.ask_channels import CallFailure, envelope_of, settled
from pipeline.retrieval.fuse import unscored_of
from pipeline.retrieval.measure import measure_channel
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

T = TypeVar("T")
R = TypeVar("R")

_TOGETHER: Final = 4  # queries, of some milliseconds each, in which those of other tenants wait
_LONGEST_S: Final = 2.0  # then each query asks for itself, as after a failure

Scored = dict[ChannelName, tuple[Sequence[ChunkId], dict[ChunkId, float]]]


def recall_at_once(
    queries: Sequence[Query], use: Resources, channels: Mapping[ChannelName, Channel], pause: Callable[[], object]
) -> dict[QueryId, dict[ChannelName, tuple[Envelope, float]]]:
    """Return the envelopes of both channels over chunks, with the milliseconds of each, for queries in one wording. ``pause``
    is called before each part of the work."""
    known: dict[QueryId, dict[ChannelName, tuple[Envelope, float]]] = {}
    for name in (ChannelName.SEMANTIC, ChannelName.KEYWORD):
        channel = channels.get(name)
        alone = [query for query in queries if name in query.channels and not query.model_steps]
        asked = [query for query in alone if not wordings_of(query, name)]
        if not isinstance(channel, SemanticChannel | KeywordChannel) or len(asked) < 2:
            continue
        for some in slices(asked, _TOGETHER):
            pause()
            started = time.perf_counter()
            recalled = _at_once(some[0].tenant_id, channel.recall_each, some, name, use)
            elapsed_ms = (time.perf_counter() - started) * 1000 / len(some)
            for query in some:
                if query.query_id in recalled:
                    envelope = envelope_of(channel, recalled[query.query_id])
                    measure_channel(query, envelope, elapsed_ms, use.meter)
                    known.setdefault(query.query_id, {})[name] = envelope, elapsed_ms
    return known


def score_at_once(
    every: Iterable[Arrived], use: Resources, channels: Mapping[ChannelName, Channel], pause: Callable[[], object]
) -> dict[QueryId, Scored]:
    """Return the scores that fusion asks channels for, of the candidates that only others found. ``pause``: as above."""
    unscored: dict[ChannelName, list[tuple[Query, Sequence[ChunkId]]]] = {}
    for arrived in every:
        rankings = arrived.admitted[0] if arrived.query.plan.retrieve.fusion.strategy != "rrf" else []
        for name, chunk_ids in unscored_of(rankings).items():
            if chunk_ids:
                unscored.setdefault(name, []).append((arrived.query, chunk_ids))
    found: dict[QueryId, Scored] = {}
    for name, asked in unscored.items():
        if not isinstance(channel := channels.get(name), SemanticChannel | KeywordChannel):
            continue
        for some in slices(asked, _TOGETHER):
            pause()
            scores = _at_once(some[0][0].tenant_id, channel.score_each, some, name, use)
            for query, named in some:
                if query.query_id in scores:
                    found.setdefault(query.query_id, {})[name] = named, scores[query.query_id]
    return found


def _at_once(
    tenant_id: TenantId,
    call: Callable[[Sequence[T]], dict[QueryId, R]],
    asked: Sequence[T],
    name: ChannelName,
    use: Resources,
) -> dict[QueryId, R]:
    """Return the result of a call of a channel for many queries; nothing if it fails, is late, or may not be made."""
    with tolerate_outage(log.warning, "queries_not_asked_at_once", also=(CircuitOpen,)), use.bulkhead.place(name):
        permit = use.breakers.enter(name, tenant_id)
        if permit is None:
            return {}
        result = settled(start_call(call, asked), Deadline.after(_LONGEST_S), bug="batch_recall_bug", channel=name)
        if not isinstance(result, CallFailure):
            use.breakers.leave(permit, failed=False)
            return result
        use.breakers.leave(permit, failed=result.error is None or isinstance(result.error, Unavailable))
        log.warning("queries_not_asked_at_once", channel=name, code=result.code, queries=len(asked))
    return {}
