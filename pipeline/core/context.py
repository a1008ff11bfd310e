"""The passages of an answer as one text for a prompt, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pipeline.core.tokens import count_tokens
from pipeline.records import ChunkId

ContextStyle = Literal["markdown", "text"]
OverBudget = Literal["skip", "stop"]

_SEPARATORS: dict[ContextStyle, str] = {"markdown": "\n\n---\n\n", "text": "\n\n"}
_HEADERS: dict[ContextStyle, str] = {"markdown": "### ", "text": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPassage:
    """A passage offered for the context: its text, and where it stands."""

    chunk_id: ChunkId
    title: str | None
    heading_path: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """Which chunk a marker in the context stands for."""

    marker: str
    chunk_id: ChunkId


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """``token_count`` is `count_tokens` of ``text``: headers and separators count."""

    text: str
    token_count: int
    citations: tuple[Citation, ...]


def build_context(
    passages: Iterable[ContextPassage],
    *,
    max_tokens: int,
    style: ContextStyle = "markdown",
    over_budget: OverBudget = "skip",
) -> Context:
    """The passages in the order given, each under a line ``[1] title > heading > heading``; never above ``max_tokens``.

    Passages are taken whole. One that does not fit is left out, and ``over_budget`` says whether later, smaller ones
    may still come in (``skip``) or not (``stop``). Markers count what came in, from 1. Passages without text are left
    out. Nothing that fits is an ordinary, empty context.
    """
    separator = _SEPARATORS[style]
    separator_tokens = count_tokens(separator)
    pieces: list[str] = []
    citations: list[Citation] = []
    token_count = 0
    for passage in passages:
        text = passage.text.strip()
        if not text:
            continue
        marker = f"[{len(citations) + 1}]"
        piece = f"{_HEADERS[style]}{_header(marker, passage)}\n\n{text}"
        # Every seam is at white space, where token counts add up exactly.
        cost = count_tokens(piece) + (separator_tokens if pieces else 0)
        if token_count + cost > max_tokens:
            if over_budget == "stop":
                break
            continue
        pieces.append(piece)
        citations.append(Citation(marker=marker, chunk_id=passage.chunk_id))
        token_count += cost
    return Context(text=separator.join(pieces), token_count=token_count, citations=tuple(citations))


def _header(marker: str, passage: ContextPassage) -> str:
    """One line, whatever line ends title and headings hold; a heading that repeats the title is not said twice."""
    title = " ".join((passage.title or "").split())
    headings = [" ".join(heading.split()) for heading in passage.heading_path]
    place = " > ".join(part for part in (title, *(each for each in headings if each != title)) if part)
    return f"{marker} {place}" if place else marker
