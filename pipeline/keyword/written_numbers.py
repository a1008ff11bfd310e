"""Numbers of a query in words of English and of Korean, in Roman numerals, and with a comma or a point before decimals."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.english_numerals import CARDINALS, NUMBER_WORDS, TENS
from pipeline.keyword.rewritings import Rewriting

_VALUES: Final = {word: value for value, word in enumerate(CARDINALS)} | {
    word: 10 * value for value, word in enumerate(TENS, start=2)
}
_SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
_WORD: Final = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_IN_WORDS: Final = re.compile(rf"(?<![a-z-])(?:half a|a|{_WORD})(?:(?:-| | and )(?:{_WORD}))+(?![a-z-])")
_IN_DIGITS: Final = re.compile(r"(?<![\w.,:/-])(?:\d{1,3}(?:,\d{3})+|\d{3,7})(?!\w|[.,:/-]\d)")
_MOST: Final = 10_000_000
_HALF_A_MILLION: Final = 500_000

_ROMAN: Final = ["", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"]
_NUMERALS: Final = {
    f"{'x' * ten}{ones}": 10 * ten + one for ten in range(4) for one, ones in enumerate(_ROMAN) if ten or one
}
_BY_VALUE: Final = {value: written for written, value in _NUMERALS.items()}
_ANY_ROMAN: Final = "|".join(sorted(_NUMERALS, key=len, reverse=True))
_NUMBERED: Final = re.compile(
    rf"(?<![a-z0-9])(?P<name>[a-z]{{3,20}}) (?P<number>[1-9]\d?|{_ANY_ROMAN})(?!\w|[.,:/-]\w)"
)
_IN_ORDER: Final = {word: int(digits[:-2]) for word, digits in NUMBER_WORDS.items() if not digits.isdigit()} | {
    "second": 2
}
_ORDINALS: Final = {value: word for word, value in _IN_ORDER.items() if " " not in word}
_NAMED_IN_ORDER: Final = re.compile(
    r"(?<![a-z0-9])(?P<name>[a-z]{3,20}) the (?P<order>[a-z]{5,12}(?:-[a-z]{5,7})?|\d\d?(?:st|nd|rd|th))(?!\w)"
)
_NAMED_BY_WORD: Final = re.compile(
    rf"(?<![a-z0-9])(?P<name>[a-z]{{3,20}}) (?P<number>{'|'.join(CARDINALS[1:])})(?![\w-])"
)
_ALONE: Final = ("i", "v", "x")  # letters as well: only digits are written as these

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
        value = _value(match[0])
        if value >= 100:  # smaller ones: see `rewritings`
            yield Rewriting(match[0], (str(value),))
    for match in _IN_DIGITS.finditer(folded):
        value = int(match[0].replace(",", ""))
        if 100 <= value < _MOST and (written := _in_words(value)):
            half = ("half a million",) if value == _HALF_A_MILLION else ()
            yield Rewriting(match[0], tuple(dict.fromkeys((written, written.replace(" and ", " "), *half))))


def _value(written: str) -> int:
    total = section = 0.0
    for word in written.replace("half a", "half").replace("-", " ").split():
        if word == "hundred":
            section = (section or 1) * 100
        elif word in _SCALES:
            total, section = total + (section or 1) * _SCALES[word], 0
        elif word != "and":
            section += {"a": 1, "half": 0.5}.get(word, _VALUES.get(word, 0))
    return round(total + section)


def _in_words(value: int) -> str:
    """Return a round number, or one below a thousand, in words; empty for others, which nobody writes out."""
    if value % 1_000_000 == 0:
        return f"{_in_words(value // 1_000_000)} million"
    if value % 1_000 == 0:
        return f"{_in_words(value // 1_000)} thousand"
    if value >= 1_000:
        return ""
    hundreds, rest = divmod(value, 100)
    ten, one = divmod(rest, 10)
    small = CARDINALS[rest] if rest < len(CARDINALS) else f"{TENS[ten - 2]}-{CARDINALS[one]}" if one else TENS[ten - 2]
    if not hundreds:
        return small
    return f"{CARDINALS[hundreds]} hundred and {small}" if rest else f"{CARDINALS[hundreds]} hundred"


def _roman(folded: str) -> Iterator[Rewriting]:
    """Yield the number behind a word in Roman numerals, or in digits, with the word."""
    for match in _NUMBERED.finditer(folded):
        name, number = match["name"], match["number"]
        if number.isdigit() and (written := _BY_VALUE.get(int(number))):
            yield Rewriting(match[0], (f"{name} {written}",))
        elif number in _NUMERALS and number not in _ALONE:
            value = _NUMERALS[number]
            yield Rewriting(match[0], (f"{name} {value}", f"{name} the {_ORDINALS.get(value, value)}"))
    for match in _NAMED_BY_WORD.finditer(folded):
        value = CARDINALS.index(match["number"])
        if written := _BY_VALUE.get(value):
            yield Rewriting(match[0], (f"{match['name']} {written}",))
    for match in _NAMED_IN_ORDER.finditer(folded):
        order = match["order"]
        if written := _BY_VALUE.get(_IN_ORDER.get(order) or int("0" + order[:-2] if order[0].isdigit() else 0)):
            yield Rewriting(match[0], (f"{match['name']} {written}",))


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
