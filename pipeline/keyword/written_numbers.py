"""Numbers of a query in words of English and of Korean, in Roman numerals, and with a comma or a point before decimals."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.english_numerals import (
    SCALES,
    VALUES,
    in_words,
    large_in_words,
    ordinal,
    value_of_words,
)
from pipeline.keyword.rewritings import Rewriting

_WORD: Final = "|".join(sorted((*VALUES, *SCALES), key=len, reverse=True))
_IN_WORDS: Final = re.compile(rf"(?<![a-z-])(?:half a|a|{_WORD})(?:(?:-| | and )(?:{_WORD}))+(?![a-z-])")
_IN_DIGITS: Final = re.compile(r"(?<![\w.,:/-])(?:\d{1,3}(?:,\d{3})+|\d{3,7})(?!\w|[.,:/-]\d)")
_MOST: Final = 10_000_000
_HALF_A_MILLION: Final = 500_000

_ONES: Final = ("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix")
_ROMAN: Final = [f"{'x' * ten}{ones}" for ten in range(4) for ones in _ONES]
_ALONE: Final = ("i", "v", "x")  # letters as well: only digits are written as these
_NUMBERS: Final = {
    written: value
    for value in range(1, len(_ROMAN))
    for written in (str(value), _ROMAN[value], in_words(value)[0], f"the {in_words(value)[1]}", f"the {ordinal(value)}")
    if written not in _ALONE
}
_NUMBERED: Final = re.compile(
    r"(?<![a-z0-9])(?P<name>[a-z]{3,20}) (?=(?P<number>(?:the )?[a-z0-9-]{1,14})(?!\w|[.,:/-]\w))"
)

_HAS_WORD: Final = re.compile(r"[a-z]{3}|\d{3}")
_DECIMAL: Final = re.compile(r"(?<![\w.,])(\d{1,3})([.,])(\d{1,2})(?!\w|[.,]\d)")

_HANGUL: Final = "영일이삼사오육칠팔구"
_COUNTED: Final = "층월일년호번회과권장"
_COUNTS: Final = re.compile(f"[{_COUNTED}]")
_KOREAN: Final = re.compile(rf"(?<!\d)(?P<digits>\d\d?) ?(?P<counted>[{_COUNTED}])")
_KOREAN_WORDS: Final = re.compile(
    rf"(?<![가-힣])(?P<tens>[이삼사오육칠팔구]?십)?(?P<ones>[일이삼사오육칠팔구])?(?P<counted>[{_COUNTED}])"
)


def written_numbers(folded: str) -> Iterator[Rewriting]:
    """Yield the numbers of a folded query (`terms.fold`) that others write otherwise: ten thousand as 10,000, World War II as
    World War 2, 3,5 as 3.5, 삼층 as 3층."""
    if _HAS_WORD.search(folded):
        yield from _large(folded)
        yield from _roman(folded)
    if "," in folded or "." in folded:
        for match in _DECIMAL.finditer(folded):
            yield Rewriting(match[0], (f"{match[1]}{',' if match[2] == '.' else '.'}{match[3]}",))
    if _COUNTS.search(folded):
        yield from _korean(folded)


def _large(folded: str) -> Iterator[Rewriting]:
    """Yield English numbers of a hundred and more, below ten million."""
    for match in _IN_WORDS.finditer(folded):
        value = value_of_words(match[0])
        if value >= 100:  # smaller ones: see `rewritings`
            yield Rewriting(match[0], (str(value),))
    for match in _IN_DIGITS.finditer(folded):
        value = int(match[0].replace(",", ""))
        if 100 <= value < _MOST and (written := large_in_words(value)):
            half = ("half a million",) if value == _HALF_A_MILLION else ()
            yield Rewriting(match[0], (written, written.replace(" and ", " "), *half))


def _roman(folded: str) -> Iterator[Rewriting]:
    """Yield the number behind a word in Roman numerals, or in digits and as an ordinal, with the word."""
    for match in _NUMBERED.finditer(folded):
        name, number = match["name"], match["number"]
        if value := _NUMBERS.get(number):
            is_roman = number == _ROMAN[value]
            ways = (str(value), f"the {in_words(value)[1]}") if is_roman else (_ROMAN[value],)
            yield Rewriting(f"{name} {number}", tuple(f"{name} {way}" for way in ways))


def _korean(folded: str) -> Iterator[Rewriting]:
    """Yield numbers below a hundred before a word that counts, in hangul and in digits."""
    for match in _KOREAN.finditer(folded):
        tens, ones = divmod(int(match["digits"]), 10)
        written = ("" if tens < 2 else _HANGUL[tens]) + ("십" if tens else "") + (_HANGUL[ones] if ones else "")
        if written:
            yield Rewriting(match[0].replace(" ", ""), (f"{written}{match['counted']}",))
    for match in _KOREAN_WORDS.finditer(folded):
        ten, one = match["tens"] or "", match["ones"] or ""
        value = 10 * (_HANGUL.index(ten[0]) if len(ten) > 1 else len(ten)) + (_HANGUL.index(one) if one else 0)
        if value:
            yield Rewriting(match[0], (f"{value}{match['counted']}",))
