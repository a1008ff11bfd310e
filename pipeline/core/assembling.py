"""From a parsed document to the chunks that both stores will know."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.core.chunking import embedding_text
from pipeline.core.indexed_fields import indexed, title_terms
from pipeline.core.strategies import cut, searched_text
from pipeline.core.terms import Tokenizer
from pipeline.errors import DocumentTooLarge, EmptyDocument
from pipeline.records import Chunk, Chunking, Generation, ParentChunk, Parsed, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A document as both stores will know it. ``parents`` are in MySQL alone."""

    chunks: list[Chunk]
    parents: Sequence[ParentChunk] = ()


def assemble(
    parsed: Parsed, generation: Generation, *, title: str | None, chunking: Chunking, tokenizer: Tokenizer, limit: int
) -> list[Chunk]:
    """The chunks of `assemble_all`."""
    found = assemble_all(parsed, generation, title=title, chunking=chunking, tokenizer=tokenizer, limit=limit)
    return found.chunks


def assemble_all(
    parsed: Parsed, generation: Generation, *, title: str | None, chunking: Chunking, tokenizer: Tokenizer, limit: int
) -> Assembled:
    """Cut, analyse and name the chunks of one generation, and their parents.

    Ordinals count chunks without a parent first, then by parent and place in it: the order in which they are listed.

    The title is analysed with every chunk, so that a chunk deep in a document can be found by what the document is
    about. Raises EmptyDocument when nothing is left, DocumentTooLarge above ``limit`` chunks.
    """
    found = cut(parsed, chunking)
    passages = in_order(found.passages)
    if not passages:
        raise EmptyDocument("the document has no text to index")
    if len(passages) > limit:
        raise DocumentTooLarge(f"the document makes {len(passages)} chunks; this installation takes {limit}")
    of_title = title_terms(title)
    chunks = []
    for ordinal, passage in enumerate(passages):
        searched = searched_text(passage, chunking.strategy)
        found_by = indexed(passage, of_title, strategy=chunking.strategy, tokenizer=tokenizer)
        text = embedding_text(passage, title, text=searched)
        chunks.append(
            Chunk(
                chunk_id=generation.chunk_id(ordinal),
                generation=generation,
                ordinal=ordinal,
                passage=passage,
                terms=found_by.terms,
                content_hash=hashlib.sha256(text.encode()).digest(),
                embedding_text=text,
                field_terms=found_by.fields,
            )
        )
    parents = [
        ParentChunk(chunk_id=generation.parent_id(ordinal), generation=generation, ordinal=ordinal, passage=passage)
        for ordinal, passage in enumerate(found.parents)
    ]
    return Assembled(chunks=chunks, parents=parents)


def in_order(passages: Sequence[Passage]) -> list[Passage]:
    """Passages in the order of their ordinals."""
    return sorted(passages, key=_place)


def _place(passage: Passage) -> tuple[int, int]:
    return (-1 if passage.parent is None else passage.parent), passage.index
