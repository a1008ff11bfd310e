"""Build the text for a prompt: the returned hits with their parents, neighbours and entities."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pipeline.answer.context_text import answer_context
from pipeline.answer.mask_answers import masked_texts, masked_value
from pipeline.answer.result import AnswerContext
from pipeline.database.unit_of_work import reading
from pipeline.documents.parent_store import Parents, whole_documents, windows
from pipeline.entities.entity import EntityState, in_order_of_mention, names_in
from pipeline.entities.entity_store import Entities
from pipeline.errors import Unavailable
from pipeline.models.tokenizer import fewest_tokens
from pipeline.query.request import Query
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChunkId
from pipeline.resources import Resources
from pipeline.retrieval.arrived import Arrived
from pipeline.retrieval.journal import Journal
from pipeline.retrieval.read_texts import read_in_time


def build_context(arrived: Arrived, hits: Sequence[Hydrated], use: Resources, journal: Journal) -> AnswerContext:
    """Return the context of an answer. Parts that cannot be read are losses, and the context is built without them."""
    query, started = arrived.query, time.perf_counter()
    options = query.plan.context
    more: dict[str, str] = {}
    states: list[dict[str, Any]] = []
    try:
        more = widened(query, hits, use)
    except Unavailable as error:
        journal.lost("context", error.code, "what is read with the hits could not be read")
    try:
        if options.entities:
            states = states_named(query, hits, use)
    except Unavailable as error:
        journal.lost("entities", error.code, "the states of the entities could not be read")
    if query.plan.privacy.mask_answers:
        kinds = query.plan.privacy.kinds
        more = masked_texts(more, kinds=kinds)
        states = [masked_value(state, kinds) for state in states]
    count, fewest = use.count_tokens, fewest_tokens(use.settings.context_tokenizer)
    context = answer_context(hits, options, widened=more, count=count, fewest=fewest, entities=states)
    journal.took("context", started)
    return context


def states_named(query: Query, passages: Sequence[Hydrated], use: Resources) -> list[dict[str, Any]]:
    """Return the named entities' states at the story time or the last ones, in order of mention. Raises Unavailable."""
    named = names_in(passages)
    if not named:
        return []

    def read() -> dict[tuple[str, str], list[EntityState]]:
        with reading(use.mysql) as connection:
            return Entities(connection, query.tenant_id).named(named, as_of=query.filters.story_time)

    states = read_in_time(query, use, read)
    return [
        {
            "id": state.entity_id,
            "name": state.name,
            "type": state.type,
            "state": state.state,
            "story_time": state.story_time,
            "namespace": state.namespace,
        }
        for state in in_order_of_mention(states, named)
    ]


def widened(query: Query, hits: Sequence[Hydrated], use: Resources) -> dict[str, str]:
    """Return the widened text of each of these hits that has one.

    A child comes with its parent unless ``parents`` is false, a sentence with its window. ``window`` in a query
    replaces the document's window size, and gives chunks of every strategy a window. With ``whole_document``, the first
    hit of a document that is small enough comes with all of it. Raises Unavailable.
    """
    options, tenant_id = query.plan.context, query.tenant_id
    parents = {} if options.parents is False else {hit.chunk_id: hit.parent_id for hit in hits if hit.parent_id}
    sizes = {
        ChunkId(hit.chunk_id): hit.window if options.window is None else options.window
        for hit in hits
        if hit.chunk_id not in parents
    }
    if not parents and not any(sizes.values()) and not options.whole_document:
        return {}
    firsts = {(hit.namespace, hit.document_id): ChunkId(hit.chunk_id) for hit in reversed(hits)}

    def read() -> tuple[dict[ChunkId, str], dict[ChunkId, str], dict[ChunkId, str]]:
        with reading(use.mysql) as connection:
            wholes = (
                whole_documents(connection, tenant_id, list(firsts.values()), most_tokens=options.max_tokens // 2)
                if options.whole_document
                else {}
            )
            texts = Parents(connection, tenant_id).texts([ChunkId(parent) for parent in set(parents.values())])
            return wholes, texts, windows(connection, tenant_id, sizes)

    wholes, texts, around = read_in_time(query, use, read)
    texts_by_hit: dict[str, str] = {str(chunk_id): text for chunk_id, text in around.items()}
    texts_by_hit |= {child: texts[ChunkId(parent)] for child, parent in parents.items() if ChunkId(parent) in texts}
    return texts_by_hit | {str(chunk_id): text for chunk_id, text in wholes.items()}
