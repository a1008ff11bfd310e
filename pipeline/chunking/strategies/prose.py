"""Strategies for prose: `sentences` cuts whole paragraphs while they fit, and long ones in overlapping windows of whole
sentences. `parent_child` finds small passages and reads the larger one they are part of. `window` finds each sentence
by itself and reads it with its neighbours, taken when it is read, so edits show in every window at once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, islice

from pipeline.chunking.cut import chunks
from pipeline.chunking.sentences import Sentence, paragraphs, sentences
from pipeline.chunking.strategies.strategy import (
    MAX_TOKENS,
    OVERLAP,
    Cut,
    Option,
    PassageBudget,
    Strategy,
    cut_stretch,
    numbered,
)
from pipeline.chunking.tokens import TokenMap, count_tokens
from pipeline.records import Chunking, Parsed, Passage, Section

DEFAULT_WINDOW = 3
_PARENT_TOKENS = 1024


def _cut_windows(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """Return one passage for each sentence; one longer than the budget is split. A heading goes with the text after it."""
    tokens = TokenMap(parsed.text)
    passages = (
        _passage(parsed.text, start, end, section)
        for section in parsed.sections
        for start, end in _with_headings(parsed.text, section, tokens, chunking.max_tokens)
    )
    return Cut(passages=numbered(allowance.taken_by(passages), chunk_type="sentence"))


def _with_headings(text: str, section: Section, tokens: TokenMap, budget: int) -> Iterator[tuple[int, int]]:
    rest = _sentences(text, section, tokens, budget)
    heading = section.heading_path[-1] if section.heading_path else None
    first = list(islice(rest, 2))
    if len(first) > 1 and heading is not None and text[first[0].start : first[0].end] == heading:
        start, end = first[0].start, first[1].end
        if count_tokens(text[start:end]) <= budget:
            yield start, end
            first = []
    for sentence in chain(first, rest):
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
    cut=_cut_windows,
    options={
        "max_tokens": replace(MAX_TOKENS, default=256, meaning="A sentence of more tokens comes in pieces."),
        "window": Option(
            minimum=0, maximum=20, default=DEFAULT_WINDOW, meaning="Sentences before and after that are read with it."
        ),
    },
)


def _cut_sentences(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    return Cut(passages=numbered(allowance.taken_by(chunks(parsed, chunking))))


SENTENCES = Strategy(
    name="sentences",
    meaning="Paragraphs put together up to max_tokens; for text of any kind.",
    cut=_cut_sentences,
    options={"max_tokens": MAX_TOKENS, "overlap": OVERLAP},
)


def _cut_children(parsed: Parsed, chunking: Chunking, allowance: PassageBudget) -> Cut:
    """Cut parents that share no text; within a parent, cut children as `sentences` cuts a document."""
    budget = chunking.options.get("parent_tokens", _PARENT_TOKENS)
    parents: list[Passage] = []
    passages: list[Passage] = []
    for parent in chunks(parsed, Chunking(max_tokens=budget, overlap=0.0)):
        children = allowance.taken_by(cut_stretch(parsed, parent.start, parent.end, chunking))
        passages += numbered(children, parent=len(parents), chunk_type="child")
        parents.append(parent)
    return Cut(passages=passages, parents=numbered(parents))


def _parent_conflict(options: Mapping[str, float]) -> tuple[str, str] | None:
    if options["parent_tokens"] < options["max_tokens"]:
        return "parent_tokens", f"is below max_tokens, which is {options['max_tokens']:g}: no child would fit"
    return None


PARENT_CHILD = Strategy(
    name="parent_child",
    meaning="Children up to max_tokens are indexed; each belongs to a parent up to parent_tokens, which is read with it.",
    cut=_cut_children,
    options={
        "max_tokens": replace(MAX_TOKENS, default=256),
        "overlap": replace(OVERLAP, default=0.0),
        "parent_tokens": Option(
            minimum=64, maximum=32_768, default=_PARENT_TOKENS, meaning="The most tokens of a parent."
        ),
    },
    conflict=_parent_conflict,
)
