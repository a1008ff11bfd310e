"""Cutting a parsed document into passages that can be embedded, found and read on their own."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import takewhile, zip_longest

from pipeline.chunking.sentences import Sentence, paragraphs, sentences
from pipeline.chunking.tokens import TokenMap
from pipeline.records import Chunking, Lead, Parsed, Passage, Section

# Shares of the budget.
_SMALL_SECTION = 0.5  # neighbouring sections are put into one passage up to this size
_BARE_HEADING = 0.125  # up to this size a section goes with the one below it, however long that is
_SMALL_PASSAGE = 0.25  # up to this size a passage is filled from the next paragraph rather than closed before it
_MOST_OVERLAP = 1.5  # times the requested overlap: the most that a further whole sentence may repeat
_DEEPEST_INDENT = 80  # characters
_MOST_LEAD = 0.5  # a longer lead is not repeated


def chunk(parsed: Parsed, chunking: Chunking) -> list[Passage]:
    """Return passages of at most ``chunking.max_tokens`` tokens, in order, that hold every character of the text but
    white space.

    Whole paragraphs are put together while they fit; a paragraph that does not fit by itself is cut between sentences,
    into windows of which each repeats the last sentences of the one before, about ``chunking.overlap`` of the budget.
    A long table or row is cut between its lines, below its lead. Nothing else is repeated. A sentence is cut only if it
    alone is too long: between clauses, else between words, else between characters. A heading starts a new passage,
    except that small sections under one heading share a passage, whose heading path is their common part, and that a
    heading with little below it goes with the next section. Small sections of two pages share none. Takes time linear
    in the text.

    This is the strategy ``sentences``, on which the others build (see `chunking/strategies`). Raises ValueError for
    another strategy, a budget below 1 or an overlap outside [0, 1).
    """
    return list(chunks(parsed, chunking))


def chunks(parsed: Parsed, chunking: Chunking) -> Iterator[Passage]:
    """Yield the passages of `chunk`, each as soon as it is found."""
    if chunking.strategy != "sentences":
        raise ValueError(f"this cuts by sentences, not by {chunking.strategy}")
    if chunking.max_tokens < 1 or not 0 <= chunking.overlap < 1:
        raise ValueError("max_tokens must be at least 1 and overlap at least 0 and below 1")
    text, tokens = parsed.text, TokenMap(parsed.text)
    leads = _Leads(parsed.leads, tokens, most_tokens=int(chunking.max_tokens * _MOST_LEAD))
    for group in _grouped(parsed, tokens, chunking.max_tokens):
        stretches = (
            Sentence(start, end, tokens.count(start, end))
            for start, end in paragraphs(text, start=group[0].start, end=group[-1].end)
        )
        for packed in _packed(text, tokens, stretches, chunking, leads):
            passage = _passage(text, tokens, _indented(text, packed[0].start, packed[-1].end), packed[-1].end, group)
            lead = leads.above(passage.start)
            yield passage if lead is None else _below(passage, text[lead.start : lead.lead_end], leads.tokens_of(lead))


def _indented(text: str, start: int, end: int) -> int:
    """Return the start of a passage with the spaces before it if its second line is indented too, as in code."""
    begin = start
    while begin and start - begin < _DEEPEST_INDENT and text[begin - 1] in " \t":
        begin -= 1
    second = text.find("\n", start, end) + 1
    is_line = begin < start and (begin == 0 or text[begin - 1] == "\n")
    return begin if is_line and second and text[second : second + 2] in ("  ", "\t", "\t\t") else start


class _Leads:
    """The leads of a document that are short enough to be repeated, by position."""

    def __init__(self, leads: Sequence[Lead], tokens: TokenMap, *, most_tokens: int) -> None:
        self._tokens = tokens
        self._leads = [lead for lead in leads if self.tokens_of(lead) <= most_tokens]

    def tokens_of(self, lead: Lead) -> int:
        return self._tokens.count(lead.start, lead.lead_end)

    def around(self, position: int) -> Lead | None:
        """Return the lead of the table or row that holds this position."""
        index = bisect_right(self._leads, position, key=lambda lead: lead.start) - 1
        lead = self._leads[index] if index >= 0 else None
        return lead if lead is not None and position < lead.end else None

    def above(self, position: int) -> Lead | None:
        """Return the lead that a passage which begins at this position repeats."""
        lead = self.around(position)
        return lead if lead is not None and position >= lead.lead_end else None

    def room_at(self, position: int) -> int:
        """Return the tokens of the lead above a passage that begins at this position."""
        lead = self.above(position)
        return 0 if lead is None else self.tokens_of(lead)


def _below(passage: Passage, lead: str, lead_tokens: int) -> Passage:
    return replace(passage, text=f"{lead}\n{passage.text}", token_count=lead_tokens + passage.token_count)


def touched(sections: Sequence[Section], start: int, end: int) -> Sequence[Section]:
    """Return the sections of a document that have a character between ``start`` and ``end``."""
    first = bisect_right(sections, start, key=lambda section: section.end)
    return sections[first : bisect_left(sections, end, lo=first, key=lambda section: section.start)]


def pages_of(sections: Iterable[Section]) -> tuple[int | None, int | None]:
    """Return the first and the last page of sections: the notes of a page may stand below the first lines of the next."""
    pages = [section.page for section in sections if section.page is not None]
    return min(pages, default=None), max(pages, default=None)


def embedding_text(passage: Passage, title: str | None, *, text: str | None = None) -> str:
    """Return the text to embed for ``passage``: title and headings without repetition, then ``text`` or its own."""
    headings = [heading for heading in passage.heading_path if heading != title]
    if headings and passage.text.startswith(headings[-1]):
        headings.pop()
    path = " > ".join([title, *headings] if title else headings)
    body = passage.text if text is None else text
    return f"{path}\n{body}" if path else body


def _grouped(parsed: Parsed, tokens: TokenMap, max_tokens: int) -> Iterator[list[Section]]:
    """Yield each section by itself, but small ones of a page together: with the sections below them, or with those
    beside them. Only a heading at the foot of a page goes with what follows it on the next one."""
    sections = parsed.sections
    group: list[Section] = []
    group_size = 0
    for section, following in zip_longest(sections, sections[1:]):
        size = tokens.count(section.start, section.end)
        small = group_size + size <= max_tokens * _SMALL_SECTION
        bare = group_size <= max_tokens * _BARE_HEADING
        if group:
            below = _is_below(section, group[0]) and (small or bare)
            leaves = not _is_below(group[-1], group[0], strictly=True) and not (
                following and _is_below(following, section)
            )
            beside = section.heading_path[:-1] == group[0].heading_path[:-1] and leaves and small
            turned = section.page != group[-1].page and not _is_heading(parsed, group)
            if turned or (not below and not beside):
                yield group
                group, group_size = [], 0
        group.append(section)
        group_size += size
    if group:
        yield group


def _is_heading(parsed: Parsed, group: Sequence[Section]) -> bool:
    path = group[-1].heading_path
    return bool(path) and parsed.text[group[0].start : group[-1].end].strip() in path[-1:]


def _is_below(section: Section, other: Section, *, strictly: bool = False) -> bool:
    depth = len(other.heading_path)
    return section.heading_path[:depth] == other.heading_path and (not strictly or len(section.heading_path) > depth)


def _packed(
    text: str, tokens: TokenMap, paragraphs: Iterable[Sentence], chunking: Chunking, leads: _Leads
) -> Iterator[list[Sentence]]:
    """Yield the stretches of each passage: whole paragraphs, and the sentences of those that do not go in as they are."""
    budget = chunking.max_tokens
    passage: list[Sentence] = []
    size = 0
    for paragraph in paragraphs:
        is_long = paragraph.tokens > budget
        if passage and size + paragraph.tokens > budget and size > budget * _SMALL_PASSAGE:
            yield passage
            passage, size = [], 0
        if size + paragraph.tokens <= budget:  # most are, and need not be taken apart
            passage.append(paragraph)
            size += paragraph.tokens
            continue
        others = len(passage)  # stretches in the passage that are of other paragraphs, and so not repeated
        for sentence in _sentences(text, tokens, paragraph, budget, leads):
            if passage and size + sentence.tokens > budget:
                yield passage
                repeats = is_long and leads.around(sentence.start) is None
                passage = _tail(passage[others:], chunking, room=budget - sentence.tokens) if repeats else []
                size, others = sum(piece.tokens for piece in passage) or leads.room_at(sentence.start), 0
            passage.append(sentence)
            size += sentence.tokens
    if passage:
        yield passage


def _sentences(text: str, tokens: TokenMap, paragraph: Sentence, budget: int, leads: _Leads) -> Iterator[Sentence]:
    """Yield the sentences of a paragraph; below a lead, its lines, of which only those too long come in sentences."""
    lead = leads.around(paragraph.start)
    if lead is None:
        yield from sentences(text, tokens, start=paragraph.start, end=paragraph.end, max_tokens=budget)
        return
    start = paragraph.start
    while start < paragraph.end:
        end = text.find("\n", start, paragraph.end)
        end = paragraph.end if end < 0 else end
        room = budget - leads.room_at(start)
        if start < end and tokens.count(start, end) <= room:
            yield Sentence(start, end, tokens.count(start, end))
        else:
            yield from sentences(text, tokens, start=start, end=end, max_tokens=room)
        start = end + 1


def _tail(passage: Sequence[Sentence], chunking: Chunking, *, room: int) -> list[Sentence]:
    """Return the last sentences that the next passage repeats; never all, as what did not fit takes its room."""
    wanted = chunking.overlap * chunking.max_tokens
    most = min(room, wanted * _MOST_OVERLAP)
    size, first = 0, len(passage)
    while first > 0 and size < wanted and size + passage[first - 1].tokens <= most:
        first -= 1
        size += passage[first].tokens
    return list(passage[first:])


def _passage(text: str, tokens: TokenMap, start: int, end: int, sections: Sequence[Section]) -> Passage:
    touched_sections = touched(sections, start, end)
    path = reduce(_common, (section.heading_path for section in touched_sections))
    first, last = pages_of(touched_sections)
    return Passage(
        text=text[start:end],
        start=start,
        end=end,
        token_count=tokens.count(start, end),
        heading_path=path,
        page=first,
        page_end=last,
    )


def _common(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False))
    return tuple(heading for heading, _ in pairs)
