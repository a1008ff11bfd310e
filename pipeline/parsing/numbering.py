"""Numbers of lists and clauses as they are written: 1, a, iv, 二, 第三条."""

import re
from collections.abc import Sequence

_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"),
    (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
CHINESE_DIGITS = ("零一二三四五六七八九", "零壹贰叁肆伍陆柒捌玖")  # the second ones of contracts and cheques
_LARGE = ((10**8, "亿"), (10**4, "万"))
# Styles that count by the signs of a row.
_ROWS = {
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedCircleChinese": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedParen": "⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽⑾⑿⒀⒁⒂⒃⒄⒅⒆⒇",
    "decimalEnclosedFullstop": "⒈⒉⒊⒋⒌⒍⒎⒏⒐⒑⒒⒓⒔⒕⒖⒗⒘⒙⒚⒛",
    "ideographEnclosedCircle": "㊀㊁㊂㊃㊄㊅㊆㊇㊈㊉",
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "ganada": "가나다라마바사아자차카타파하",
    "aiueo": "アイウエオカキクケコサシスセソタチツテトナニヌネノ",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ",
}
_CARDINAL = "One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve".split()  # noqa: SIM905 - easier to read in a row
_ORDINAL = "First Second Third Fourth Fifth Sixth Seventh Eighth Ninth Tenth Eleventh Twelfth".split()  # noqa: SIM905
_SIGNS: dict[str, Sequence[str]] = {**_ROWS, "cardinalText": _CARDINAL, "ordinalText": _ORDINAL}
# Styles of HTML and of OpenDocument, by those of Word.
_STYLES = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman", "一": "chineseCounting"}
_STYLES |= {"壹": "chineseLegalSimplified", "甲": "ideographTraditional", "①": "decimalEnclosedCircle"}


def numeral(number: int, style: str) -> str:
    """Return a number in a style of Word, or of HTML's ``type``: ``a``, ``A``, ``i``, ``I``; others as ``1``."""
    style = _STYLES.get(style, style)
    letters = ""
    if style.endswith("Letter") and number > 0:
        letters = alphabetic(number)
    elif style.endswith("Roman") and 0 < number < 4000:
        letters = roman(number)
    if letters:
        return letters.upper() if style.startswith("upper") else letters
    if style.removesuffix("Thousand") in ("chineseCounting", "japaneseCounting", "taiwaneseCounting"):
        return chinese(number)
    if style in ("chineseLegalSimplified", "ideographLegalTraditional", "japaneseLegal"):
        return chinese(number, legal=True)
    if style in ("ideographDigital", "japaneseDigitalTenThousand", "taiwaneseDigital"):
        return "".join("〇一二三四五六七八九"[int(digit)] for digit in str(max(number, 0)))
    if 0 < number <= len(signs := _SIGNS.get(style, "")):
        return signs[number - 1]
    if style == "decimalZero":
        return f"{number:02d}"
    if style == "ordinal":
        return f"{number}{'th' if 10 < number % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    return str(number)


def whole(text: str | None, otherwise: int) -> int:
    """Return a text of up to seven digits as a number, or ``otherwise``."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,7}", text) else otherwise


def spaced(number: str) -> str:
    """Return a number with the space before its text, but for Chinese marks, which bring their own."""
    return number if not number or number.endswith(("、", "）", "．")) else f"{number} "


def alphabetic(number: int) -> str:
    """Return a, b … z, aa, ab …"""
    letters = ""
    while number:
        number, letter = divmod(number - 1, 26)
        letters = chr(97 + letter) + letters
    return letters


def roman(number: int) -> str:
    """Return a Roman number from 1 to 3999, in small letters."""
    written = ""
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        written += letters * count
    return written


def chinese(number: int, *, legal: bool = False) -> str:
    """Return a Chinese number below 10^12: 十二, 一百零五, 三万零六; with ``legal`` 壹拾贰."""
    digits, units = CHINESE_DIGITS[legal], "仟佰拾" if legal else "千百十"
    if not 0 < number < 10**12:
        return str(number)
    for unit, sign in _LARGE:
        if number >= unit:
            above, below = divmod(number, unit)
            zero = digits[0] if 0 < below < unit // 10 else ""
            return chinese(above, legal=legal) + sign + zero + (chinese(below, legal=legal) if below else "")
    written, gap = "", False
    for unit, sign in zip((1000, 100, 10, 1), (*units, ""), strict=True):
        digit = number // unit % 10
        if digit:
            written += (digits[0] if gap and written else "") + digits[digit] + sign
            gap = False
        else:
            gap = bool(written)
    return written.removeprefix("一") if not legal and 10 <= number < 20 else written
