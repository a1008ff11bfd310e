"""From the returned chunks to the context: which text is read of each, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pipeline.answer.context_text import Citation, ContextPassage, build_context
from pipeline.answer.dialogue import dialogue_of
from pipeline.answer.result import AnswerChunk, AnswerContext
from pipeline.chunking.tokens import count_tokens
from pipeline.query.plan import ContextOptions
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChunkId

_CITED = tuple(field.name for field in fields(Citation))


def answer_context(
    chunks: Sequence[AnswerChunk],
    hydrated: Mapping[str, Hydrated],
    options: ContextOptions,
    *,
    widened: Mapping[str, str] | None = None,
    count: Callable[[str], int] = count_tokens,
    fewest: Callable[[str], int] = lambda _: 0,
    entities: Sequence[Mapping[str, Any]] = (),
) -> AnswerContext:
    """Return an answer's passages as a prompt. A ``widened`` hit is read with its surroundings unless they take over
    half the budget. As a ``dialogue`` a question-answer pair is read alone, and other text stays plain."""
    more = {name: text for name, text in (widened or {}).items() if 2 * count(text) <= options.max_tokens}
    passages = (_passage(chunk, hydrated[chunk.chunk_id], options, more.get(chunk.chunk_id)) for chunk in chunks)
    context = build_context(
        passages,
        max_tokens=options.max_tokens,
        style=options.format,
        header=options.header,
        over_budget=options.over_budget,
        count=count,
        fewest=fewest,
    )
    return AnswerContext(
        text=context.text,
        token_count=context.token_count,
        citations=tuple({name: getattr(citation, name) for name in _CITED} for citation in context.citations),
        entities=tuple(entities),
    )


def _passage(chunk: AnswerChunk, hydrated: Hydrated, options: ContextOptions, more: str | None) -> ContextPassage:
    said = _dialogue(chunk, hydrated, more) if options.passages == "dialogue" else None
    text, found = (said, None) if said else (more, chunk.text) if more else (chunk.text, None)
    return ContextPassage(
        chunk_id=ChunkId(chunk.chunk_id),
        title=chunk.title,
        heading_path=hydrated.heading_path,
        text=text,
        found=found,
        namespace=chunk.namespace,
        document_id=chunk.document_id,
        chapter=hydrated.chapter_id,
        story_time=hydrated.story_time,
        start=hydrated.start,
        end=hydrated.end,
        page=hydrated.page,
        page_end=hydrated.page_end,
        source_uri=hydrated.source_uri,
        edited=hydrated.reworded,
    )


def _dialogue(chunk: AnswerChunk, hydrated: Hydrated, more: str | None) -> str | None:
    """The pair of a chunk, or of the parent that a part of a long pair is read with."""
    is_pair = hydrated.chunk_type in (None, "qa")  # None: a channel brought it, and knows no types
    said = dialogue_of(chunk.text if is_pair else "", chunk.metadata)
    return said or (dialogue_of(more, {}) if more and hydrated.chunk_type == "qa" else None)
