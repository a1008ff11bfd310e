"""`qa`: each question with its answer is a chunk, found by both without their labels. Reads lines with `Q:`/`A:`,
`问：`/`答：` and the like, and `name: value` rows of csv, xlsx and json, whose other columns stay in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, groupby

from pipeline.chunking.cut import pages_of, touched
from pipeline.chunking.sentences import paragraphs
from pipeline.chunking.strategies.strategy import (
    MAX_TOKENS,
    OVERLAP,
    Cut,
    PassageBudget,
    Strategy,
    cut_stretch,
    numbered,
)
from pipeline.chunking.tokens import count_tokens
from pipeline.records import Chunking, Parsed, Passage

_LONGEST_HEADING = 200  # characters of a question that stand above the parts of a long answer

_BEFORE = r"^[ \t]*(?:[-*+•][ \t]+)?(?:\d{1,4}[.)、．][ \t]*)?"
_QUESTION = r"question|user_input|query|问题|提问|提问者|用户|q|问"
_ANSWER = r"answer|agent_response|response|reply|答案|回答|回复|助手|a|答"
_LABEL = re.compile(
    rf"{_BEFORE}(?:(?P<question>{_QUESTION})|(?P<answer>{_ANSWER}))[ \t]?\d{{0,4}}[ \t]?[:：][ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_SHORT_LABELS = frozenset({"q", "a", "问", "答"})
_FIELD = re.compile(r"[^\s:：][^:：\n]{0,63}: ")


@dataclass(frozen=True, slots=True)
class _Label:
    is_question: bool
    is_short: bool
    start: int
    end: int


def pair_of(text: str) -> tuple[str, str] | None:
    """Return the question and the answer in the text of a chunk, None if it does not hold both."""
    labels = _labels(text, 0, len(text))
    question = next((label for label in labels if label.is_question), None)
    answer = next((label for label in labels if not label.is_question), None)
    if question is None or answer is None:
        return None
    if _is_row(text, labels):
        return _line(text, question.end), _line(text, answer.end)
    first, second = sorted((question, answer), key=lambda label: label.start)
    parts = {first: text[first.end : second.start].strip(), second: text[second.end :].strip()}
    return (parts[question], parts[answer]) if parts[question] and parts[answer] else None


def _indexed(passage: Passage) -> str:
    pair = pair_of(passage.text) if passage.chunk_type == "qa" else None
    return f"{pair[0]} {pair[1]}" if pair else passage.text


def _cut(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """Cut pairs, and text between them as `sentences` does. An overlong pair is a parent of parts below the question."""
    passages: list[Passage] = []
    parents: list[Passage] = []
    for start, end in _ranges(parsed):
        position = start
        for first, last in _pairs(parsed.text, start, end):
            between = (
                passage
                for passage in cut_stretch(parsed, position, first, chunking)
                if passage.text not in passage.heading_path[-1:]
            )
            passages += allowance.taken_by(between)
            passages += allowance.taken_by(_pair(parsed, first, last, chunking, parents))
            position = last
        passages += allowance.taken_by(cut_stretch(parsed, position, end, chunking))
    parent_numbers = count(len(parents))  # parents come first where both are listed
    return Cut(
        passages=[
            replace(passage, index=next(parent_numbers)) if passage.parent is None else passage for passage in passages
        ],
        parents=numbered(parents),
    )


def _pair(parsed: Parsed, start: int, end: int, chunking: Chunking, parents: list[Passage]) -> Iterator[Passage]:
    text = parsed.text[start:end]
    sections = touched(parsed.sections, start, end)
    first, last = pages_of(sections)
    passage = Passage(
        text=text,
        start=start,
        end=end,
        token_count=count_tokens(text),
        heading_path=sections[0].heading_path,
        page=first,
        page_end=last,
        chunk_type="qa",
    )
    if passage.token_count <= chunking.max_tokens:
        yield passage
        return
    pair = pair_of(text)
    question = (" ".join(pair[0].split())[:_LONGEST_HEADING],) if pair else ()
    parents.append(replace(passage, chunk_type="parent"))
    parent = len(parents) - 1
    for index, part in enumerate(cut_stretch(parsed, start, end, chunking)):
        path = (*part.heading_path, *question) if index else part.heading_path
        yield replace(part, index=index, parent=parent, chunk_type="qa", heading_path=path)


def _ranges(parsed: Parsed) -> Iterator[tuple[int, int]]:
    """Yield stretches under one heading, over however many pages."""
    for _, group in groupby(parsed.sections, key=lambda section: section.heading_path):
        sections = list(group)
        yield sections[0].start, sections[-1].end


def _pairs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each pair, in order. A question without an answer is no pair."""
    question_at: int | None = None  # the position of a question without an answer so far
    begun: int | None = None  # where the pair begins that has its answer and goes on
    for first, last in paragraphs(text, start=start, end=end):
        labels = _labels(text, first, last)
        if question_at is None and _is_row(text[first:last], labels):
            if begun is not None:
                yield _stripped(text, begun, first)
                begun = None
            yield first, last
            continue
        for label in labels:
            if label.is_question:
                if begun is not None:
                    yield _stripped(text, begun, label.start)
                    begun = None
                question_at = label.start
            elif question_at is not None:
                begun, question_at = question_at, None
    if begun is not None:
        yield _stripped(text, begun, end)


def _is_row(paragraph: str, labels: Sequence[_Label]) -> bool:
    """Return whether the text is a row of a table with a question and an answer: a named line for each column."""
    both = {label.is_question for label in labels} == {True, False} and not any(label.is_short for label in labels)
    return both and all(map(_FIELD.match, paragraph.split("\n")))


def _labels(text: str, start: int, end: int) -> list[_Label]:
    return [
        _Label(
            is_question=match["question"] is not None,
            is_short=(match["question"] or match["answer"]).lower() in _SHORT_LABELS,
            start=match.start(),
            end=match.end(),
        )
        for match in _LABEL.finditer(text, start, end)
    ]


def _line(text: str, start: int) -> str:
    return text[start:].partition("\n")[0].strip()


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


QA = Strategy(
    name="qa",
    meaning="Each question with its answer is a chunk; a pair above max_tokens is a parent of its parts.",
    cut=_cut,
    options={"max_tokens": replace(MAX_TOKENS, default=512), "overlap": OVERLAP},
    indexed=_indexed,
)


PAIR_TYPE = "qa"  # the ``chunk_type`` of pairs

QUESTION_KEY, ANSWER_KEY = "user_input", "agent_response"  # of an example's metadata
# The mark of a pair in the metadata of its vector, because PostgreSQL has no ``chunk_type``.
MARK: Mapping[str, str] = {"chordwise_chunk_type": PAIR_TYPE}
