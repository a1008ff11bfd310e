"""From a parsed document to the chunks that both stores will know."""

from __future__ import annotations

import hashlib

from pipeline.core.chunking import chunk, embedding_text
from pipeline.core.terms import Tokenizer, analyze
from pipeline.errors import DocumentTooLarge, EmptyDocument
from pipeline.records import Chunk, Chunking, Generation, Parsed


def assemble(
    parsed: Parsed, generation: Generation, *, title: str | None, chunking: Chunking, tokenizer: Tokenizer, limit: int
) -> list[Chunk]:
    """Cut, analyse and name the chunks of one generation.

    The title is analysed with every chunk, so that a chunk deep in a document can be found by what the document is
    about. Raises EmptyDocument when nothing is left, DocumentTooLarge above ``limit`` chunks.
    """
    passages = chunk(parsed, chunking)
    if not passages:
        raise EmptyDocument("the document has no text to index")
    if len(passages) > limit:
        raise DocumentTooLarge(f"the document makes {len(passages)} chunks; this installation takes {limit}")
    title_terms = analyze(title) if title else []
    chunks = []
    for ordinal, passage in enumerate(passages):
        terms = tokenizer.tokens([*title_terms, *analyze(passage.text)])
        text = embedding_text(passage, title)
        chunks.append(
            Chunk(
                chunk_id=generation.chunk_id(ordinal),
                generation=generation,
                ordinal=ordinal,
                passage=passage,
                terms=tuple(terms),
                content_hash=hashlib.sha256(text.encode()).digest(),
                embedding_text=text,
            )
        )
    return chunks
