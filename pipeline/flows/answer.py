"""The part of retrieval in which everything comes together: complete, fuse, hydrate, rerank, compose."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

from pipeline.channels.port import Channel
from pipeline.core.answering import Hydrated, answer_chunks, answer_context, source_share, understood
from pipeline.core.fusion import Fused, reciprocal_rank_fusion, weighted_fusion
from pipeline.core.query import Answer, AnswerChunk, AnswerContext, Degradation, Envelope, Query, Stats
from pipeline.core.reranking import Placed, rerank, rerank_lift
from pipeline.core.strategies import window_of
from pipeline.errors import PipelineError, Unavailable
from pipeline.flows.channels import aside
from pipeline.flows.resources import Resources
from pipeline.flows.widening import widened
from pipeline.records import Candidate, ChannelName, ChunkId, Ranking
from pipeline.stores.chunks import Chunks, StoredChunk
from pipeline.stores.work import reading

# Gateway and workers may be on different hosts: a query is taken to have begun this much earlier.
_CLOCKS_APART_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A query and what its channels said, those that did."""

    query: Query
    envelopes: Mapping[ChannelName, Envelope]
    elapsed_ms: Mapping[str, float]

    @property
    def usable(self) -> dict[ChannelName, Envelope]:
        """The envelopes of channels that worked, in the order the query names them."""
        named = (self.envelopes.get(channel) for channel in self.query.channels)
        return {envelope.channel: envelope for envelope in named if envelope is not None and envelope.status == "ok"}

    @property
    def left_s(self) -> float:
        """Seconds until the deadline; negative once it has passed."""
        return self.query.deadline_at - time.time()


@dataclass(slots=True)
class _Journal:
    """What one composition lost, and how long its steps took."""

    degradations: list[Degradation] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)

    def lost(self, part: str, code: str, detail: str) -> None:
        self.degradations.append(Degradation(part=part, code=code, detail=detail))

    def took(self, step: str, started: float) -> None:
        self.latency_ms[step] = round((time.perf_counter() - started) * 1000, 3)


def compose(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> Answer:
    """The answer to a query from what has arrived. Never raises for a dependency: what is lost is named in ``stats``."""
    query, journal = arrived.query, _Journal()
    for channel in query.channels:
        _note_loss(channel, arrived.envelopes.get(channel), journal)
    fused = _fuse(arrived, channels, journal)
    hydrated = _hydrate(query, fused, use, journal)
    shown = [hit for hit in fused if hit.chunk_id in hydrated]
    placed = _rerank(arrived, shown, hydrated, use, journal)
    kept = [hit for hit in placed if hit.score >= query.score_threshold][: query.top_k]
    chunks = answer_chunks(
        kept, fused={hit.chunk_id: hit for hit in shown}, hydrated=hydrated, envelopes=arrived.usable
    )
    started = time.perf_counter()
    more = _widen(query, chunks, hydrated, use, journal)
    context = answer_context(chunks, hydrated, query.context, widened=more)
    journal.took("context", started)
    return _answer(arrived, chunks, context, rerank_lift(placed, top_k=query.top_k), journal)


def render(answer: Answer) -> bytes:
    """The answer as it is stored and sent."""
    return orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS)  # channel names are enums


def _note_loss(channel: ChannelName, envelope: Envelope | None, journal: _Journal) -> None:
    if envelope is None:
        journal.lost(channel, "no_answer", f"the {channel} channel did not come back before the deadline")
    elif envelope.status != "ok":
        journal.lost(channel, envelope.code or envelope.status, envelope.error or f"the {channel} channel failed")


def _fuse(arrived: Arrived, channels: Mapping[ChannelName, Channel], journal: _Journal) -> list[Fused]:
    query = arrived.query
    rankings = [
        Ranking(
            channel=envelope.channel,
            chunk_ids=tuple(ChunkId(chunk_id) for chunk_id in envelope.chunk_ids),
            scores=envelope.scores,
        )
        for envelope in arrived.usable.values()
    ]
    weights = {ranking.channel: query.weights.get(ranking.channel, 1.0) for ranking in rankings}
    if query.strategy == "rrf":
        started = time.perf_counter()
        fused = reciprocal_rank_fusion(rankings, weights=weights, k=query.rrf_k)
    else:
        completed = _complete(arrived, rankings, channels, journal)
        started = time.perf_counter()
        fused = weighted_fusion(rankings, weights=weights, completed=completed)
    journal.took("fuse", started)
    return fused


def _complete(
    arrived: Arrived, rankings: Sequence[Ranking], channels: Mapping[ChannelName, Channel], journal: _Journal
) -> dict[ChannelName, dict[ChunkId, float]]:
    """Each channel's score of what only others found: without it, not being recalled would count as scoring nothing."""
    if len(rankings) < 2:
        return {}
    started = time.perf_counter()
    union = {chunk_id for ranking in rankings for chunk_id in ranking.chunk_ids}
    completed: dict[ChannelName, dict[ChunkId, float]] = {}
    running: dict[ChannelName, Future[dict[ChunkId, float]]] = {}
    for ranking in rankings:
        channel = channels.get(ranking.channel)
        unscored = sorted(union.difference(ranking.chunk_ids))
        if channel is not None and unscored:
            running[ranking.channel] = aside(channel.score, arrived.query, unscored)
    for name, future in running.items():
        try:
            completed[name] = future.result(timeout=max(0.0, min(arrived.left_s, arrived.query.timeout_ms / 1000)))
        except (PipelineError, TimeoutError) as error:
            code = error.code if isinstance(error, PipelineError) else "timeout"
            journal.lost("fuse", code, f"{name} could not score what other channels found")
    journal.took("complete", started)
    return completed


def _hydrate(query: Query, fused: Sequence[Fused], use: Resources, journal: _Journal) -> dict[str, Hydrated]:
    """The text of the best hits; what is not shown any more is not in the answer, and later hits take its place.

    A document that was replaced since the query began, perhaps more than once, is there with the chunks of one
    generation: the newest of those that were recalled.
    """
    started = time.perf_counter()
    wanted = max(query.top_k, query.rerank_top_n if query.enable_rerank else 0)
    found: dict[ChunkId, StoredChunk] = {}
    position = 0
    since = datetime.fromtimestamp(query.created_at - _CLOCKS_APART_S, UTC)
    try:
        while position < len(fused) and len(found) < wanted:
            ids = [ChunkId(hit.chunk_id) for hit in fused[position : position + wanted]]
            with reading(use.mysql) as connection:
                chunks = Chunks(connection, query.tenant_id)
                found |= chunks.hydrate(ids, namespaces=query.namespaces, since=since)
            position += wanted
    except Unavailable as error:
        journal.lost("hydrate", error.code, "the text of the hits could not be read")
    journal.took("hydrate", started)
    newest: dict[tuple[str, str], int] = {}
    for chunk in found.values():
        document = (chunk.namespace, chunk.document_id)
        newest[document] = max(chunk.generation, newest.get(document, 0))
    return {
        chunk_id: _hydrated(chunk)
        for chunk_id, chunk in found.items()
        if chunk.generation == newest[chunk.namespace, chunk.document_id]
    }


def _segment_fields(chunk: StoredChunk) -> dict[str, object]:
    segment = chunk.segment
    if segment is None:
        return {}
    return {
        "chapter_id": segment.chapter_id,
        "entity_names": list(segment.entity_names),
        "summary": segment.summary,
    }


def _hydrated(chunk: StoredChunk) -> Hydrated:
    fields = {
        "type": chunk.type,
        "author": chunk.author,
        "tags": list(chunk.tags),
        "published_at": chunk.published_at,
        "story_time": chunk.story_time,
        "updated_at": chunk.updated_at,
        "source_uri": chunk.source_uri,
        "generation": chunk.generation,
        "position": chunk.ordinal,
        "heading_path": list(chunk.heading_path),
        "chunk_type": None if chunk.chunk_type == "parent" else chunk.chunk_type,
        "parent_id": chunk.parent_id,
        **_segment_fields(chunk),
        "page": chunk.page,
        "start": chunk.start,
        "end": chunk.end,
    }
    return Hydrated(
        chunk_id=chunk.chunk_id,
        document_id=chunk.document_id,
        namespace=chunk.namespace,
        title=chunk.title,
        text=chunk.text,
        heading_path=chunk.heading_path,
        published_at=chunk.published_at,
        metadata={**chunk.metadata, **{name: value for name, value in fields.items() if value not in (None, [])}},
        parent_id=chunk.parent_id,
        window=window_of(chunk.chunking),
    )


def _rerank(
    arrived: Arrived, shown: Sequence[Fused], hydrated: Mapping[str, Hydrated], use: Resources, journal: _Journal
) -> list[Placed]:
    query = arrived.query
    order = [(hit.chunk_id, hit.score) for hit in shown]
    if not query.enable_rerank or not order:
        return rerank(order, {}, weight=0.0)
    started = time.perf_counter()
    candidates = [
        Candidate(
            chunk_id=ChunkId(chunk_id),
            title=hydrated[chunk_id].title,
            text=hydrated[chunk_id].text,
            published_at=hydrated[chunk_id].published_at,
        )
        for chunk_id, _ in order[: query.rerank_top_n]
    ]
    limit_s = min(use.settings.llm_timeout_s, arrived.left_s)
    try:
        if limit_s <= 0:
            raise TimeoutError
        scores = use.reranker.rerank(query.query_text, candidates, timeout_s=limit_s)
    except TimeoutError:
        journal.lost("rerank", "timeout", "reranking did not end in time; the fused order stands")
        scores = {}
    except PipelineError as error:
        journal.lost("rerank", error.code, "reranking failed; the fused order stands")
        scores = {}
    journal.took("rerank", started)
    return rerank(order, scores, weight=use.reranker.weight)


def _widen(
    query: Query, chunks: Sequence[AnswerChunk], hydrated: Mapping[str, Hydrated], use: Resources, journal: _Journal
) -> dict[str, str]:
    try:
        return widened(query.tenant_id, chunks, hydrated, query.context, use)
    except Unavailable as error:
        journal.lost("context", error.code, "what is read with the hits could not be read")
        return {}


def _answer(
    arrived: Arrived, chunks: tuple[AnswerChunk, ...], context: AnswerContext, lift: float | None, journal: _Journal
) -> Answer:
    query = arrived.query
    latency = {
        "total": round((time.time() - query.created_at) * 1000, 3),
        **{channel: round(elapsed, 3) for channel, elapsed in arrived.elapsed_ms.items()},
        **journal.latency_ms,
    }
    stats = Stats(
        hits={channel: len(envelope.chunk_ids) for channel, envelope in arrived.usable.items()},
        source_share=source_share(chunks),
        expanded_queries=(),
        latency_ms=latency,
        rerank_lift=None if lift is None else round(lift, 4),
        degraded=bool(journal.degradations),
        degradations=tuple(journal.degradations),
        profile=query.profile,
        config_version=query.config_version,
        experiment_bucket=None,
    )
    return Answer(
        query_id=query.query_id,
        status="succeeded",
        query=understood(query),
        chunks=chunks,
        context=context,
        stats=stats,
    )
