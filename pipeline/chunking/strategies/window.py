"""`window`: each sentence is found by itself and read with its neighbours, taken when it is read, so edits show in
every window at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice

from pipeline.chunking.sentences import Sentence, paragraphs, sentences
from pipeline.chunking.strategies.strategy import MAX_TOKENS, Cut, Option, PassageBudget, Strategy, numbered
from pipeline.chunking.tokens import TokenMap, count_tokens
from pipeline.records import Chunking, Parsed, Passage, Section

DEFAULT_WINDOW = 3


def _cut(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """One passage for each sentence; one longer than the budget comes in pieces. A heading goes with what follows it."""
    tokens = TokenMap(parsed.text)
    found = (
        _passage(parsed.text, start, end, section)
        for section in parsed.sections
        for start, end in _with_headings(parsed.text, section, tokens, chunking.max_tokens)
    )
    return Cut(passages=numbered(allowance.taken_by(found), chunk_type="sentence"))


def _with_headings(text: str, section: Section, tokens: TokenMap, budget: int) -> Iterator[tuple[int, int]]:
    found = _sentences(text, section, tokens, budget)
    heading = section.heading_path[-1] if section.heading_path else None
    first = list(islice(found, 2))
    if len(first) > 1 and heading is not None and text[first[0].start : first[0].end] == heading:
        start, end = first[0].start, first[1].end
        if count_tokens(text[start:end]) <= budget:
            yield start, end
            first = []
    for sentence in chain(first, found):
        yield sentence.start, sentence.end


def _sentences(text: str, section: Section, tokens: TokenMap, budget: int) -> Iterator[Sentence]:
    for start, end in paragraphs(text, start=section.start, end=section.end):
        yield from sentences(text, tokens, start=start, end=end, max_tokens=budget)


def _passage(text: str, start: int, end: int, section: Section) -> Passage:
    return Passage(
        text=text[start:end],
        start=start,
        end=end,
        token_count=count_tokens(text[start:end]),
        heading_path=section.heading_path,
        page=section.page,
        page_end=section.page,
    )


WINDOW = Strategy(
    name="window",
    meaning="Each sentence is a chunk, read with the sentences around it.",
    cut=_cut,
    options={
        "max_tokens": replace(MAX_TOKENS, default=256, meaning="A sentence of more tokens comes in pieces."),
        "window": Option(
            minimum=0, maximum=20, default=DEFAULT_WINDOW, meaning="Sentences before and after that are read with it."
        ),
    },
)
