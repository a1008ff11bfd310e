"""Build the context of an answer: its passages as one text for a prompt, within a budget of tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pipeline.answer.result import AnswerChunk, AnswerContext
from pipeline.chunking.strategies.question_answer import pair_of
from pipeline.chunking.tokens import count_tokens
from pipeline.query.plan import ContextOptions
from pipeline.ranking.hits import Hydrated
from pipeline.records import ChunkId

ContextStyle = Literal["markdown", "text"]
ContextHeader = Literal["title", "story", "none"]
OverBudget = Literal["skip", "stop"]

_RULE = "\n\n---\n\n"
_SEAM = 4  # tokens that a joint may cost less than its sides, counted apart
_SEPARATORS: dict[ContextStyle, str] = {"markdown": _RULE, "text": "\n\n"}
_HEADERS: dict[ContextStyle, str] = {"markdown": "### ", "text": ""}

# A chapter with a name of its own, instead of its number or short name.
_NAMED_CHAPTER = re.compile(r"第|[章回卷部节篇]|\s")

# Names under which metadata may hold a question and its answer: of the example library, then of curated pairs.
_PAIR_KEYS = (("user_input", "agent_response"), ("question", "answer"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPassage:
    """A passage offered for the context. ``text`` may include the hit's surroundings; ``own_text`` is the hit alone, read
    instead where ``text`` does not fit."""

    chunk_id: ChunkId
    title: str | None
    heading_path: tuple[str, ...]
    text: str
    own_text: str | None = None
    namespace: str = ""
    document_id: str = ""
    chapter: str | None = None
    story_time: int | None = None
    start: int | None = None
    end: int | None = None
    page: int | None = None
    page_end: int | None = None
    source_uri: str | None = None
    edited: bool = False


def join_passages(
    passages: Iterable[ContextPassage],
    *,
    max_tokens: int,
    style: ContextStyle = "markdown",
    header: ContextHeader = "title",
    over_budget: OverBudget = "skip",
    count: Callable[[str], int] = count_tokens,
    fewest: Callable[[str], int] = lambda _: 0,
) -> AnswerContext:
    """Join the passages in the order given, each under its header; never above ``max_tokens`` as ``count`` counts them.
    ``fewest``: a fast lower bound of a text's tokens.

    ========  ====================================================  =====================================
    header    above a passage                                       between passages
    ========  ====================================================  =====================================
    title     ``### [1] title > heading > heading``, a blank line   ``---`` in markdown, else a blank line
    story     ``[来源：第X章，故事时间：T]``, without unknown parts      ``---``
    none      nothing                                               as under title
    ========  ====================================================  =====================================

    Passages are taken whole. One that does not fit is read without its surroundings; if that does not fit either, it is
    omitted, and ``over_budget`` decides whether later, smaller ones may still be taken (``skip``) or not (``stop``).
    Markers number the taken passages from 1; only ``title`` shows them. Passages without text, and those whose text an
    earlier one of their document contains, are omitted. If none fits, the context is empty.
    """
    separator = _RULE if header == "story" else _SEPARATORS[style]
    separator_tokens = count(separator)
    taken: list[tuple[ContextPassage, str]] = []
    pieces: list[str] = []
    total = 0
    for passage in passages:
        if _is_contained(passage, taken):
            continue
        texts = (text.strip() for text in (passage.text, passage.own_text or ""))
        for text in dict.fromkeys(filter(None, texts)):  # the longest first
            above = _header(passage, header, style, len(taken) + 1)
            piece = above + text
            if total + fewest(piece) > max_tokens + _SEAM * len(pieces):
                continue
            together = total + count(piece) + (separator_tokens if pieces else 0)
            if max_tokens < together <= max_tokens + _SEAM * len(pieces):
                together = count(separator.join([*pieces, piece]))
            if together <= max_tokens:
                taken.append((passage, text))
                pieces.append(piece)
                total = together
                break
        else:
            if over_budget == "stop" and passage.text.strip():
                break
    text, total = _joined(pieces, separator, max_tokens, count)
    citations = tuple(_citation(passage, number) for number, (passage, _) in enumerate(taken[: len(pieces)], start=1))
    return AnswerContext(text=text, token_count=total, citations=citations)


def _is_contained(passage: ContextPassage, taken: Iterable[tuple[ContextPassage, str]]) -> bool:
    """Return whether an earlier passage of the same document contains this one's own text."""
    own_text = (passage.own_text or passage.text).strip()
    return any(
        (before.namespace, before.document_id) == (passage.namespace, passage.document_id)
        and before.chunk_id != passage.chunk_id
        and own_text in text
        for before, text in taken
        if before.document_id
    )


def _joined(pieces: list[str], separator: str, max_tokens: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Join the pieces. A byte-pair encoding may count a seam differently from its sides, so pieces are dropped from the
    end until the text fits."""
    while pieces:
        text = separator.join(pieces)
        total = count(text)
        if total <= max_tokens:
            return text, total
        pieces.pop()
    return "", 0


def _citation(passage: ContextPassage, number: int) -> dict[str, Any]:
    return {
        "marker": f"[{number}]",
        "chunk_id": passage.chunk_id,
        "document_id": passage.document_id,
        "namespace": passage.namespace,
        "start": passage.start,
        "end": passage.end,
        "page": passage.page,
        "page_start": passage.page,
        "page_end": passage.page if passage.page_end is None else passage.page_end,
        "title": passage.title,
        "source_uri": passage.source_uri,
        "edited": passage.edited,
    }


def _header(passage: ContextPassage, header: ContextHeader, style: ContextStyle, number: int) -> str:
    """Return the header of a passage with its line ends. A heading that repeats the title is omitted."""
    if header == "none":
        return ""
    if header == "story":
        line = story_line(passage.chapter, passage.story_time, title=passage.title)
        return f"{line}\n" if line else ""
    title, *headings = (" ".join((part or "").split()) for part in (passage.title, *passage.heading_path))
    headline = " > ".join(filter(None, (title, *(heading for heading in headings if heading != title))))
    return f"{_HEADERS[style]}[{number}]{' ' if headline else ''}{headline}\n\n"


def story_line(chapter: str | None, story_time: int | None, *, title: str | None = None) -> str:
    """Return ``[来源：第X章，故事时间：T]`` without unknown parts, empty if all are unknown. The title stands in for a missing
    chapter. A chapter with a name of its own, such as ``第三章 风起`` or ``Chapter 3``, keeps it."""
    chapter_name = " ".join((chapter or title or "").split())
    if chapter and chapter_name and not _NAMED_CHAPTER.search(chapter_name):
        chapter_name = f"第{chapter_name}章"
    time = "" if story_time is None else f"故事时间：{story_time}"
    if not chapter_name and not time:
        return ""
    return f"[来源：{'，'.join(part for part in (chapter_name, time) if part)}]"


def dialogue(question: str, answer: str) -> str:
    """Return ``用户：…``, a line end, ``助手：…``."""
    return f"用户：{question}\n助手：{answer}"


def dialogue_of(text: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the question-answer pair of a chunk, from its metadata or its own text, as a dialogue; None if it holds
    none."""
    for question_key, answer_key in _PAIR_KEYS:
        question, answer = metadata.get(question_key), metadata.get(answer_key)
        if isinstance(question, str) and isinstance(answer, str) and question.strip() and answer.strip():
            return dialogue(question.strip(), answer.strip())
    pair = pair_of(text)
    return dialogue(*pair) if pair and all(pair) else None


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
    context = join_passages(
        passages,
        max_tokens=options.max_tokens,
        style=options.format,
        header=options.header,
        over_budget=options.over_budget,
        count=count,
        fewest=fewest,
    )
    return replace(context, entities=tuple(entities))


def _passage(chunk: AnswerChunk, hydrated: Hydrated, options: ContextOptions, more: str | None) -> ContextPassage:
    pair = _dialogue(chunk, hydrated, more) if options.passages == "dialogue" else None
    text, own_text = (pair, None) if pair else (more, chunk.text) if more else (chunk.text, None)
    return ContextPassage(
        chunk_id=ChunkId(chunk.chunk_id),
        title=chunk.title,
        heading_path=hydrated.heading_path,
        text=text,
        own_text=own_text,
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
    """Return the pair of a chunk, or of the parent that a part of a long pair is read with."""
    is_pair = hydrated.chunk_type in (None, "qa")  # None: a channel brought it, and knows no types
    pair = dialogue_of(chunk.text if is_pair else "", chunk.metadata)
    return pair or (dialogue_of(more, {}) if more and hydrated.chunk_type == "qa" else None)
