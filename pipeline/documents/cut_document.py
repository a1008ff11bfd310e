"""Cut a parsed document into analysed pieces, name them as chunks of a generation, and rebuild a chunk that was edited."""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.chunking.cut import embedding_text
from pipeline.chunking.strategies.registry import cut, options_of, searched_text
from pipeline.chunking.tokens import count_tokens
from pipeline.errors import EmptyDocument
from pipeline.keyword.indexed_fields import IndexedTokens, indexed
from pipeline.keyword.terms import Tokenizer, tokenizer_of
from pipeline.records import (
    Chunk,
    Chunking,
    ChunkMark,
    DocumentFields,
    Encoding,
    Generation,
    ParentChunk,
    Parsed,
    Passage,
    Scope,
    Segment,
    StoredValues,
)

LONGEST_TITLE = 1024  # characters
MOST_CHUNKS = 10_000  # of a document
_MOST_STORED = 1000  # characters of a passage's shown values with the stored ones


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """Settings to read and cut a document. ``title``: replaces the document's own. ``most_chunks``: the limit on
    chunks. ``scope``: the scope of the keyword tokenizer, None for no tokens."""

    media_type: str
    chunking: Chunking
    most_chunks: int = MOST_CHUNKS
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
    passages = [_with_stored_values(passage, parsed.stored) for passage in in_order(pieces.passages)]
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


def _with_stored_values(passage: Passage, stored: Sequence[StoredValues]) -> Passage:
    """Return a passage of a workbook with the values behind those that it shows, up to a limit of characters."""
    if not stored or passage.segment is not None:
        return passage
    values: dict[str, str] = {}
    left = _MOST_STORED
    first = bisect_right(stored, passage.start, key=lambda row: row.end)
    end = bisect_left(stored, passage.end, lo=first, key=lambda row: row.start)
    for row in range(first, end):
        for shown, behind in stored[row].values:
            known = values.get(shown)
            if shown not in passage.text or (known is not None and behind in known.split("; ")):
                continue
            left -= len(behind) + (len(shown) if known is None else 2)
            if left < 0:
                return replace(passage, segment=Segment(attributes=values))
            values[shown] = behind if known is None else f"{known}; {behind}"
    return replace(passage, segment=Segment(attributes=values)) if values else passage


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A document as both stores will hold it. ``parents`` are in MySQL alone. ``title``, ``encoding``: found in the bytes.

    An imported document brings ``marks`` and ``vectors``, by ordinal; ``made_by``: their model and its dimension.
    """

    chunks: Sequence[Chunk]
    parents: Sequence[ParentChunk] = ()
    title: str | None = None
    encoding: Encoding | None = None
    marks: Mapping[int, ChunkMark] = field(default_factory=dict)
    vectors: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)
    made_by: tuple[str, int] | None = None


def assembled(document: CutDocument, generation: Generation) -> Assembled:
    """Name the chunks and parents of one generation; chunks without a parent first, then by parent and position."""
    pieces = zip(document.passages, document.searched, document.indexed, strict=True)
    chunks = [
        chunk_of(generation, ordinal, passage, tokens, title=document.title, searched=searched)
        for ordinal, (passage, searched, tokens) in enumerate(pieces)
    ]
    parents = [
        ParentChunk(chunk_id=generation.parent_id(ordinal), generation=generation, ordinal=ordinal, passage=passage)
        for ordinal, passage in enumerate(document.parents)
    ]
    return Assembled(chunks=chunks, parents=parents, title=document.title, encoding=document.encoding)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChunk:
    """A chunk in MySQL. ``shown``: whether its generation is published."""

    namespace: str
    document_id: str
    shown: bool
    enabled: bool
    fields: DocumentFields


def bound_of(chunking: Chunking, *, is_parent: bool) -> tuple[str, int] | None:
    """Return the option of the chunking that bounds a chunk or a parent, and the most tokens it allows; None for a parent
    whose length its strategy does not bound."""
    if not is_parent:
        return "max_tokens", chunking.max_tokens
    tokens = options_of(chunking).get("parent_tokens")
    return None if tokens is None else ("parent_tokens", int(tokens))


def position_in(parent_text: str, siblings: Iterable[Passage], passage: Passage) -> int:
    """Return where the text of ``passage`` begins in its parent's text, -1 if it is not there.

    ``siblings``: the remaining passages of the parent in order, with ``passage``. They are searched for one after the
    other, because two of them may have the same text, and edits have moved them.
    """
    previous = end = length = 0  # the sibling before: its position, its end in the document, its length
    for sibling in siblings:
        overlaps = sibling.start < end
        position = parent_text.find(sibling.own_text, previous + 1 if overlaps and length else previous + length)
        if sibling == passage:
            return position
        if position >= 0:
            previous, length = position, len(sibling.own_text)
        end = sibling.end
    return -1


def spliced(text: str, position: int, part: str, new: str) -> str:
    """Return ``text`` with ``new`` for ``part`` at ``position``; an empty ``new`` takes the space before it along."""
    before, after = text[:position], text[position + len(part) :]
    return before + new + after if new else (before.rstrip() + after if after.strip() else before).strip()


def repeats(other: Passage, before: Passage, text: str) -> bool:
    """Return whether a passage shares words with ``before``, by their offsets, that its new ``text`` lacks."""
    start, end = max(other.start, before.start), min(other.end, before.end)
    if start >= end or before.reworded:
        return False
    common = before.own_text[start - before.start : end - before.start].strip()
    return bool(common) and common in other.text and common not in text


def rebuild_edited(
    *, generation: Generation, ordinal: int, passage: Passage, text: str, title: str | None, strategy: str
) -> Chunk:
    """Return the chunk as ingestion would make it from ``text``. Offsets still name the original passage."""
    reworded = passage.reworded or text != passage.text
    edited = replace(passage, text=text, token_count=count_tokens(text), reworded=reworded)
    tokens = indexed(edited, title, strategy=strategy, tokenizer=tokenizer_of(generation.scope))
    searched = searched_text(edited, strategy)
    return chunk_of(generation, ordinal, edited, tokens, title=title, searched=searched)
