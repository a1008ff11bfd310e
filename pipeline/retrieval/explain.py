"""Explain why a chunk is not in an answer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import orjson
import structlog

from pipeline.channels.channel import Channel
from pipeline.database.unit_of_work import reading
from pipeline.documents.cut_document import RecordedChunk
from pipeline.documents.owned_chunk_store import recorded_chunk
from pipeline.errors import PipelineError
from pipeline.filters.python_filters import condition_as_json, unmet
from pipeline.filters.readers import Principals, may_read, principals_of
from pipeline.jobs.computation import Computation, Done
from pipeline.privacy.redaction import redact
from pipeline.query.request import Query
from pipeline.records import ChannelName, ChunkId, Comparison, Compound, QueryId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.ask_channels import RESERVE_S, ask_other_wordings, ask_side_by_side
from pipeline.retrieval.compose import compose
from pipeline.retrieval.record_trace import asked_before, mentions, trace_from, trace_of_query
from pipeline.threads import start_call

log = structlog.get_logger(__name__)

_OWN = frozenset({ChannelName.KEYWORD, ChannelName.SEMANTIC, ChannelName.FAQ})  # their hits are in our stores
_REPLAY_S = 10.0  # an explanation may take its time, unlike an answer


def explain(computation: Computation, use: Resources, channels: Mapping[ChannelName, Channel]) -> Done:
    """Explain why ``chunk_id`` is not in the answer to ``query_id``, which is run again if it has no trace."""
    query_id, chunk_id = QueryId(computation.asked["query_id"]), ChunkId(computation.asked["chunk_id"])
    query = asked_before(computation.tenant_id, query_id, use)
    if query is None:
        return Done(body=orjson.dumps({"error": "not_explained"}))
    try:
        finding = _finding(query, chunk_id, use, channels, reads_as=principals_of(computation.asked["reads_as"]))
    except PipelineError as error:
        finding = {"error": error.code}
    if query.plan.privacy.mask_answers and "detail" in finding:  # it may quote document fields
        finding["detail"] = redact(finding["detail"], kinds=query.plan.privacy.kinds)
    log.info(
        "chunk_explained", query_id=query_id, chunk_id=chunk_id, stage=finding.get("stage"), code=finding.get("error")
    )
    return Done(body=orjson.dumps(finding))


def _finding(
    query: Query,
    chunk_id: ChunkId,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    *,
    reads_as: Principals,
) -> dict[str, Any]:
    with reading(use.mysql) as connection:
        recorded = recorded_chunk(connection, query.tenant_id, chunk_id)
    if recorded is not None and not may_read(recorded.fields.readers, reads_as):
        return {"error": "chunk_not_found"}
    returned = _returned(query, use)
    if chunk_id in returned:
        rank = list(returned).index(chunk_id) + 1
        return _finding_as_json(chunk_id, returned[chunk_id], in_the_answer(rank), replayed=False)
    trace = trace_of_query(query.tenant_id, query.query_id, use)
    replayed = trace is None
    if trace is None:
        if recorded is None and _OWN.issuperset(query.channels):
            return {"error": "chunk_not_found"}  # no channel of the query brings passages from outside our stores
        arrived = replace(ask_without_storing(_replayable(query), channels), journal=Journal(tracing=True))
        trace = trace_from(arrived, compose(arrived, use, channels))
    if recorded is None and not mentions(trace, chunk_id) and _lost_outside(trace):
        return {"error": "not_explained"}  # the channel that failed now may have brought it then
    if recorded is None and not mentions(trace, chunk_id):
        return {"error": "chunk_not_found"}
    scores = {} if recorded is None else _scores(_replayable(query), chunk_id, channels)
    finding = why_not(chunk_id, trace, recorded, scores, query=query)
    return _finding_as_json(chunk_id, None if recorded is None else recorded.document_id, finding, replayed=replayed)


def ask_without_storing(query: Query, channels: Mapping[ChannelName, Channel]) -> Arrived:
    """Ask the channels in parallel and return the state that `compose` answers from."""
    asked_channels = {name: channels[name] for name in query.channels if name in channels}
    envelopes, elapsed_ms = ask_side_by_side(query, asked_channels)
    envelopes = ask_other_wordings(query, envelopes, asked_channels, reserve_s=RESERVE_S)
    return Arrived(query=query, envelopes=envelopes, elapsed_ms=elapsed_ms)


def _lost_outside(trace: Mapping[str, Any]) -> bool:
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
    running = {name: start_call(channels[name].score, query, [chunk_id]) for name in query.channels if name in channels}
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


# The field of a document that a filter of another name is about.
_FIELDS = {"start": "published_at", "end": "published_at", "where": "metadata"}
# Stages whose drops mean that a chunk was not readable or a filter excluded it; its row in MySQL tells which, and why.
_CHECKED_IN_MYSQL = frozenset({"fuse", "filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNotVerdict:
    """The verdict. ``stage``: returned, namespace, published, filter, route, channel, recall, fuse, hydrate, or the
    rule that left it out. ``value``: the chunk's number, ``limit``: the one it needed. ``channels``: the chunk's score
    and rank, and the last recalled score."""

    stage: str
    reason: str
    detail: str
    value: float | None = None
    limit: float | None = None
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def in_the_answer(position: int) -> WhyNotVerdict:
    """Return the verdict for a returned chunk."""
    return WhyNotVerdict(
        stage="returned", reason="returned", detail=f"It is in the answer, at place {position}.", value=position
    )


def why_not(
    chunk_id: str,
    trace: Mapping[str, Any],
    recorded: RecordedChunk | None,
    scores: Mapping[str, float],
    *,
    query: Query,
) -> WhyNotVerdict:
    """Return the verdict on a chunk; the run takes precedence over the present. ``trace``: of the run, or of a
    repetition now. ``recorded``: the chunk in MySQL, None if it is not there; ``scores``: each channel's present score
    of the chunk."""
    if chunk_id in trace["returned"]:
        position = trace["returned"].index(chunk_id) + 1
        detail = f"The answer does not have it; run again, the query returns it at place {position}."
        return WhyNotVerdict(stage="returned", reason="returned_when_run_again", detail=detail, value=position)
    dropped = next((drop for drop in trace["drops"] if drop["chunk_id"] == chunk_id), None)
    if dropped is not None and dropped["stage"] not in _CHECKED_IN_MYSQL:
        return _dropped(dropped)
    if (hidden := _hidden(recorded, query)) is not None and (recorded is not None or dropped is None):
        return hidden
    lost_parts = {lost["part"] for lost in trace["degradations"]}
    if dropped is not None and dropped["reason"] == "below_what_was_read" and "hydrate" in lost_parts:
        return WhyNotVerdict(stage="hydrate", reason="not_hydrated", detail="The texts of the hits could not be read.")
    if dropped is not None:
        return _dropped(dropped)
    return _not_recalled(chunk_id, trace, scores, query)


def _hidden(recorded: RecordedChunk | None, query: Query) -> WhyNotVerdict | None:
    """Return why MySQL hides a chunk from the query; None if it does not."""
    if recorded is None:
        detail = "Its document was replaced or deleted since, and nothing is left of it."
        return WhyNotVerdict(stage="published", reason="gone", detail=detail)
    if recorded.namespace not in query.namespaces_read:
        detail = f"It is in the namespace {recorded.namespace}, which the query does not search."
        return WhyNotVerdict(stage="namespace", reason="other_namespace", detail=detail)
    if not recorded.shown:
        detail = "Its document has another generation published now, or none."
        return WhyNotVerdict(stage="published", reason="not_published", detail=detail)
    if not recorded.enabled:
        return WhyNotVerdict(stage="published", reason="disabled", detail="It was taken out of searches by hand.")
    filters = replace(query.filters, readers=query.principals)
    failed = unmet(filters, recorded.fields)
    if failed is None:
        return None
    wanted, has = getattr(filters, failed), getattr(recorded.fields, _FIELDS.get(failed, failed))
    detail = f"The filter {failed} asks for {_shown(wanted)}; it has {_shown(has)}."
    return WhyNotVerdict(stage="filter", reason=failed, detail=detail)


def _shown(value: Any) -> str:
    if isinstance(value, Comparison | Compound):
        return str(condition_as_json(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping | tuple | list):
        return str(dict(value) if isinstance(value, Mapping) else list(value)) if value else "none"
    return "none" if value is None else str(value)


def _dropped(drop: Mapping[str, Any]) -> WhyNotVerdict:
    value, limit = drop["value"], drop["limit"]
    numbers = ""
    if value is not None and limit is not None:
        numbers = f": it has {value:.6g}, the limit is {limit:.6g}"
    detail = f"The stage {drop['stage']} left it out, {drop['reason'].replace('_', ' ')}{numbers}."
    return WhyNotVerdict(stage=drop["stage"], reason=drop["reason"], detail=detail, value=value, limit=limit)


def _not_recalled(chunk_id: str, trace: Mapping[str, Any], scores: Mapping[str, float], query: Query) -> WhyNotVerdict:
    """Return the verdict on a chunk that no rule dropped: no channel recalled it, or its text was lost afterwards."""
    if not trace["channels"]:
        detail = "The query was understood as one that needs no search, so nothing was searched."
        return WhyNotVerdict(stage="route", reason="searched_nowhere", detail=detail)
    channels = {
        name: _in_channel(name, chunk_id, channel, scores.get(name), query)
        for name, channel in trace["channels"].items()
    }
    if any(facts["rank"] for facts in channels.values()):
        detail = "A channel found it, and its text could not be read any more when the answer was put together."
        return WhyNotVerdict(stage="hydrate", reason="not_hydrated", detail=detail, channels=channels)
    broken = [name for name, channel in trace["channels"].items() if channel["status"] != "ok"]
    working = {name: facts for name, facts in channels.items() if name not in broken}
    if not working:
        detail = f"No channel answered: {', '.join(broken)}."
        return WhyNotVerdict(stage="channel", reason="channel_lost", detail=detail, channels=channels)
    name, facts = max(working.items(), key=lambda item: _nearness(item[1]))
    reason, detail, limit = _missed(name, facts)
    lost = f" The {', '.join(broken)} channel did not answer." if broken else ""
    return WhyNotVerdict(
        stage="recall", reason=reason, detail=detail + lost, value=facts["score"], limit=limit, channels=channels
    )


def _missed(name: str, facts: Mapping[str, Any]) -> tuple[str, str, float | None]:
    """Explain why the nearest channel did not recall a chunk: the reason, a sentence, and the number it needed."""
    score, cutoff, least, recalled = facts["score"], facts["cutoff"], facts["min_score"], facts["recalled"]
    if score is None:
        what = "It shares no word with the query." if name == "keyword" else f"The {name} channel has no score for it."
        return "no_match", what, cutoff
    if least is not None and score < least:
        detail = f"{name} scores it {score:.6g}, and recalls nothing below {least:.6g}."
        return "below_min_score", detail, least
    if cutoff is None or score > cutoff or recalled < facts["pool"]:
        detail = (
            f"{name} scores it {score:.6g} now, and had room for it: it came or changed after the query was asked, or an"
            " index that finds nearly everything passed it over."
        )
        return "passed_over", detail, cutoff
    detail = (
        f"No channel recalled it. {name} came nearest: it scores {score:.6g}, the last of the {recalled} that were"
        f" recalled has {cutoff:.6g}."
    )
    return "beyond_pool", detail, cutoff


def _in_channel(
    name: str, chunk_id: str, channel: Mapping[str, Any], score: float | None, query: Query
) -> dict[str, Any]:
    hits, plan = channel["hits"], query.plan.channels.get(ChannelName(name))
    rank = next((hit["rank"] for hit in hits if hit["chunk_id"] == chunk_id), None)
    return {
        "status": channel["status"],
        "score": None if name == ChannelName.KEYWORD and not score else score,  # its 0 is: no word in common
        "rank": rank,
        "recalled": len(hits),
        "cutoff": hits[-1]["score"] if hits else None,
        "pool": channel["pool"],
        "min_score": None if plan is None else plan.min_score,
    }


def _nearness(facts: Mapping[str, Any]) -> float:
    """Return how near a chunk came: 1 is the last recalled score, less the relative distance below it."""
    score, cutoff = facts["score"], facts["cutoff"]
    if score is None:
        return -math.inf
    if cutoff is None:
        return 1.0
    return float(1 + (score - cutoff) / (abs(cutoff) or 1.0))
