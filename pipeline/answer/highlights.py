"""Find the spans of a text that match a query's words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from chordwise.contract.answer import AnswerChunk, Span
from pipeline.keyword.inflections import Language, languages_of, stems
from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.other_forms import compounds, passage_forms
from pipeline.keyword.spellings import joined_parts
from pipeline.keyword.terms import (
    ANY_WORD,
    UNSPACED_START,
    analyze,
    fold,
    is_spaced,
    pieces_with,
    stem,
    terms_of_word,
    terms_of_words,
)

_LONGEST_TEXT = 20_000  # characters; the rest gets no spans
_MOST = 100  # spans of a text
_DIGIT = re.compile("[0-9]")
_ACCENT = re.compile("[\u0300-\u036f]")
_PIECE = re.compile(r"\S+")
_PART = re.compile(r"[^-._@&']+")
# One character for one, so that places stay places. The rest of folding happens to each word by itself.
_SAME_LENGTH = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u02bc\u2032\uff07", "'"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-"),
        "\uff3f": "_",
        "\uff0e": ".",
        "\uff20": "@",
    }
)


def highlight(chunks: Sequence[AnswerChunk], terms: Collection[str]) -> tuple[AnswerChunk, ...]:
    """Return the chunks with the spans of these terms in their texts."""
    languages = [languages_of(chunk.text) for chunk in chunks]
    marked = {each: _Marked(terms, each) for each in set(languages)}
    return tuple(
        replace(chunk, highlights=_spans(chunk.text, marked[each]))
        for chunk, each in zip(chunks, languages, strict=True)
    )


def spans(text: str, terms: Collection[str]) -> tuple[Span, ...]:
    """Return the spans of ``terms`` in ``text``, in order without overlaps, in characters with an exclusive end. Words
    match in all forms, identifiers whole or by part, neighbouring bigrams as one span; at most 100 in 20,000
    characters."""
    return _spans(text, _Marked(terms, languages_of(text)))


def _spans(text: str, marked: _Marked) -> tuple[Span, ...]:
    spans: list[Span] = []
    if not marked.terms:
        return ()
    text = text[:_LONGEST_TEXT]
    for start, piece in _pieces(text, marked):
        spans.extend(Span(start=start + first, end=start + end) for first, end in marked[piece])
        if len(spans) >= _MOST:
            break
    if marked.has_numbers and len(folded := fold(text)) == len(text):
        forms = [(form.start, form.end) for form in passage_forms(text, folded) if stem(form.term) in marked.terms]
        if forms:
            places = [(span.start, span.end) for span in spans]
            spans = [Span(start=start, end=end) for start, end in _united([*places, *forms])]
    return tuple(spans[:_MOST])


def _pieces(text: str, marked: _Marked) -> Iterable[tuple[int, str]]:
    """Return the parts of a text that may hold a term, with their starts."""
    if marked.languages:
        return ((piece.start(), piece[0]) for piece in _PIECE.finditer(text))
    return pieces_with(marked.terms, text) if is_spaced(text) else [(0, text)]


class _Marked(dict[str, tuple[tuple[int, int], ...]]):
    """The matching spans of pieces of text, computed on first access: the passages of one answer share many words."""

    def __init__(self, terms: Collection[str], languages: tuple[Language, ...]) -> None:
        super().__init__()
        self.terms, self.languages = frozenset(terms), languages
        self.has_numbers = any(_DIGIT.search(term) for term in self.terms)

    def __missing__(self, piece: str) -> tuple[tuple[int, int], ...]:
        if _ACCENT.search(piece):  # written as signs of their own, as in names of files
            edges = [index for index, sign in enumerate(piece) if not index or not _ACCENT.match(sign)] + [len(piece)]
            composed = "".join(normal_form("NFC", piece[start:end])[:1] for start, end in pairwise(edges))
            marked = self[piece] = tuple((edges[start], edges[end]) for start, end in self[composed])
            return marked
        plain = piece.translate(_SAME_LENGTH)
        spans = [
            (word.start() + start, word.start() + end)
            for word in ANY_WORD.finditer(plain)
            for start, end in self._inside(word[0])
        ]
        lower = plain.lower()
        if len(lower) == len(piece):
            joined = joined_parts(lower, terms_of_words)
            spans += [(start, end) for term, start, end in joined if term in self.terms]
            spans += [(start, end) for term, start, end in compounds(lower) if stem(term) in self.terms]
        marked = self[piece] = tuple(_united(spans))
        return marked

    def _inside(self, word: str) -> Iterable[tuple[int, int]]:
        if self.languages and not self.terms.isdisjoint(stems(word, self.languages)):
            return ((0, len(word)),)
        if word.isascii() and word.isalpha():  # nearly all words; the general way below takes ten times as long
            return () if self.terms.isdisjoint(terms_of_word(word)) else ((0, len(word)),)
        return (_in_run if UNSPACED_START.match(word) else _in_word)(word, self.terms)


def _united(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the spans in order, those that overlap as one."""
    open_start = open_end = -1
    for start, end in sorted(spans):
        if start < open_end:
            open_end = max(open_end, end)
            continue
        if open_end >= 0:
            yield open_start, open_end
        open_start, open_end = start, end
    if open_end >= 0:
        yield open_start, open_end


def _in_word(word: str, terms: Collection[str]) -> Iterator[tuple[int, int]]:
    word_terms = analyze(word)
    if not any(map(terms.__contains__, word_terms)):
        return
    parts = list(_PART.finditer(word))
    meant = [part.span() for part in parts if any(map(terms.__contains__, analyze(part[0])))]
    # Where a word is kept whole, that is its first term, and those of its parts come after it.
    is_whole = word_terms[0] in terms and word_terms[0] not in analyze(parts[0][0])
    if is_whole or len(meant) == len(parts):
        yield 0, len(word)
    else:
        yield from meant


def _in_run(run: str, terms: Collection[str]) -> Iterator[tuple[int, int]]:
    folded = fold(run)
    if len(folded) != len(run):  # half-width kana with their marks: too rare to be worth a map of places
        return
    if not any(term in folded for term in terms):  # as in most runs of a text
        return
    marked = [character in terms for character in folded]
    for index in range(len(folded) - 1):
        if folded[index : index + 2] in terms:
            marked[index] = marked[index + 1] = True
    start = None
    for index, is_marked in enumerate([*marked, False]):
        if is_marked and start is None:
            start = index
        elif not is_marked and start is not None:
            yield start, index
            start = None
