"""What a prompt gets to read: the returned hits with what belongs to them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.answer.context_sources import answer_context
from pipeline.answer.mask_answers import masked_texts, masked_value
from pipeline.answer.result import AnswerChunk, AnswerContext
from pipeline.database.unit_of_work import reading
from pipeline.entities.entity import EntityState, in_order_of_mention, names_in
from pipeline.entities.entity_store import Entities
from pipeline.errors import Unavailable
from pipeline.models.tokenizer import fewest_tokens
from pipeline.query.request import Query
from pipeline.ranking.hits import Hydrated
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.read_texts import read_in_time
from pipeline.retrieval.widen import widened


def context_of(
    arrived: Arrived,
    chunks: Sequence[AnswerChunk],
    hydrated: Mapping[str, Hydrated],
    use: Resources,
    journal: Journal,
) -> AnswerContext:
    """The context of an answer. What cannot be read is named, and the context is made without it."""
    query, started = arrived.query, time.perf_counter()
    options = query.plan.context
    more: dict[str, str] = {}
    states: list[dict[str, Any]] = []
    try:
        more = widened(query, chunks, hydrated, use)
    except Unavailable as error:
        journal.lost("context", error.code, "what is read with the hits could not be read")
    try:
        if options.entities:
            passages = [hydrated[chunk.chunk_id] for chunk in chunks]
            states = states_named(query, passages, use)
    except Unavailable as error:
        journal.lost("entities", error.code, "the states of the entities could not be read")
    if query.plan.privacy.mask_answers:
        kinds = query.plan.privacy.kinds
        more = masked_texts(more, kinds=kinds)
        states = [masked_value(state, kinds) for state in states]
    count, fewest = use.count_tokens, fewest_tokens(use.settings.context_tokenizer)
    context = answer_context(chunks, hydrated, options, widened=more, count=count, fewest=fewest, entities=states)
    journal.took("context", started)
    return context


def states_named(query: Query, passages: Sequence[Hydrated], use: Resources) -> list[dict[str, Any]]:
    """Return the states that the entities named by these passages have at the query's story time, or the last ones, in
    order of mention; never a state that comes later. Raises Unavailable."""
    named = names_in(passages)
    if not named:
        return []

    def read() -> dict[tuple[str, str], list[EntityState]]:
        with reading(use.mysql) as connection:
            return Entities(connection, query.tenant_id).named(named, as_of=query.filters.story_time)

    found = read_in_time(query, use, read)
    return [
        {
            "id": state.entity_id,
            "name": state.name,
            "type": state.type,
            "state": state.state,
            "story_time": state.story_time,
            "namespace": state.namespace,
        }
        for state in in_order_of_mention(found, named)
    ]
