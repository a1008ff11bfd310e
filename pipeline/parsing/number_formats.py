"""Values of a workbook as their cells show them: percentages, leading zeros, units, currencies, dates, durations, texts.

Follows the number formats of ECMA-376, part 1, 18.8.31. Dates whose form depends on the reader's computer are ISO 8601.
"""

import datetime
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

BUILT_IN_CODES = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    11: "0.00E+00",
    12: "# ?/?",
    13: "# ??/??",
    37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
    41: "#,##0;-#,##0;-",
    42: "#,##0;-#,##0;-",
    43: "#,##0.00;-#,##0.00;-",
    44: "#,##0.00;-#,##0.00;-",
    48: "##0.0E+0",
    14: "yyyy-mm-dd",
    15: "d-mmm-yy",
    16: "d-mmm",
    17: "mmm-yy",
    18: "h:mm AM/PM",
    19: "h:mm:ss AM/PM",
    20: "h:mm",
    21: "h:mm:ss",
    22: "yyyy-mm-dd h:mm",
    30: "yyyy-mm-dd",
    45: "mm:ss",
    46: "[h]:mm:ss",
    47: "mm:ss.0",
    **dict.fromkeys((27, 36, 50, 52, 57), "yyyy年m月"),
    **dict.fromkeys((28, 29, 51, 53, 54, 58), "m月d日"),
    31: "yyyy年m月d日",
    32: "h时mm分",
    33: "h时mm分ss秒",
    **dict.fromkeys((34, 55), "上午/下午h时mm分"),
    **dict.fromkeys((35, 56), "上午/下午h时mm分ss秒"),
}
_SECTION = re.compile(r'"[^"]*+(?:"|\Z)|[\\!].|;|[^";\\!]++|[\\!]\Z', re.DOTALL)
_PART = re.compile(
    r'"(?P<quoted>[^"]*+)(?:"|\Z)|[\\!](?P<escaped>.)|[_*](?P<space>.)|\[\$(?P<currency>[^\-\]]*+)[^\]]*+(?:\]|\Z)'
    r"|\[(?P<option>[^\]]*+)(?:\]|\Z)|(?P<digits>(?:[#0?][#0?,]*+(?:\.[#0?]*+)?|\.[#0?]++),*+)|(?P<percent>%)|(?P<other>.)",
    re.DOTALL,
)
_QUOTED = re.compile(r'"[^"]*+(?:"|\Z)|[\\!].')
_GENERAL = re.compile(r"@|General|G/通用格式", re.IGNORECASE)
_EXPONENT = re.compile(r"([#0?]{1,20}+(?:\.[#0?]{0,20}+)?)[Ee]([+-])(0{1,9}+)")
_FRACTION = re.compile(r"(?:([#0?]{1,9}+)\s{1,3}+)?[#0?]{1,9}+\s{0,3}+/\s{0,3}+([#0?]{1,9}+|\d{1,9}+)")
_CONDITION = re.compile(r"\[\s*+(<=|>=|<>|<|>|=)\s*+([-+]?\d+(?:\.\d*)?)\s*+\]")
_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}
_MOST_DIGITS = 30
_NOT_SHOWN = re.compile(r'"[^"]*+(?:"|\Z)|[\\!_*].|\[(?!(?:h+|m+|s+)\])[^\]]*+(?:\]|\Z)', re.IGNORECASE | re.DOTALL)
_MOMENT_LETTER = re.compile(r"[dmhys]|aaa", re.IGNORECASE)
_MOMENT_PART = re.compile(
    r'"(?P<quoted>[^"]*+)(?:"|\Z)|[\\!](?P<escaped>.)|[_*].|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*+(?:\]|\Z)'
    r"|(?P<half>AM/PM|A/P|上午/下午)|(?P<field>y+|m+|d+|h+|s+|a{3,4}|e+)|\.(?P<fraction>0+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_ISO = re.compile(r"yyyy\\?-mm\\?-dd", re.IGNORECASE)
_WEEKDAYS = "一二三四五六日"
_EPOCH, _EPOCH_1904 = datetime.datetime(1899, 12, 30), datetime.datetime(1904, 1, 1)
_LEAP_DAY_THAT_NEVER_WAS = 60  # Excel counts 29 February 1900; numbers below it are a day off
_DAY_S = 86_400
_LARGEST_WHOLE = 1e15  # from here on a float cannot represent every integer
_NO_DIGIT = re.compile(r"\D")


class Shown(str):
    """A value as its cell shows it. ``stored``: the value behind it, which the text does not tell."""

    __slots__ = ("stored",)
    stored: str

    def __new__(cls, text: str, stored: str) -> "Shown":
        """Return the text with the value behind it."""
        shown = super().__new__(cls, text)
        shown.stored = stored
        return shown


def number_text(raw: str) -> str:
    """Return a number as a cell without a format shows it, with up to ten digits unless it is whole. Raises ValueError."""
    if raw.isdecimal() and len(raw) < 16 and (raw[0] != "0" or raw == "0"):
        return raw
    value = float(raw)
    if value.is_integer():
        return str(int(value)) if abs(value) < _LARGEST_WHOLE else str(value)
    return str(float(f"{value:.10g}"))


def shown_value(raw: str, code: str, *, from_1904: bool = False) -> str:
    """Return a number as a cell of this format shows it. Raises ValueError."""
    return _shown_value(raw, code, from_1904) if code or not raw.isdecimal() else number_text(raw)


@lru_cache(maxsize=16_384)
def _shown_value(raw: str, code: str, from_1904: bool) -> str:
    if code and is_moment(code):
        return _shown_moment(float(raw), code, from_1904=from_1904) or number_text(raw)
    text = (shown_number(raw, code) if code else None) or number_text(raw)
    if len(raw) > 2 and _digits_of(text) != _digits_of(f"{float(raw):.12g}".partition("e")[0]):
        return Shown(text, f"{float(raw):.12g}")
    return text


def _digits_of(text: str) -> str:
    return _NO_DIGIT.sub("", text).strip("0")


def shown_text(text: str, code: str) -> str:
    """Return a text as a cell of this format shows it, as of ``"ID-"@``."""
    section = next((part for part in _sections(code) if "@" in _QUOTED.sub("", part)), "@")
    if section == "@":
        return text
    parts = (part["quoted"] or part["escaped"] or part["other"] or "" for part in _PART.finditer(section))
    return "".join(text if part == "@" else part for part in parts).strip()


@lru_cache(maxsize=512)
def is_moment(code: str) -> bool:
    """Return whether a format shows a number as a date, a time or a duration."""
    plain = _GENERAL.sub("", _NOT_SHOWN.sub("", code))
    return bool(_MOMENT_LETTER.search(plain.partition(";")[0]))


@lru_cache(maxsize=512)
def _moment_parts(code: str) -> tuple[tuple[str, str], ...]:
    """Return kind and text of the parts of a date's format; minutes have the kind ``minute``."""
    parts = [
        (str(part.lastgroup), part[part.lastgroup])
        for part in _MOMENT_PART.finditer(_sections(code)[0])
        if part.lastgroup
    ]
    clock = [index for index, (kind, _) in enumerate(parts) if kind in ("field", "elapsed")]
    for place, index in enumerate(clock):
        before = parts[clock[place - 1]][1].lower()[0] if place else ""
        after = parts[clock[place + 1]][1].lower()[0] if place + 1 < len(clock) else ""
        if parts[index][0] == "field" and parts[index][1].lower() in ("m", "mm") and (before == "h" or after == "s"):
            parts[index] = ("minute", parts[index][1])
    return tuple(parts)


def _shown_moment(days: float, code: str, *, from_1904: bool) -> str | None:
    """Return a number of days as a date, a time or a duration; None beyond the calendar."""
    parts = _moment_parts(code)
    try:
        if any(kind == "elapsed" for kind, _ in parts):
            return _elapsed(days, parts)
        if 1 <= days < _LEAP_DAY_THAT_NEVER_WAS and not from_1904:
            days += 1
        elapsed = datetime.timedelta(seconds=round(days * _DAY_S, 3))
        moment = (_EPOCH_1904 if from_1904 else _EPOCH) + elapsed
        rounded = moment.replace(microsecond=0) + datetime.timedelta(seconds=moment.microsecond >= 500_000)
    except (OverflowError, ValueError):
        return None
    iso = str(rounded.time()) if 0 <= days < 1 else rounded.isoformat(sep=" ").removesuffix(" 00:00:00")
    if _ISO.match(code):
        return iso
    if not any(kind == "fraction" for kind, _ in parts):
        moment = rounded
    halves = any(kind == "half" for kind, _ in parts)
    text = "".join(_moment_part(moment, kind, part, halves=halves) for kind, part in parts).strip()
    has_date = any(kind == "field" and part[0].lower() in "yde" for kind, part in parts) or "mmm" in code.lower()
    return Shown(text, iso) if has_date and text != iso else text


def _moment_part(moment: datetime.datetime, kind: str, part: str, *, halves: bool) -> str:
    if kind == "half":
        return (
            ("上午", "下午")[moment.hour >= 12]
            if part[0] == "上"
            else ("AM", "PM")[moment.hour >= 12][: len(part) // 2]
        )
    if kind == "fraction":
        return f".{moment.microsecond:06}"[: len(part) + 1]
    if kind not in ("field", "minute"):
        return part if kind in ("quoted", "escaped", "other") and part != "@" else ""
    letter, length = part[0].lower(), len(part)
    if kind == "minute":
        number = moment.minute
    elif letter in "ye":
        return f"{moment.year:04}" if length > 2 or letter == "e" else f"{moment.year % 100:02}"
    elif letter == "a":
        return ("星期" if length > 3 else "") + _WEEKDAYS[moment.weekday()]
    elif letter in "md" and length > 2:
        named = moment.strftime("%B" if letter == "m" else "%A")
        return named[0] if length == 5 else named[:3] if length == 3 else named
    else:
        hour = moment.hour % 12 or 12 if halves else moment.hour
        number = {"m": moment.month, "d": moment.day, "h": hour, "s": moment.second}[letter]
    return f"{number:02}" if length > 1 else str(number)


def _elapsed(days: float, parts: Sequence[tuple[str, str]]) -> str:
    """Return a duration, its largest unit without an end: ``30:15``."""
    seconds = abs(round(days * _DAY_S))
    pieces = ["-"] if days < 0 and seconds else []
    for kind, part in parts:
        unit = {"h": 3600, "m": 60, "s": 1}.get(part[0].lower(), 0)
        if kind == "elapsed":
            pieces.append(str(seconds // unit).rjust(len(part), "0"))
        elif kind in ("field", "minute") and unit:
            pieces.append(f"{seconds // unit % (24 if unit == 3600 else 60):0{len(part)}}")
        elif kind in ("quoted", "escaped", "other"):
            pieces.append(part)
    return "".join(pieces).strip()


def shown_number(raw: str, code: str) -> str | None:
    """Return a number as a cell of this format shows it, rounded half up; None for the general format."""
    try:
        value = Decimal(raw)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return None
    section, is_signed = _section_for(value, code)
    text = _written(abs(value), section) if section is not None else None
    if text is None:
        return None
    return f"-{text}" if value < 0 and is_signed and any(map(str.isdigit, text)) else text


@lru_cache(maxsize=512)
def _sections(code: str) -> tuple[str, ...]:
    sections = [""]
    for piece in _SECTION.findall(code):
        if piece == ";":
            sections.append("")
        else:
            sections[-1] += piece
    return tuple(sections)


@lru_cache(maxsize=512)
def _number_sections(code: str) -> tuple[tuple[str, ...], bool]:
    """Return the sections of a format that are not for texts alone, and whether one has a condition."""
    sections = _sections(code)[:4]
    numbers = tuple(section for section in sections if "@" not in _QUOTED.sub("", section)) or sections[:1]
    return numbers, any(map(_CONDITION.search, numbers))


def _section_for(value: Decimal, code: str) -> tuple[str | None, bool]:
    """Return the section of a format that shows a number, and whether a minus is written before it. A section may have
    a condition; the others are for positive and negative numbers and for zero."""
    sections, have_conditions = _number_sections(code)
    if not have_conditions:
        index = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
        return sections[index], index == 0
    for section in sections:
        condition = _CONDITION.search(section)
        if condition is None or _COMPARE[condition[1]](value, Decimal(condition[2])):
            return section, True
    return None, True


@lru_cache(maxsize=512)
def _parts(section: str) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return the placeholders of a section, the texts before, between and behind them, and its percent signs."""
    texts, patterns, percents = [""], [], 0
    for part in _PART.finditer(section):
        if part["digits"]:
            patterns.append(part["digits"])
            texts.append("")
        else:
            percents += bool(part["percent"])
            texts[-1] += part["quoted"] or part["escaped"] or part["currency"] or part["percent"] or part["other"] or ""
    return tuple(patterns), tuple(texts), percents


def _written(value: Decimal, section: str) -> str | None:
    if special := _special(section):
        match, write = special
        if write is None and section.strip() == match[0]:
            return None
        return _with_text(section, match, number_text(str(value)) if write is None else write(value, match))
    patterns, texts, percents = _parts(section)
    value = value.scaleb(2 * percents) if percents else value
    written = [_digits(value, patterns[0])] if len(patterns) == 1 else _divided(value, patterns)
    text = texts[0] + "".join(number + text for number, text in zip(written, texts[1:], strict=True))
    return text.strip() or None


@lru_cache(maxsize=512)
def _special(section: str) -> tuple[re.Match[str], Callable[[Decimal, re.Match[str]], str] | None] | None:
    """Return the part of a section that is general, an exponent or a fraction, and its writer."""
    plain = _QUOTED.sub("", section)
    for pattern, write in ((_GENERAL, None), (_EXPONENT, _exponent), (_FRACTION, _fraction)):
        if pattern.search(plain) and (match := pattern.search(section)):
            return match, write
    return None


def _with_text(section: str, match: re.Match[str], text: str) -> str:
    """Return the text of a section of a format in which a match stands for ``text``."""
    around = (_PART.finditer(section[: match.start()]), _PART.finditer(section[match.end() :]))
    before, after = (
        "".join(part["quoted"] or part["escaped"] or part["other"] or "" for part in side) for side in around
    )
    return f"{before}{text}{after}".strip()


def _divided(value: Decimal, patterns: Sequence[str]) -> list[str]:
    """Return the digits of a number in several groups of placeholders, as of a telephone number; the first takes those
    that are left."""
    if not patterns:
        return []
    commas = len(patterns[-1]) - len(patterns[-1].rstrip(","))
    *groups, last = [pattern.rstrip(",") for pattern in patterns]
    whole, _, decimals = last.partition(".")
    rounded = value.scaleb(-3 * commas).quantize(Decimal(1).scaleb(-len(decimals)), rounding=ROUND_HALF_UP)
    number, _, fraction = f"{rounded:f}".partition(".")
    written = [f".{fraction}" if fraction else ""]
    for pattern in [whole, *reversed(groups)]:
        places = len(pattern.replace(",", ""))
        digits, number = (number[-places:], number[:-places]) if places else ("", number)
        least = sum(1 for sign in pattern if sign == "0")
        written.append(digits.rjust(least, "0"))
    written[-1] = number + written[-1]
    written.reverse()
    return [*written[:-2], written[-2] + written[-1]]


def _exponent(value: Decimal, match: re.Match[str]) -> str:
    """Return a number such as ``1.23E+08``."""
    decimals = len(match[1].partition(".")[2])
    mantissa, _, power = f"{value:.{decimals}E}".partition("E")
    sign = "-" if power.startswith("-") else "+" if match[2] == "+" else ""
    return f"{mantissa}E{sign}{power.lstrip('+-').rjust(len(match[3]), '0')}"


def _fraction(value: Decimal, match: re.Match[str]) -> str:
    """Return a number such as ``1 3/4``."""
    below = match[2]
    if below.isdigit() and int(below):
        whole, top = divmod(round(value * int(below)), int(below)) if match[1] else (0, round(value * int(below)))
        bottom = int(below)
    else:
        nearest = Fraction(value).limit_denominator(10 ** min(len(below), 4) - 1)
        whole, top = divmod(nearest.numerator, nearest.denominator) if match[1] else (0, nearest.numerator)
        bottom = nearest.denominator
    if not top:
        return str(whole)
    return f"{whole} {top}/{bottom}" if whole else f"{top}/{bottom}"


@lru_cache(maxsize=512)
def _placeholders(pattern: str) -> tuple[int, Decimal, int, int, bool]:
    """Return of placeholders: the power of ten, the smallest step, the least digits before and behind the point, and
    whether thousands are grouped."""
    places = pattern.rstrip(",")
    whole, _, decimals = places.partition(".")
    scale, step = 3 * (len(places) - len(pattern)), Decimal(1).scaleb(-len(decimals))
    return scale, step, whole.count("0"), len(decimals.rstrip("#?")), "," in whole


def _digits(value: Decimal, pattern: str) -> str:
    """Return a number by its placeholders; each comma behind them divides it by a thousand."""
    scale, step, least, kept, is_grouped = _placeholders(pattern)
    rounded = (value.scaleb(scale) if scale else value).quantize(step, rounding=ROUND_HALF_UP)
    number, _, fraction = f"{rounded:f}".partition(".")
    number = number.lstrip("0").rjust(least, "0")
    fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    if is_grouped and number:
        number = f"{int(number):,}".rjust(least, "0")
    return f"{number}.{fraction}" if fraction else number or "0"
