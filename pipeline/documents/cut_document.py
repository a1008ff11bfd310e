"""Cut a parsed document into analysed pieces that do not belong to a generation yet."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.chunking.cut import embedding_text
from pipeline.chunking.strategies.registry import cut, searched_text
from pipeline.errors import EmptyDocument
from pipeline.keyword.indexed_fields import IndexedTokens, indexed
from pipeline.keyword.terms import Tokenizer, tokenizer_of
from pipeline.records import Chunk, Chunking, Encoding, Generation, Parsed, Passage, Scope

LONGEST_TITLE = 1024  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """Settings to read and cut a document. ``title``: replaces the document's own. ``most_chunks``: the limit on
    chunks. ``scope``: the scope of the keyword tokenizer, None for no tokens."""

    media_type: str
    chunking: Chunking
    most_chunks: int
    filename: str | None = None
    title: str | None = None
    scope: Scope | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutDocument:
    """A cut document. ``passages``: in the order of their ordinals. ``searched``: the text that finds each passage,
    None for its own. ``indexed``: each passage's keyword tokens, empty without a scope."""

    title: str | None
    passages: Sequence[Passage]
    searched: Sequence[str | None]
    indexed: Sequence[IndexedTokens] = ()
    parents: Sequence[Passage] = ()
    encoding: Encoding | None = None


def cut_document(
    parsed: Parsed, *, title: str | None, chunking: Chunking, tokenizer: Tokenizer | None, most: int
) -> CutDocument:
    """Cut and analyse a document without a time limit of its own (see `sandbox.process`). The title is analysed with
    every chunk. Raises EmptyDocument, and DocumentTooLarge above ``most`` chunks."""
    title = (title or parsed.title or "")[:LONGEST_TITLE] or None
    pieces = cut(parsed, chunking, most=most)
    passages = in_order(pieces.passages)
    if not passages:
        raise EmptyDocument("the document has no text to index")
    searched = [searched_text(passage, chunking.strategy) for passage in passages]
    return CutDocument(
        title=title,
        passages=passages,
        searched=[None if text == passage.text else text for text, passage in zip(searched, passages, strict=True)],
        indexed=[indexed(passage, title, strategy=chunking.strategy, tokenizer=tokenizer) for passage in passages]
        if tokenizer
        else [],
        parents=pieces.parents,
        encoding=parsed.encoding,
    )


def cut_as(parsed: Parsed, request: CutRequest) -> CutDocument:
    """Call `cut_document` with the values of a request."""
    return cut_document(
        parsed,
        title=request.title,
        chunking=request.chunking,
        tokenizer=tokenizer_of(request.scope) if request.scope else None,
        most=request.most_chunks,
    )


def chunk_of(
    generation: Generation,
    ordinal: int,
    passage: Passage,
    tokens: IndexedTokens,
    *,
    title: str | None,
    searched: str | None,
) -> Chunk:
    """Return a passage as a chunk of a generation. ``searched``: the text that finds it, None for its own."""
    text = embedding_text(passage, title, text=searched)
    return Chunk(
        chunk_id=generation.chunk_id(ordinal),
        generation=generation,
        ordinal=ordinal,
        passage=passage,
        terms=tokens.terms,
        content_hash=hashlib.sha256(text.encode()).digest(),
        embedding_text=text,
        field_terms=tokens.fields,
    )


def in_order(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages in the order of their ordinals."""
    return sorted(passages, key=lambda passage: (-1 if passage.parent is None else passage.parent, passage.index))
