"""Rebuild an edited chunk: everything derived from its text is made again, its position stays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipeline.chunking.cut import embedding_text
from pipeline.chunking.strategies import options_of, searched_text
from pipeline.chunking.tokens import count_tokens
from pipeline.documents.clean_text import clean
from pipeline.keyword.indexed_fields import indexed
from pipeline.keyword.terms import tokenizer_of
from pipeline.records import Chunk, ChunkId, Chunking, DocumentFields, Generation, Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChunk:
    """A chunk in MySQL. ``shown``: whether its generation is published."""

    namespace: str
    document_id: str
    shown: bool
    enabled: bool
    fields: DocumentFields


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBound:
    """The most tokens of a text, and the option of the document's chunking that sets it."""

    option: str
    tokens: int


def cleaned(text: str) -> str:
    """Return an edited text as ingestion would have it: one kind of line end, no invisible characters, nothing around it."""
    return clean(text)


def bound_of(chunking: Chunking, *, is_parent: bool) -> TokenBound | None:
    """Return the bound of a chunk or of a parent; None for a parent whose length its strategy does not bound."""
    if not is_parent:
        return TokenBound(option="max_tokens", tokens=chunking.max_tokens)
    tokens = options_of(chunking).get("parent_tokens")
    return None if tokens is None else TokenBound(option="parent_tokens", tokens=int(tokens))


def position_in(whole: str, siblings: Iterable[Passage], wanted: Passage) -> int:
    """Return where the text of ``wanted`` begins in its parent's text ``whole``, -1 if it is not there.

    ``siblings``: all passages of the parent that are left, in order, with ``wanted``. They are looked for one after the
    other, because two of them may have the same text, and edits have moved them.
    """
    position = end = length = 0  # of the one before: where it was found, where it ends in the document, how long it is
    for sibling in siblings:
        overlaps = sibling.start < end
        at = whole.find(sibling.text, position + 1 if overlaps and length else position + length)
        if sibling == wanted:
            return at
        if at >= 0:
            position, length = at, len(sibling.text)
        end = sibling.end
    return -1


def spliced(whole: str, at: int, part: str, new: str) -> str:
    """Return ``whole`` with ``new`` in place of ``part`` at ``at``; an empty ``new`` also removes the white space
    before it."""
    before, after = whole[:at], whole[at + len(part) :]
    return before + new + after if new else (before.rstrip() + after if after.strip() else before).strip()


def repeats(other: Passage, before: Passage, text: str) -> bool:
    """Return whether a passage shares words with ``before``, by their offsets, that its new ``text`` lacks."""
    start, end = max(other.start, before.start), min(other.end, before.end)
    if start >= end or before.reworded:
        return False
    common = before.text[start - before.start : end - before.start].strip()
    return bool(common) and common in other.text and common not in text


def rebuild_edited(
    *,
    chunk_id: ChunkId,
    generation: Generation,
    ordinal: int,
    passage: Passage,
    text: str,
    title: str | None,
    strategy: str,
) -> Chunk:
    """Return the chunk as ingestion would make it from ``text``, by the same strategy. Offsets still name the original
    passage."""
    reworded = passage.reworded or text != passage.text
    changed = replace(passage, text=text, token_count=count_tokens(text), reworded=reworded)
    found_by = indexed(changed, title, strategy=strategy, tokenizer=tokenizer_of(generation.scope))
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
