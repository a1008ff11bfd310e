"""Rebuild an edited chunk: everything derived from its text is made again, its position stays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipeline.chunking.strategies.registry import options_of, searched_text
from pipeline.chunking.tokens import count_tokens
from pipeline.documents.cut_document import chunk_of
from pipeline.keyword.indexed_fields import indexed
from pipeline.keyword.terms import tokenizer_of
from pipeline.records import Chunk, Chunking, DocumentFields, Generation, Passage


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


def bound_of(chunking: Chunking, *, is_parent: bool) -> TokenBound | None:
    """Return the bound of a chunk or of a parent; None for a parent whose length its strategy does not bound."""
    if not is_parent:
        return TokenBound(option="max_tokens", tokens=chunking.max_tokens)
    tokens = options_of(chunking).get("parent_tokens")
    return None if tokens is None else TokenBound(option="parent_tokens", tokens=int(tokens))


def position_in(parent_text: str, siblings: Iterable[Passage], passage: Passage) -> int:
    """Return where the text of ``passage`` begins in its parent's text, -1 if it is not there.

    ``siblings``: the remaining passages of the parent in order, with ``passage``. They are searched for one after the
    other, because two of them may have the same text, and edits have moved them.
    """
    previous = end = length = 0  # the sibling before: its position, its end in the document, its length
    for sibling in siblings:
        overlaps = sibling.start < end
        position = parent_text.find(sibling.text, previous + 1 if overlaps and length else previous + length)
        if sibling == passage:
            return position
        if position >= 0:
            previous, length = position, len(sibling.text)
        end = sibling.end
    return -1


def spliced(text: str, position: int, part: str, new: str) -> str:
    """Return ``text`` with ``new`` instead of ``part`` at ``position``; an empty ``new`` also removes the white space
    before it."""
    before, after = text[:position], text[position + len(part) :]
    return before + new + after if new else (before.rstrip() + after if after.strip() else before).strip()


def repeats(other: Passage, before: Passage, text: str) -> bool:
    """Return whether a passage shares words with ``before``, by their offsets, that its new ``text`` lacks."""
    start, end = max(other.start, before.start), min(other.end, before.end)
    if start >= end or before.reworded:
        return False
    common = before.text[start - before.start : end - before.start].strip()
    return bool(common) and common in other.text and common not in text


def rebuild_edited(
    *, generation: Generation, ordinal: int, passage: Passage, text: str, title: str | None, strategy: str
) -> Chunk:
    """Return the chunk as ingestion would make it from ``text``, by the same strategy. Offsets still name the original
    passage."""
    reworded = passage.reworded or text != passage.text
    edited = replace(passage, text=text, token_count=count_tokens(text), reworded=reworded)
    tokens = indexed(edited, title, strategy=strategy, tokenizer=tokenizer_of(generation.scope))
    searched = searched_text(edited, strategy)
    return chunk_of(generation, ordinal, edited, tokens, title=title, searched=searched)
