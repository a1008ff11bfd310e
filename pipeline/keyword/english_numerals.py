"""English numerals: cardinals and ordinals below a hundred, and their digits."""

from typing import Final

CARDINALS: Final = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_IRREGULAR: Final = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def in_words(value: int) -> tuple[str, str]:
    """Return the cardinal and the ordinal of a number below a hundred."""
    if value < len(CARDINALS):
        cardinal = CARDINALS[value]
        return cardinal, _IRREGULAR.get(value) or f"{cardinal}th"
    ten, one = TENS[value // 10 - 2], value % 10
    if not one:
        return ten, f"{ten[:-1]}ieth"
    return f"{ten}-{CARDINALS[one]}", f"{ten}-{in_words(one)[1]}"


def _ordinal(value: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th") if value // 10 != 1 else "th"
    return f"{value}{ending}"


NUMBER_WORDS: Final = {
    written: digits
    for value in range(2, 100)
    for word, digits in zip(in_words(value), (str(value), _ordinal(value)), strict=True)
    for written in (word, word.replace("-", " "))
    if written != "second"
} | {"first": "1st"}
