"""The part of retrieval in which everything comes together: fuse, hydrate, rerank, select, compose."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import orjson
import structlog

from pipeline.answer.highlights import highlight
from pipeline.answer.mask_answers import masked
from pipeline.answer.outcome import problem_of
from pipeline.answer.result import Answer, AnswerChunk, AnswerContext, Stats
from pipeline.answer.shape import answer_chunks, source_share, understood
from pipeline.channels.channel import Channel, Worded
from pipeline.errors import Unavailable
from pipeline.keyword.terms import query_terms
from pipeline.query.plan import Plan
from pipeline.query.request import Envelope, Query, Understanding
from pipeline.ranking.confidence import confidences
from pipeline.ranking.decay import decayed
from pipeline.ranking.dedupe import deduplicated
from pipeline.ranking.fusion import Fused
from pipeline.ranking.hits import Drop, Hit, Hydrated
from pipeline.ranking.read_depth import counts_alone, needed
from pipeline.ranking.rerank_order import rerank_lift
from pipeline.ranking.selection import select
from pipeline.ranking.threshold_ladder import stepped_down
from pipeline.records import ChannelName
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.build_context import context_of
from pipeline.retrieval.complete_scores import with_coverage
from pipeline.retrieval.fall_back import fallen_back
from pipeline.retrieval.fuse import fuse
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.load_text import hydrate
from pipeline.retrieval.rerank import good_enough, reranked
from pipeline.retrieval.retry_poor import RetrievalRound, improved
from pipeline.retrieval.support_neighbours import with_feedback
from pipeline.retrieval.understand import expanded

log = structlog.get_logger(__name__)

_NOTHING = AnswerContext(text="", token_count=0, citations=())


def compose(
    arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel], journal: Journal | None = None
) -> Answer:
    """The answer to a query from what has arrived, ``journal`` telling how it came about. Never raises for a dependency:
    what is lost is named in ``stats``."""
    query, journal = arrived.query, journal or Journal(tracing=arrived.query.trace)
    journal.remarks.extend(query.remarks)
    journal.degradations.extend(arrived.losses)
    if not query.channels:  # it was understood as a question to nobody
        return empty_answer(arrived, journal)
    note_losses(arrived, journal)

    def run(said: Arrived) -> RetrievalRound:
        return _round(said, use, channels, journal)

    expand = partial(expanded, use=use) if use.settings.llm_model else None
    found, privacy = improved(run(arrived), run, channels, journal, expand=expand), query.plan.privacy
    returned = answer_chunks(found.kept, envelopes=found.arrived.usable)
    failed = problem_of(query, usable=found.arrived.usable, losses=journal.degradations, chunks=returned)
    fallback = fallen_back(found.arrived, returned, use, channels, journal, hints=failed is None)
    chunks, passages = fallback.chunks, {**{hit.chunk_id: hit.passage for hit in found.kept}, **fallback.passages}
    if privacy.mask_answers:  # before anything is made of the text that counts its characters
        passages = {chunk_id: masked(passage, kinds=privacy.kinds) for chunk_id, passage in passages.items()}
        chunks = tuple(_masked(chunk, passages[chunk.chunk_id]) for chunk in chunks)
    chunks = highlighted(query, chunks, channels)
    context = context_of(found.arrived, chunks, passages, use, journal)
    lift = rerank_lift(found.placed, top_k=query.top_k)
    return _answer(query, found.arrived, chunks, context, lift, journal, fallback=fallback.given)


def empty_answer(arrived: Arrived, journal: Journal) -> Answer:
    """Return an answer without chunks, for a query that is searched nowhere or that failed."""
    return _answer(arrived.query, arrived, (), _NOTHING, None, journal)


def note_losses(arrived: Arrived, journal: Journal) -> None:
    """Note every namespace that is missing, and every channel that did not return a result in time, or failed."""
    for name in arrived.query.missing_namespaces:
        journal.lost("namespaces", "namespace_not_found", f"there is no namespace {name}; the others were searched")
    for channel in arrived.query.channels:
        _note_loss(channel, arrived.envelopes.get(channel), journal)


def render(answer: Answer) -> bytes:
    """The answer as it is stored and sent."""
    return orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS)  # channel names are enums


def _masked(chunk: AnswerChunk, passage: Hydrated) -> AnswerChunk:
    return replace(chunk, title=passage.title, text=passage.text, metadata=passage.metadata)


def _note_loss(channel: ChannelName, envelope: Envelope | None, journal: Journal) -> None:
    if envelope is None:
        journal.lost(channel, "no_answer", f"the {channel} channel did not come back before the deadline")
    elif envelope.status != "ok":
        journal.lost(channel, envelope.code or envelope.status, envelope.error or f"the {channel} channel failed")
    elif envelope.guard:
        if (lost := envelope.guard.get("lost")) is not None:
            journal.lost(channel, lost["code"], lost["detail"])
        if (age_s := envelope.guard.get("age_s")) is not None:
            journal.answered_from_index(age_s)


def _round(
    arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel], journal: Journal
) -> RetrievalRound:
    """From what the channels said to the hits that are returned."""
    hits = _candidates(arrived, use, channels, journal)
    placed = reranked(arrived, hits, use, journal)
    journal.saw("rerank", placed)
    kept = selected(good_enough(placed, arrived.query.plan.rerank, journal), arrived.query.plan, journal)
    journal.saw("select", kept)
    return RetrievalRound(arrived=arrived, placed=placed, kept=kept)


def _candidates(
    arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel], journal: Journal
) -> list[Hit]:
    """The fused hits that can be shown, with their text, as far down as the answer may need them."""
    fused = with_coverage(arrived, fuse(arrived, channels, journal), channels, journal)
    fused = with_feedback(arrived, fused, use, channels, journal)
    sure = confidences(arrived.query.query_text, fused, arrived.usable)
    hydrated = hydrate(arrived, fused, sure, use, journal)
    hits = [
        Hit(fused=each, passage=hydrated[each.chunk_id], score=each.score, confidence=sure[each.chunk_id])
        for each in fused
        if each.chunk_id in hydrated
    ]
    journal.saw("fuse", hits)
    journal.dropped(_unread(fused, hydrated, arrived.query.plan))
    return narrowed(arrived, hits, journal)


def _unread(fused: Sequence[Fused], hydrated: Mapping[str, Hydrated], plan: Plan) -> Iterator[Drop]:
    """What stands below the last candidate whose text was read: nothing further down could have come into the answer,
    because it stands beyond ``top_k`` and nothing moves it, or because what was read is enough."""
    read = max((place for place, hit in enumerate(fused, start=1) if hit.chunk_id in hydrated), default=0)
    stays = counts_alone(plan) and needed(plan) == plan.top_k
    for place, hit in enumerate(fused[read:], start=read + 1):
        if stays and place > plan.top_k:
            yield Drop(chunk_id=hit.chunk_id, stage="select", reason="beyond_top_k", value=place, limit=plan.top_k)
        else:
            yield Drop(chunk_id=hit.chunk_id, stage="fuse", reason="below_what_was_read", value=place, limit=read)


def _answer(
    query: Query,
    arrived: Arrived,
    chunks: tuple[AnswerChunk, ...],
    context: AnswerContext,
    lift: float | None,
    journal: Journal,
    *,
    fallback: str | None = None,
) -> Answer:
    latency = {
        "total": round((time.time() - query.created_at) * 1000, 3),
        **{channel: round(elapsed, 3) for channel, elapsed in arrived.elapsed_ms.items()},
        **journal.latency_ms,
    }
    usable = arrived.usable
    stats = Stats(
        hits={channel: len(envelope.admitted) for channel, envelope in usable.items()},
        source_share=source_share(chunks),
        expanded_queries=(query.understanding or Understanding()).sub_queries,
        latency_ms=latency,
        rerank_lift=None if lift is None else round(lift, 4),
        degraded=bool(journal.degradations),
        degradations=tuple(journal.degradations),
        profile=query.profile,
        config_version=query.config_version,
        experiment_bucket=query.experiment_bucket,
        remarks=tuple(journal.remarks),
        recall={channel: envelope.guard for channel, envelope in usable.items() if envelope.guard},
        ladder=None if journal.rung is None else asdict(journal.rung),
        second=journal.second,
        fallback=fallback,
        index_age_s=journal.index_age_s,
    )
    problem = problem_of(query, usable=usable, losses=journal.degradations, chunks=chunks)
    return Answer(
        query_id=query.query_id,
        status="succeeded" if problem is None else "failed",
        query=understood(query),
        chunks=chunks,
        context=context,
        stats=stats,
        error=problem,
    )


def selected(hits: Sequence[Hit], plan: Plan, journal: Journal) -> list[Hit]:
    """The hits that are returned. Every one that is left out is noted with its number."""
    kept, dropped = select(hits, plan)
    journal.dropped(dropped)
    return kept


def narrowed(arrived: Arrived, hits: Sequence[Hit], journal: Journal) -> list[Hit]:
    """The hits with what age leaves of their scores, each thing once, and similar enough. What the plan does not ask for
    costs nothing."""
    retrieve, kept = arrived.query.plan.retrieve, list(hits)
    if retrieve.time_decay is not None:
        kept = decayed(kept, retrieve.time_decay, arrived.query.present)
        journal.saw("decay", kept)
    if retrieve.selection.dedupe != "chunk":
        kept, same = deduplicated(kept, retrieve.selection.dedupe)
        journal.dropped(same)
        journal.saw("dedupe", kept)
    if retrieve.ladder is not None:
        semantic = arrived.usable.get(ChannelName.SEMANTIC)
        kept, unlike, journal.rung = stepped_down(
            kept,
            retrieve.ladder,
            top_k=arrived.query.top_k,
            zero=None if semantic is None else semantic.zero,
            per_document=retrieve.selection.per_document,
        )
        journal.dropped(unlike)
        journal.saw("ladder", kept)
    return kept


def highlighted(
    query: Query, chunks: Sequence[AnswerChunk], channels: Mapping[ChannelName, Channel]
) -> tuple[AnswerChunk, ...]:
    """The chunks with the spans of what the keyword channel looked for, synonyms included."""
    return highlight(chunks, _terms(query, channels)) if chunks else ()


def _terms(query: Query, channels: Mapping[ChannelName, Channel]) -> tuple[str, ...]:
    """Without the dictionary they are the query's own words, which is no loss worth naming."""
    channel = channels.get(ChannelName.KEYWORD)
    if isinstance(channel, Worded):
        try:
            return channel.terms(query)
        except Unavailable as error:
            log.warning("dictionary_unavailable", query_id=query.query_id, code=error.code)
    return tuple(query_terms(query.query_text))
