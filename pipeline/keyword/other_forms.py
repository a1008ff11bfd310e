"""Other forms of what a text names: words joined or split, numbers with or without separators, dates.

A form becomes a further term of a passage (`passage_forms`), and another way of writing words of a query
(`query_spellings`): what one side joins, the other may have in parts.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Final, NamedTuple

from pipeline.keyword.dates import Form, dates_and_times, han_dates

_DAY: Final = re.compile("date:.{10}")
_DIGITS: Final = re.compile("[0-9]+")
_APART, _BEFORE, _BEHIND = 24, 18, 20  # characters between digits, before and behind them: those of a date in words
_COMPOUND: Final = re.compile(r"(?<![a-z0-9'/._@&-])[a-z]{2,}(?:-[a-z]+){1,2}(?![a-z0-9/_@&-])")
_LONGEST_JOINED: Final = 24  # characters of words of letters

# Groups of digits as in telephone numbers, ISBN and card numbers: +86 139-1234-5678, (030) 123 4567, 978-3-16-148410-0.
_BETWEEN: Final = r"(?:\) ?| ?\(|[ \-])"
_NUMBER: Final = re.compile(rf"(?<![a-z0-9_.,/])\+?\(?\d{{1,15}}(?:{_BETWEEN}\d{{1,8}})*(?:-x)?(?![a-z0-9_/:]|[.,]\d)")
_DOTTED: Final = re.compile(r"(?<![a-z0-9_.])\d\d(?:\.\d\d){4}(?![a-z0-9_]|\.\d)")  # telephone numbers in France
_TRUNK: Final = re.compile(r"\(0\)")
_NO_DIGITS: Final = re.compile(r"[^0-9x]")
_MOST_GROUPS: Final = 8  # more are a table
_FEWEST_DIGITS, _MOST_DIGITS = 7, 19
_LEAST_NATIONAL: Final = 7
# Country codes have a length by their first digits (ITU-T E.164), all others two digits.
_ONE_DIGIT: Final = ("1", "7")
_THREE_DIGITS: Final = re.compile("21|22|23|24|25|26|29|35|37|38|42|50|59|67|68|69|80|85|87|88|89|96|97|99")
# An IBAN in its groups of four, and the number of a standard (GB/T 19001, ISO/IEC 27001).
_CODE: Final = re.compile(
    r"(?<![a-z0-9])(?:[a-z]{2}\d\d(?: [a-z0-9]{4}){2,7}(?: [a-z0-9]{1,3})?|[a-z]{2,4}/[a-z]{1,4}[ -]?\d{2,6})(?![a-z0-9])"
)
_SEPARATORS: Final = re.compile(r"[ /-]")

_CAMEL: Final = re.compile(r"(?<![A-Za-z0-9])(?:[a-z]{2,}(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z]+){3,})(?![A-Za-z])")
_HUMPED: Final = re.compile("[A-Z](?<=[a-z][A-Z])")
_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[0-9]+")
_WORD: Final = re.compile("[a-z0-9]+")
_PIECE: Final = re.compile("[a-z]+|[0-9]+")
_JOINS: Final = re.compile(r" ?[-·•_./ ] ?|")
_MOST_WORDS: Final = 40  # of a query that are joined with others
_MOST_TOGETHER: Final = 4
_MOST_PIECES: Final = 4
_LONGEST_CODE: Final = 34  # characters; the longest IBAN


class Certainty(enum.IntEnum):
    """How surely another spelling names the same thing."""

    EXACT = enum.auto()  # it names nothing else, and counts more than the words that it is written in
    SURE = enum.auto()
    LAST = enum.auto()  # used only for words that no passage has: a1 as a 1
    GUESS = enum.auto()  # log in: login


class Spelling(NamedTuple):
    """Other ways of writing a piece of a query, each a run of words."""

    piece: str
    ways: tuple[tuple[str, ...], ...]
    certainty: Certainty = Certainty.SURE


def compounds(folded: str) -> Iterator[Form]:
    """Yield compounds of two or three words of letters without their hyphens: wi-fi as wifi."""
    if "-" in folded:
        for match in _COMPOUND.finditer(folded):
            joined = match[0].replace("-", "")
            if len(joined) <= _LONGEST_JOINED:
                yield Form(joined, *match.span())


def passage_forms(text: str, folded: str) -> Iterator[Form]:
    """Yield the further terms of a passage, in no order: numbers and codes without separators, numbers without the code of
    their country, the words of names in camel case, dates and times. ``folded``: see `terms.fold`. Places are those in
    ``folded``."""
    if _HUMPED.search(text):
        for match in _CAMEL.finditer(text):
            for part in _HUMP.finditer(match[0]):
                yield Form(part[0].lower(), match.start() + part.start(), match.start() + part.end())
    yield from _exact_forms(folded)


def _exact_forms(folded: str) -> Iterator[Form]:
    """Yield numbers, codes, dates and times. Only what surrounds digits is searched: a tenth of the time."""
    for start, end in _near_digits(folded):
        part = folded[start:end]
        for form in (*_codes(part), *dates_and_times(part)):
            yield Form(form.term, start + form.start, start + form.end)
    if "年" in folded:
        yield from han_dates(folded)


def _near_digits(folded: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that hold digits, with what belongs to them; neighbouring ones together."""
    start = end = -1
    for match in _DIGITS.finditer(folded):
        if match.start() > end + _APART:
            if end >= 0:
                yield max(0, start - _BEFORE), end + _BEHIND
            start = match.start()
        end = match.end()
    if end >= 0:
        yield max(0, start - _BEFORE), end + _BEHIND


def query_spellings(text: str, folded: str) -> Iterator[Spelling]:
    """Yield other ways of writing pieces of a query: what `passage_forms` yields for them, names in camel case by their
    words, codes in their parts (RTX4090: RTX 4090), and words joined (log in, log-in: login)."""
    exact: dict[tuple[int, int], list[str]] = {}
    for form in _exact_forms(folded):
        exact.setdefault((form.start, form.end), []).append(form.term)
    for (start, end), terms in exact.items():
        days = [term for term in terms if _DAY.fullmatch(term)]  # a day says more than its month
        yield Spelling(folded[start:end], tuple((term,) for term in days or terms), Certainty.EXACT)
    for match in _CAMEL.finditer(text):
        yield Spelling(match[0].lower(), (tuple(part.lower() for part in _HUMP.findall(match[0])),))
    words = list(_WORD.finditer(folded))[:_MOST_WORDS]
    for word in words:
        pieces = _PIECE.findall(word[0])
        if 1 < len(pieces) <= _MOST_PIECES:
            is_sure = min(map(len, pieces)) > 1
            yield Spelling(word[0], tuple(_groupings(pieces)), Certainty.SURE if is_sure else Certainty.LAST)
    for first in range(len(words)):
        for last in range(first + 1, min(first + _MOST_TOGETHER, len(words))):
            between = folded[words[last - 1].end() : words[last].start()]
            if not _JOINS.fullmatch(between):
                break
            if way := _joined(words[first : last + 1]):
                piece = folded[words[first].start() : words[last].end()]
                is_guess = way.isalpha() and " " in piece
                yield Spelling(piece, ((way,),), Certainty.GUESS if is_guess else Certainty.SURE)


def _codes(part: str) -> Iterator[Form]:
    """Yield numbers and codes that are written in groups, joined, and telephone numbers also without the code of their
    country and the zero before an area's. Numbers that are one plain word yield nothing."""
    if "/" in part or " " in part:
        for match in _CODE.finditer(part):
            yield Form(_SEPARATORS.sub("", match[0]), *match.span())
    if sum(map(part.count, "0123456789")) < _FEWEST_DIGITS:
        return
    for match in (*_NUMBER.finditer(part), *_DOTTED.finditer(part)):
        written = match[0]
        is_international = written.startswith(("+", "00"))
        digits = _NO_DIGITS.sub("", _TRUNK.sub("", written) if is_international else written)
        if not _FEWEST_DIGITS <= len(digits) <= _MOST_DIGITS or len(_PIECE.findall(written)) > _MOST_GROUPS:
            continue
        if digits != written:
            yield Form(digits, *match.span())
        national = _national(digits, is_international=is_international)
        if national != digits and len(national) >= _LEAST_NATIONAL:
            yield Form(national, *match.span())


def _national(digits: str, *, is_international: bool) -> str:
    """Return a telephone number without the code of its country, or without the zero before the code of an area."""
    if not is_international:
        return digits[1:] if digits.startswith("0") else digits
    digits = digits.removeprefix("00")
    length = 1 if digits.startswith(_ONE_DIGIT) else 3 if _THREE_DIGITS.match(digits) else 2
    return digits[length:]


def _joined(words: Sequence[re.Match[str]]) -> str | None:
    """Return neighbouring words as one; None if nobody would write them so."""
    joined = "".join(word[0] for word in words)
    if joined.isdigit() or len(joined) > _LONGEST_CODE:
        return None
    if joined.isalpha():
        fits = len(words) <= 3 and 4 <= len(joined) <= _LONGEST_JOINED
    else:  # letters and digits meet at each seam, or the words are groups of a code
        fits = all(left[0][-1].isdigit() != right[0][0].isdigit() for left, right in pairwise(words))
    return joined if fits else None


def _groupings(pieces: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the ways to write the pieces of a code as two or more words: ab12cde as ab 12 cde, ab12 cde, ab 12cde."""
    for cuts in range(len(pieces) - 1, 0, -1):
        for at in combinations(range(1, len(pieces)), cuts):
            edges = (0, *at, len(pieces))
            yield tuple("".join(pieces[start:end]) for start, end in pairwise(edges))
