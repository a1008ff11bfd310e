"""Find paragraphs and sentences in Chinese and English, and cut sentences that are too long."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.chunking.tokens import TokenMap

_CJK = "\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uff00-\uffef\U00020000-\U000323af"
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
# The last alternative takes marks that end nothing as a whole, so that they are looked at once.
_MAY_END = re.compile(
    rf"""[。！？；｡…‼⁇⁈⁉]++[!?]*+[」』”’）)】》〉\]"'»]*+|[.!?]++["'”’»)\]]*+(?=\s|\Z|[{_CJK}])|\n|(?P<inner>[.!?]++)"""
)
_ALWAYS_ENDS = frozenset("。！？；｡‼⁇⁈⁉")
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_NEXT = re.compile(r"\s{0,99}(\S)")


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_ABBREVIATIONS = _set_of(
    """adm al approx apt asst assn ave bldg blvd brig ca capt cf cmdr co col corp cpl dept dist dr ed eds esp est etc ext
    gen gov hon inc incl ing jr lt ltd maj mr mrs ms mt messrs mme nee op orig prof pvt rep resp rev sen sgt sr ss st
    supt univ viz vs jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues thu thur thurs fri"""
)
_BEFORE_A_NUMBER = _set_of(
    "app appx art ch chap col eq eqs ex fig figs lit n no nos nr p para pp ref refs sec sect suppl tab v vol vols"
)
_DOTTED = re.compile(r"[a-z]{1,2}(?:\.[a-z]{1,2})+")  # u.s, e.g, a.m, ph.d
_LONGEST_ABBREVIATION = 12  # characters
_OPENING = "([{\"'“‘«（「『"

_NEW_ITEM = re.compile(
    r"[ \t]*(?:[-*+•·●▪◦‣|#>]|\d{1,3}[.)、．]|[（(]?(?:[一二三四五六七八九十]{1,3}|\d{1,3}|[a-z])[)）、])"
)
_SHORT_LINE, _SHORT_CJK_LINE = 45, 25  # characters; lines that were wrapped to fit a width are longer

_CLAUSE_END = re.compile(r"[，、；：—]+|[,;:](?=\s)|\n")
_WORD = re.compile(r"\S+")
_PIECES_PER_BUDGET = 5  # a sentence too long is cut this fine, so that windows over it can overlap

_JOINING = frozenset("\u200d\ufe0e\ufe0f\u20e3\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch of text that is not cut: a sentence, or a piece of one too long. ``tokens`` may be one too many."""

    start: int
    end: int
    tokens: int


def paragraphs(text: str, *, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each paragraph of ``text[start:end]``: between blank lines, without surrounding space."""
    position = start
    for blank in _BLANK_LINE.finditer(text, start, end):
        yield from _stripped(text, position, blank.start())
        position = blank.end()
    yield from _stripped(text, position, end)


def sentences(text: str, tokens: TokenMap, *, start: int, end: int, max_tokens: int) -> Iterator[Sentence]:
    """Return a paragraph's sentences, which hold all of it but white space.

    ``。！？；……`` end a sentence, with closing quotes and brackets. ``. ! ?`` end one before a space, unless a small letter
    follows or the point belongs to an abbreviation, initial or list number. So does a line end that is no wrap. A sentence
    above ``max_tokens`` comes in pieces."""
    for begin, stop in _bounds(text, start, end):
        for first, last in _stripped(text, begin, stop):
            count = tokens.count(first, last)
            if count <= max_tokens:
                yield Sentence(first, last, count)
            else:
                yield from _pieces(text, tokens, first, last, max_tokens)


def _bounds(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    position = start
    for mark in _MAY_END.finditer(text, start, end):
        if mark["inner"] is None and _ends(text, mark, start):
            yield position, mark.end()
            position = mark.end()
    yield position, end


def _ends(text: str, mark: re.Match[str], start: int) -> bool:
    sign = mark[0][0]
    if sign in _ALWAYS_ENDS:
        return True
    following = _NEXT.match(text, mark.end())
    after = following[1] if following else ""
    if sign == "\n":
        return _line_ends(text, mark.start(), start)
    if "a" <= after <= "z":
        return False
    if sign != "." or mark[0].startswith(".."):
        return True
    if following and following.start(1) == mark.end():  # no space: a Chinese sentence with an English full stop?
        return mark.start() > start and bool(_CJK_CHARACTER.match(text, mark.start() - 1))
    return not _abbreviated(text, mark.start(), start, after)


def _abbreviated(text: str, stop: int, start: int, after: str) -> bool:
    """Return whether the full stop at ``stop`` belongs to the word before it."""
    before = text[max(start, stop - _LONGEST_ABBREVIATION) : stop]
    words = before.split()
    if not words or before[-1].isspace():
        return False
    word = words[-1].lstrip(_OPENING).lower()
    if word in _BEFORE_A_NUMBER and (after.isdigit() or after in "(["):
        return True
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha() and word.isascii()) or _DOTTED.fullmatch(word):
        return True
    line_begins = stop - len(word) == start or text[stop - len(word) - 1] == "\n"
    return word.isdigit() and len(word) <= 3 and line_begins


def _line_ends(text: str, at: int, start: int) -> bool:
    if _NEW_ITEM.match(text, at + 1):
        return True
    length = at - max(start, text.rfind("\n", start, at) + 1)
    return length < (_SHORT_CJK_LINE if _CJK_CHARACTER.match(text, at - 1) else _SHORT_LINE)


def _pieces(text: str, tokens: TokenMap, start: int, end: int, max_tokens: int) -> Iterator[Sentence]:
    """Yield a sentence too long for a passage, cut at clauses, else at spaces, else within words, into small pieces."""
    fine = max(1, max_tokens // _PIECES_PER_BUDGET)
    piece: tuple[int, int] | None = None
    for first, last in _units(text, tokens, start, end, max_tokens, fine):
        if piece and tokens.count(piece[0], last) <= fine:
            piece = piece[0], last
            continue
        if piece:
            yield Sentence(*piece, tokens.count(*piece))
        piece = first, last
    if piece:
        yield Sentence(*piece, tokens.count(*piece))


def _units(text: str, tokens: TokenMap, start: int, end: int, max_tokens: int, fine: int) -> Iterator[tuple[int, int]]:
    position = start
    clause_ends = [mark.end() for mark in _CLAUSE_END.finditer(text, start, end)]
    for clause_end in [*clause_ends, end]:
        for first, last in _stripped(text, position, clause_end):
            if tokens.count(first, last) <= max_tokens:
                yield first, last
                continue
            for word in _WORD.finditer(text, first, last):
                if tokens.count(*word.span()) <= max_tokens:
                    yield word.span()
                else:
                    yield from _cut_word(text, tokens, word.start(), word.end(), fine)
        position = clause_end


def _cut_word(text: str, tokens: TokenMap, start: int, end: int, limit: int) -> Iterator[tuple[int, int]]:
    """Cut by tokens, but not within a character that is written with several code points unless it exceeds ``limit``."""
    while start < end:
        furthest = cut = min(tokens.reach(start, limit), end)
        while start < cut < end and _within_character(text, cut):
            cut -= 1
        cut = cut if cut > start else furthest
        yield start, cut
        start = cut


def _within_character(text: str, at: int) -> bool:
    here, before = text[at], text[at - 1]
    return (
        here in _JOINING
        or before == "\u200d"
        or unicodedata.category(here)[0] == "M"
        or "\u1160" <= here <= "\u11ff"  # the later parts of a hangul syllable
        or ("\U0001f1e6" <= here <= "\U0001f1ff" and "\U0001f1e6" <= before <= "\U0001f1ff")  # a flag is two letters
    )


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Return ``start`` and ``end`` without surrounding white space, or nothing if only that is there."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        yield start, end
