"""What a prompt gets to read: the returned hits with what belongs to them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.core.answer import AnswerChunk, AnswerContext
from pipeline.core.answer_context import answer_context
from pipeline.core.hits import Hydrated
from pipeline.core.masking import masked_texts, masked_value
from pipeline.errors import Unavailable
from pipeline.flows.arrived import Arrived
from pipeline.flows.entities import states_named
from pipeline.flows.journal import Journal
from pipeline.flows.resources import Resources
from pipeline.flows.widening import widened
from pipeline.models.tokenizing import fewest_tokens


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
