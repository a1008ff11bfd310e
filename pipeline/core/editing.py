"""A chunk whose text was changed by hand: everything that follows from its text is made again, its place is kept."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from pipeline.core.chunking import embedding_text
from pipeline.core.indexed_fields import indexed, title_terms
from pipeline.core.strategies import searched_text
from pipeline.core.terms import tokenizer_of
from pipeline.core.tokens import count_tokens
from pipeline.records import Chunk, ChunkId, Generation, Passage


def edited(
    *,
    chunk_id: ChunkId,
    generation: Generation,
    ordinal: int,
    passage: Passage,
    text: str,
    title: str | None,
    strategy: str,
) -> Chunk:
    """The chunk as ingestion would have made it with ``text`` in this place, by the same strategy. Offsets go on naming
    the original passage."""
    changed = replace(passage, text=text, token_count=count_tokens(text))
    found_by = indexed(changed, title_terms(title), strategy=strategy, tokenizer=tokenizer_of(generation.scope))
    searched = searched_text(changed, strategy)
    whole = embedding_text(changed, title, text=searched)
    return Chunk(
        chunk_id=chunk_id,
        generation=generation,
        ordinal=ordinal,
        passage=changed,
        terms=found_by.terms,
        content_hash=hashlib.sha256(whole.encode()).digest(),
        embedding_text=whole,
        field_terms=found_by.fields,
    )
