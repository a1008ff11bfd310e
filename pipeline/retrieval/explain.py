"""Explain why a chunk is not in an answer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson
import structlog

from pipeline.answer.trace import mentions
from pipeline.answer.why_not import WhyNotVerdict, in_the_answer, why_not
from pipeline.channels.channel import Channel
from pipeline.database.unit_of_work import reading
from pipeline.documents.owned_chunk_store import recorded_chunk
from pipeline.errors import PipelineError
from pipeline.jobs.computation import Computation, Done
from pipeline.privacy.redaction import redact
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId, QueryId
from pipeline.resources import Resources
from pipeline.retrieval.ask_channels import aside
from pipeline.retrieval.ask_in_process import traced_in_process
from pipeline.retrieval.record_trace import trace_of_query

log = structlog.get_logger(__name__)

_OWN = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ})  # their hits are in our stores
_REPLAY_S = 10.0  # an explanation may take its time, unlike an answer


def explain(computation: Computation, use: Resources, channels: Mapping[ChannelName, Channel]) -> Done:
    """Explain why ``chunk_id`` is not in the answer to ``query_id``: the finding, or ``{"error": code}``. A query
    without a trace is run again with its parameters; its stored answer stays."""
    query_id, chunk_id = QueryId(computation.asked["query_id"]), ChunkId(computation.asked["chunk_id"])
    query = use.queries(computation.tenant_id).stored(query_id) or use.traces(computation.tenant_id).query(query_id)
    if query is None:
        return Done(body=orjson.dumps({"error": "not_explained"}))
    try:
        finding = _finding(query, chunk_id, use, channels)
    except PipelineError as error:
        finding = {"error": error.code}
    if query.plan.privacy.mask_answers and "detail" in finding:  # it may quote document fields
        finding["detail"] = redact(finding["detail"], kinds=query.plan.privacy.kinds)
    log.info(
        "chunk_explained", query_id=query_id, chunk_id=chunk_id, stage=finding.get("stage"), code=finding.get("error")
    )
    return Done(body=orjson.dumps(finding))


def _finding(
    query: Query, chunk_id: ChunkId, use: Resources, channels: Mapping[ChannelName, Channel]
) -> dict[str, Any]:
    with reading(use.mysql) as connection:
        recorded = recorded_chunk(connection, query.tenant_id, chunk_id)
    returned = _returned(query, use)
    if chunk_id in returned:
        rank = list(returned).index(chunk_id) + 1
        return _finding_as_json(chunk_id, returned[chunk_id], in_the_answer(rank), replayed=False)
    trace = trace_of_query(query.tenant_id, query.query_id, use)
    replayed = trace is None
    if trace is None:
        if recorded is None and _OWN.issuperset(query.channels):
            return {"error": "chunk_not_found"}  # no channel of the query brings passages from outside our stores
        trace = traced_in_process(_replayable(query), use, channels)
    if recorded is None and not mentions(trace, chunk_id) and _lost(trace):
        return {"error": "not_explained"}  # the channel that failed now may have brought it then
    if recorded is None and not mentions(trace, chunk_id):
        return {"error": "chunk_not_found"}
    scores = {} if recorded is None else _scores(_replayable(query), chunk_id, channels)
    finding = why_not(chunk_id, trace, recorded, scores, query=query)
    return _finding_as_json(chunk_id, None if recorded is None else recorded.document_id, finding, replayed=replayed)


def _lost(trace: Mapping[str, Any]) -> bool:
    """Return whether a channel failed whose hits come from outside our stores."""
    own = {name.value for name in _OWN}
    return any(outcome["status"] != "ok" for name, outcome in trace["channels"].items() if name not in own)


def _finding_as_json(
    chunk_id: ChunkId, document_id: str | None, finding: WhyNotVerdict, *, replayed: bool
) -> dict[str, Any]:
    return {"chunk_id": chunk_id, "document_id": document_id, "replayed": replayed, **asdict(finding)}


def _returned(query: Query, use: Resources) -> dict[str, str]:
    """Return the chunks of the answer with their documents, in order."""
    answer = use.queries(query.tenant_id).field(query.query_id, "answer")
    chunks = [] if answer is None else orjson.loads(answer)["chunks"]
    return {chunk["chunk_id"]: chunk["document_id"] for chunk in chunks}


def _replayable(query: Query) -> Query:
    """Return the same query with a new deadline and without revisions, so that it sees the present chunks."""
    return replace(query, trace=True, deadline_at=time.time() + _REPLAY_S, stamps={})


def _scores(query: Query, chunk_id: ChunkId, channels: Mapping[ChannelName, Channel]) -> dict[str, float]:
    """Return each channel's score of the chunk; channels that fail are left out."""
    running = {name: aside(channels[name].score, query, [chunk_id]) for name in query.channels if name in channels}
    scores: dict[str, float] = {}
    for name, future in running.items():
        try:
            score = future.result(timeout=_REPLAY_S)
        except (PipelineError, TimeoutError) as error:
            log.warning("channel_did_not_score", channel=name, error=type(error).__name__)
            continue
        if chunk_id in score:
            scores[name.value] = score[chunk_id]
    return scores
