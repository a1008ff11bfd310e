"""Feedback between the candidates of a query: read their words, and let them speak for each other."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pipeline.channels.channel import Channel, TokenHolder
from pipeline.database.unit_of_work import reading
from pipeline.keyword.fulltext_store import KeywordIndex
from pipeline.query.request import Query
from pipeline.ranking.fusion import Fused
from pipeline.ranking.neighbours import CONSIDERED, Terms, feedback_share, neighbour_feedback, terms_of
from pipeline.records import ChannelName, ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.make_channels import aside, in_time


def with_feedback(
    arrived: Arrived,
    fused: Sequence[Fused],
    use: Resources,
    channels: Mapping[ChannelName, Channel],
    journal: Journal,
) -> list[Fused]:
    """The fused order after `ranking.neighbours`; as it was where that does not apply, and where it cannot be had in time.

    It applies to what was merged by score, as far as more than one channel had a say by its weight and the gate, and as
    far as each understood the query: ranks alone tell little of how far two candidates are from each other, and a channel
    alone lost by it on scifact. What the keyword channel does not hold in memory takes one statement, by key.
    """
    query, how = arrived.query, arrived.query.plan.retrieve.fusion
    names = {ranking.channel for ranking in arrived.heard[0]}
    trust = min((envelope.trust for name, envelope in arrived.usable.items() if name in names), default=1.0)
    share = feedback_share(weight for name, weight in arrived.reading_weights.items() if name in names) * trust
    if not how.feedback or how.strategy == "rrf" or not share:
        return list(fused)
    started = time.perf_counter()
    first = [ChunkId(hit.chunk_id) for hit in fused[:CONSIDERED]]
    keyword = channels.get(ChannelName.KEYWORD)
    terms = keyword.indexed(query, first) if isinstance(keyword, TokenHolder) else None
    if terms is None:
        terms = in_time(
            aside(_terms, query, first, use),
            deadline=arrived.deadline.at_most(use.settings.recall_timeout_ms / 1000),
            journal=journal,
            part="feedback",
            otherwise="the candidates could not be compared with each other; the fused order stands",
        )
    if terms is None:
        return list(fused)
    moved = neighbour_feedback(fused, terms, share=share)
    journal.took("feedback", started)
    return moved


def _terms(query: Query, chunk_ids: Sequence[ChunkId], use: Resources) -> dict[ChunkId, Terms]:
    with reading(use.mysql) as connection:
        rows = KeywordIndex(connection, query.tenant_id).rows(chunk_ids)
    return {row.chunk_id: terms_of(row.terms) for row in rows}
