"""Build the chunks for both stores from the pieces of a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.documents.cut_document import CutDocument, chunk_of, cut_document
from pipeline.keyword.terms import Tokenizer
from pipeline.records import Chunk, Chunking, Generation, ParentChunk, Parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A document as both stores will hold it. ``parents`` are in MySQL alone."""

    chunks: list[Chunk]
    parents: Sequence[ParentChunk] = ()


def assemble(
    parsed: Parsed, generation: Generation, *, title: str | None, chunking: Chunking, tokenizer: Tokenizer, limit: int
) -> Assembled:
    """Cut, analyse and name the chunks of one generation here, for trusted text only. Raises as `cut_document`."""
    cut = cut_document(parsed, title=title, chunking=chunking, tokenizer=tokenizer, most=limit)
    return assembled(cut, generation)


def assembled(document: CutDocument, generation: Generation) -> Assembled:
    """Name the chunks and parents of one generation. Ordinals, the order of listings, count chunks without a parent
    first, then by parent and position in it."""
    pieces = zip(document.passages, document.searched, document.indexed, strict=True)
    chunks = [
        chunk_of(generation, ordinal, passage, tokens, title=document.title, searched=searched)
        for ordinal, (passage, searched, tokens) in enumerate(pieces)
    ]
    parents = [
        ParentChunk(chunk_id=generation.parent_id(ordinal), generation=generation, ordinal=ordinal, passage=passage)
        for ordinal, passage in enumerate(document.parents)
    ]
    return Assembled(chunks=chunks, parents=parents)
