"""Compose the answer to a query: the steps from the channels' results to the stored answer, in order."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import structlog

from chordwise.contract.answer import AnswerChunk, AnswerContext, Stats
from pipeline.answer.highlights import highlight
from pipeline.answer.mask_answers import masked
from pipeline.answer.result import Answer, answer_chunks, problem_of, source_share, understood
from pipeline.channels.channel import Channel
from pipeline.channels.keyword_channel import KeywordChannel
from pipeline.keyword.terms import query_terms
from pipeline.outages import tolerate_outage
from pipeline.query.request import Envelope, Query, Understanding
from pipeline.ranking.fusion import Fused
from pipeline.ranking.hits import Hydrated
from pipeline.ranking.selection import BEYOND_PER_DOCUMENT, decayed, deduplicated, select, stepped_down
from pipeline.records import ChannelName
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived, Journal
from pipeline.retrieval.build_context import build_context
from pipeline.retrieval.count_facets import count_facets
from pipeline.retrieval.fall_back import fall_back
from pipeline.retrieval.fill_caps import fill_caps
from pipeline.retrieval.fill_groups import answer_groups, fill_groups
from pipeline.retrieval.fuse import add_coverage, fuse, support_neighbours
from pipeline.retrieval.load_text import load_text
from pipeline.retrieval.rerank import passing, rerank_hits, rerank_lift
from pipeline.retrieval.retry_poor import RetrievalRound, retry_poor
from pipeline.retrieval.understand import expand_query

log = structlog.get_logger(__name__)

_NOTHING = AnswerContext(text="", token_count=0, citations=(), entities=())
_ON_REQUEST = ("context", "highlights", "facets", "groups")  # fields that an answer has only if the query asks for them


def compose(
    arrived: Arrived,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    fused: Sequence[Fused] | None = None,
) -> Answer:
    """Compose the answer to a query from its channels' results, in these steps; `rank` has those of one round. Never
    raises for a dependency: the journal names losses for ``stats``. ``fused``: the result of `first_order`, if it was
    called."""
    query, journal = arrived.query, arrived.journal
    fused = first_order(arrived, use, channels) if fused is None else fused
    if not query.channels:  # understood as a question that no namespace answers
        return empty_answer(arrived)

    def rank_round(arrived: Arrived, fused: Sequence[Fused] | None = None) -> RetrievalRound:
        fill = fill_caps if query.plan.retrieve.selection.group_by is None else fill_groups
        first = rank(arrived, use, channels, fused)
        return fill(first, partial(rank, use=use, channels=channels), channels)

    expand = partial(expand_query, use=use) if use.settings.llm_model else None
    ranked = retry_poor(rank_round(arrived, fused), rank_round, channels, expand=expand)
    chunks = answer_chunks(ranked.returned, envelopes=ranked.arrived.usable)
    failed = problem_of(query, usable=ranked.arrived.usable, losses=journal.degradations, chunks=chunks)
    fallback = fall_back(ranked.arrived, chunks, use, channels, hints=failed is None)
    passages: Mapping[str, Hydrated] = {hit.chunk_id: hit.passage for hit in ranked.returned} | dict(fallback.passages)
    chunks, passages = _mask(query, fallback.chunks, passages)
    if query.plan.highlight:
        chunks = highlight(chunks, _terms(query, channels))
    context = build_context(ranked.arrived, [passages[chunk.chunk_id] for chunk in chunks], use)
    lift = rerank_lift(ranked.ordered, top_k=query.top_k)
    facets = count_facets(ranked.arrived, use, channels)
    _record_own_losses(ranked.arrived, channels)
    answer = _answer(query, ranked.arrived, chunks, context, lift, fallback=fallback.given)
    return replace(answer, facets=facets, groups=answer_groups(ranked))


def first_order(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> list[Fused]:
    """Begin the journal, and return the candidates in the order before their texts are read."""
    journal = arrived.journal
    journal.remarks.extend(arrived.query.remarks)
    journal.degradations.extend(arrived.losses)
    if not arrived.query.channels:
        return []
    record_losses(arrived)
    return _order(arrived, use, channels)


def _order(arrived: Arrived, use: Resources, channels: Mapping[ChannelName, Channel]) -> list[Fused]:
    fused = add_coverage(arrived, fuse(arrived, channels), channels)
    return support_neighbours(arrived, fused, use, channels)


def rank(
    arrived: Arrived,
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    fused: Sequence[Fused] | None = None,
) -> RetrievalRound:
    """Rank the channels' results of one round, in these steps. Steps that the plan leaves out cost nothing. ``fused``: the
    candidates, if they are in order already."""
    query, plan, journal = arrived.query, arrived.query.plan, arrived.journal
    retrieve = plan.retrieve
    fused = _order(arrived, use, channels) if fused is None else fused
    hits, capped = load_text(arrived, fused, use), 0
    if retrieve.time_decay is not None:
        hits = journal.step("decay", decayed(hits, retrieve.time_decay, query.present))
    if retrieve.selection.dedupe != "chunk":  # fused hits are unique by chunk
        hits, equal = deduplicated(hits, retrieve.selection.dedupe)
        hits, capped = journal.step("dedupe", hits, equal), len(equal)
    if retrieve.ladder is not None:
        semantic = arrived.usable.get(ChannelName.SEMANTIC)
        zero, per_document = None if semantic is None else semantic.zero, retrieve.selection.per_document
        hits, unlike, journal.ladder = stepped_down(
            hits, retrieve.ladder, top_k=query.top_k, zero=zero, per_document=per_document
        )
        hits = journal.step("ladder", hits, unlike)
    ordered = rerank_hits(arrived, hits, use)
    strong, weak = passing(ordered, threshold=plan.rerank.threshold, min_results=plan.rerank.min_results)
    returned, dropped = select(strong, plan)
    returned = journal.step("select", returned, [*weak, *dropped])
    capped += sum(drop.reason == BEYOND_PER_DOCUMENT for drop in dropped)
    return RetrievalRound(arrived=arrived, ordered=ordered, returned=returned, capped=capped)


def empty_answer(arrived: Arrived) -> Answer:
    """Return an answer without chunks, for a query that is searched nowhere or that failed."""
    return _answer(arrived.query, arrived, (), None if arrived.query.plan.context is None else _NOTHING, None)


def record_losses(arrived: Arrived) -> None:
    """Record every missing namespace, and every channel that failed or was late."""
    for name in arrived.query.missing_namespaces:
        arrived.journal.lost(
            "namespaces", "namespace_not_found", f"there is no namespace {name}; the others were searched"
        )
    for channel in arrived.query.channels:
        _record_loss(channel, arrived.envelopes.get(channel), arrived.journal)


def render(answer: Answer) -> bytes:
    """Return the answer as JSON, as it is stored and sent."""
    document = _without_unasked(answer) | {"chunks": [_without_unasked(chunk) for chunk in answer.chunks]}
    return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)  # channel names are enums


def _without_unasked(record: Answer | AnswerChunk) -> dict[str, Any]:
    fields = ((name, getattr(record, name)) for name in record.__dataclass_fields__)
    return {name: value for name, value in fields if value is not None or name not in _ON_REQUEST}


def _record_loss(channel: ChannelName, envelope: Envelope | None, journal: Journal) -> None:
    if envelope is None:
        journal.lost(channel, "no_answer", f"the {channel} channel did not come back before the deadline")
    elif envelope.status != "ok":
        journal.lost(channel, envelope.code or envelope.status, envelope.error or f"the {channel} channel failed")
    elif envelope.guard:
        if (lost := envelope.guard.get("lost")) is not None:
            journal.lost(channel, lost["code"], lost["detail"])
        if (age_s := envelope.guard.get("age_s")) is not None:
            journal.answered_from_index(age_s)


def _record_own_losses(arrived: Arrived, channels: Mapping[ChannelName, Channel]) -> None:
    """Record a loss of the keyword channel in this process, which scores hits and repeats searches."""
    channel = channels.get(ChannelName.KEYWORD) if ChannelName.KEYWORD in arrived.query.channels else None
    if isinstance(channel, KeywordChannel) and (lost := channel.lost(arrived.query)) is not None:
        arrived.journal.lost(channel.name, lost["code"], lost["detail"])


def _mask(
    query: Query, chunks: tuple[AnswerChunk, ...], passages: Mapping[str, Hydrated]
) -> tuple[tuple[AnswerChunk, ...], Mapping[str, Hydrated]]:
    """Mask personal data if the plan asks for it, before later steps count characters."""
    privacy = query.plan.privacy
    if not privacy.mask_answers:
        return chunks, passages
    passages = {chunk_id: masked(passage, kinds=privacy.kinds) for chunk_id, passage in passages.items()}
    shown = ((chunk, passages[chunk.chunk_id]) for chunk in chunks)
    return tuple(
        replace(chunk, title=passage.title, text=passage.text, metadata=passage.metadata) for chunk, passage in shown
    ), passages


def _answer(
    query: Query,
    arrived: Arrived,
    chunks: tuple[AnswerChunk, ...],
    context: AnswerContext | None,
    lift: float | None,
    *,
    fallback: str | None = None,
) -> Answer:
    journal, usable = arrived.journal, arrived.usable
    latency = {
        "total": round((time.time() - query.created_at - arrived.idle_s) * 1000, 3),
        **{channel: round(elapsed, 3) for channel, elapsed in arrived.elapsed_ms.items()},
        **journal.latency_ms,
    }
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
        ladder=journal.ladder,
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


def _terms(query: Query, channels: Mapping[ChannelName, Channel]) -> tuple[str, ...]:
    """Return the words to highlight: the keyword channel's with synonyms, else the query's own, without a loss."""
    channel = channels.get(ChannelName.KEYWORD)
    if isinstance(channel, KeywordChannel):
        with tolerate_outage(log.warning, "dictionary_unavailable", query_id=query.query_id):
            return channel.terms(query)
    return tuple(query_terms(query.query_text))
