"""English numerals: cardinals and ordinals in words and in digits."""

from typing import Final

CARDINALS: Final = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_IRREGULAR: Final = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth", 12: "twelfth"}
TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000}
VALUES: Final = {word: value for value, word in enumerate(CARDINALS)} | {
    word: 10 * value for value, word in enumerate(TENS, start=2)
}


def in_words(value: int) -> tuple[str, str]:
    """Return the cardinal and the ordinal of a number below a hundred."""
    if value < len(CARDINALS):
        cardinal = CARDINALS[value]
        return cardinal, _IRREGULAR.get(value) or f"{cardinal}th"
    ten, one = TENS[value // 10 - 2], value % 10
    if not one:
        return ten, f"{ten[:-1]}ieth"
    return f"{ten}-{CARDINALS[one]}", f"{ten}-{in_words(one)[1]}"


def large_in_words(value: int) -> str:
    """Return a round number, or one below a thousand, in words; empty for others, which nobody writes out."""
    for name, scale in (("million", 1_000_000), ("thousand", 1_000)):
        if value >= scale:
            return f"{large_in_words(value // scale)} {name}" if value % scale == 0 else ""
    hundreds, rest = divmod(value, 100)
    if not hundreds:
        return in_words(rest)[0]
    return f"{CARDINALS[hundreds]} hundred and {in_words(rest)[0]}" if rest else f"{CARDINALS[hundreds]} hundred"


def value_of_words(written: str) -> int:
    """Return the value of a cardinal: two hundred and five, half a million."""
    total = section = 0.0
    for word in written.replace("half a", "half").replace("-", " ").split():
        if word == "hundred":
            section = (section or 1) * 100
        elif word in SCALES:
            total, section = total + (section or 1) * SCALES[word], 0
        elif word != "and":
            section += {"a": 1, "half": 0.5}.get(word, VALUES.get(word, 0))
    return round(total + section)


def ordinal(value: int) -> str:
    """Return the ordinal of a number below a hundred in digits: 21st."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th") if value // 10 != 1 else "th"
    return f"{value}{ending}"


NUMBER_WORDS: Final = {
    written: digits
    for value in range(2, 100)
    for word, digits in zip(in_words(value), (str(value), ordinal(value)), strict=True)
    for written in (word, word.replace("-", " "))
    if written != "second"
} | {"first": "1st"}
