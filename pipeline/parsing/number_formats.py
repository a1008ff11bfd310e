"""Values of a workbook as their cells show them: percentages, leading zeros, units, currencies, dates, durations, texts.

Follows the number formats of ECMA-376, part 1, 18.8.31. Dates whose form depends on the reader's computer are ISO 8601.
"""

import datetime
import operator
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache, partial

from pipeline.parsing.numbering import CHINESE_DIGITS, chinese

_BUILT_IN = """1|0 2|0.00 3|#,##0 4|#,##0.00 9|0% 10|0.00% 11|0.00E+00 12|#~?/? 13|#~??/?? 37,38|#,##0;(#,##0)
39,40|#,##0.00;(#,##0.00) 41,42|#,##0;-#,##0;- 43,44|#,##0.00;-#,##0.00;- 48|##0.0E+0 14,30|yyyy-mm-dd 15|d-mmm-yy
16|d-mmm 17|mmm-yy 18|h:mm~AM/PM 19|h:mm:ss~AM/PM 20|h:mm 21|h:mm:ss 22|yyyy-mm-dd~h:mm 45,47|mm:ss 46|[h]:mm:ss
27,36,50,52,57|yyyy年m月 28,29,51,53,54,58|m月d日 31|yyyy年m月d日 32|h时mm分 33|h时mm分ss秒 34,55|上午/下午h时mm分
35,56|上午/下午h时mm分ss秒"""  # numbers, and the format as Excel shows it in English and Chinese; a tilde is a space
BUILT_IN_CODES = {
    int(number): code.replace("~", " ")
    for numbers, _, code in (entry.partition("|") for entry in _BUILT_IN.split())
    for number in numbers.split(",")
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
_CHINESE = re.compile(r"\[DBNum([12])\]", re.IGNORECASE)  # 一千二百 and 壹仟贰佰
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
_ALL_SECTIONS = 4  # the last one for texts
_NOT_SHOWN = re.compile(r'"[^"]*+(?:"|\Z)|[\\!_*].|\[(?!(?:h+|m+|s+)\])[^\]]*+(?:\]|\Z)', re.IGNORECASE | re.DOTALL)
_MOMENT_LETTER = re.compile(r"[dmhys]|aaa", re.IGNORECASE)
_MOMENT_PART = re.compile(
    r'"(?P<quoted>[^"]*+)(?:"|\Z)|[\\!](?P<escaped>.)|[_*].|\[(?P<elapsed>h+|m+|s+)\]|\[[^\]]*+(?:\]|\Z)|\.0+'
    r"|(?P<field>AM/PM|A/P|上午/下午|y+|m+|d+|h+|s+|a{3,4}|e+)|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
_WEEKDAY, _HALF, _ELAPSED = "\x01", "\x02", {"h": ("\x03", 3600), "m": ("\x04", 60), "s": ("\x05", 1)}
_FIELDS = {
    **{"y": "%y", "yy": "%y", "yyy": "%Y", "yyyy": "%Y", "e": "%Y"},
    **{"m": "%-m", "mm": "%m", "mmm": "%b", "mmmm": "%B", "mmmmm": "%b"},
    **{"d": "%-d", "dd": "%d", "ddd": "%a", "dddd": "%A", "h": "%-H", "hh": "%H", "s": "%-S", "ss": "%S"},
    **{"aaa": _WEEKDAY, "aaaa": f"星期{_WEEKDAY}", "am/pm": "%p", "a/p": "%p", "上午/下午": _HALF},
}
_ISO = re.compile(r"yyyy\\?-mm\\?-dd", re.IGNORECASE)
_WEEKDAYS = "一二三四五六日"
_IN_CHINESE = re.compile(r"\[\$-(?:[0-9a-f]*[48]04|zh)", re.IGNORECASE)
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
    if not raw.isdecimal():
        return _shown_value(raw, code, from_1904)
    if not code:
        return number_text(raw)
    way = _format(code).way_of_whole if raw[0] != "0" and len(raw) < 16 else None
    if way is None:
        return _shown_value(raw, code, from_1904)
    before, is_grouped, least, behind = way
    return f"{before}{(f'{int(raw):,}' if is_grouped else raw).rjust(least, '0')}{behind}"


@lru_cache(maxsize=16_384)
def _shown_value(raw: str, code: str, from_1904: bool) -> str:
    if code and (written := _format(code).strftime) is not None:
        return _shown_moment(float(raw), code, written, from_1904=from_1904) or number_text(raw)
    text = shown_number(raw, code) if code else None
    text = number_text(raw) if text is None else text
    if text and len(raw) > 2 and _digits_of(text) != _digits_of(f"{float(raw):.12g}".partition("e")[0]):
        return Shown(text, f"{float(raw):.12g}")
    return text


def _digits_of(text: str) -> str:
    return _NO_DIGIT.sub("", text).strip("0")


def shown_text(text: str, code: str) -> str:
    """Return a text as a cell of this format shows it, as of ``"ID-"@``: empty if its section for texts is."""
    sections = _format(code).sections
    if len(sections) == _ALL_SECTIONS and not sections[-1]:
        return ""
    section = next((part for part in sections if "@" in _QUOTED.sub("", part)), "@")
    if section == "@":
        return text
    parts = (part["quoted"] or part["escaped"] or part["other"] or "" for part in _PART.finditer(section))
    return "".join(text if part == "@" else part for part in parts).strip()


def _strftime(section: str) -> str:
    """Return a section of a format of dates as one of `strftime`, with characters of our own for what that does not know."""
    parts = list(_MOMENT_PART.finditer(section))
    fields = [(part["field"] or part["elapsed"] or "").lower() for part in parts]
    clock = [index for index, field in enumerate(fields) if field]
    named = {"ddd": f"周{_WEEKDAY}", "dddd": f"星期{_WEEKDAY}"} if _IN_CHINESE.search(section) else {}
    pieces = [(part["quoted"] or part["escaped"] or part["other"] or "").replace("%", "%%") for part in parts]
    for place, index in enumerate(clock):
        field = fields[index]
        before = fields[clock[place - 1]] if place else ""
        after = fields[clock[place + 1]] if place + 1 < len(clock) else ""
        if parts[index]["elapsed"]:
            pieces[index] = _ELAPSED[field[0]][0] * len(field)
        elif field in ("m", "mm") and (before.startswith("h") or after.startswith("s")):
            pieces[index] = _FIELDS[field].replace("m", "M")
        else:
            pieces[index] = named.get(field) or _FIELDS.get(field, field)
    written = "".join(pieces).strip()
    return written.replace("%H", "%I").replace("%-H", "%-I") if "%p" in written or _HALF in written else written


def _shown_moment(days: float, code: str, written: str, *, from_1904: bool) -> str | None:
    """Return a number of days as a date, a time or a duration, ``written`` as of `_strftime`; None beyond the calendar."""
    is_duration = any(sign in written for sign, _ in _ELAPSED.values())
    if days < 0 and not is_duration:
        return None
    if 1 <= days < _LEAP_DAY_THAT_NEVER_WAS and not from_1904 and not is_duration:
        days += 1
    try:
        seconds = round(days * _DAY_S)
        epoch = _EPOCH_1904 if from_1904 else _EPOCH
        moment = epoch + datetime.timedelta(seconds=abs(seconds) if is_duration else seconds)
    except (OverflowError, ValueError):
        return None
    if _ISO.match(code):
        return _iso(moment, days)
    text = moment.strftime(written)
    for sign, unit in _ELAPSED.values():
        for places in (2, 1):
            text = text.replace(sign * places, f"{'-' * (seconds < 0)}{abs(seconds) // unit:0{places}}")
    text = text.replace(_WEEKDAY, _WEEKDAYS[moment.weekday()]).replace(_HALF, "上午" if moment.hour < 12 else "下午")
    has_date = any(field in written for field in ("%y", "%Y", "%d", "%-d", "%b", "%B"))
    return Shown(text, _iso(moment, days)) if has_date and text != _iso(moment, days) else text


def _iso(moment: datetime.datetime, days: float) -> str:
    return str(moment.time()) if 0 <= days < 1 else moment.isoformat(sep=" ").removesuffix(" 00:00:00")


def shown_number(raw: str, code: str) -> str | None:
    """Return a number as a cell of this format shows it, rounded half up: empty for an empty section, as of ``;;;``;
    None for the general format."""
    try:
        value = Decimal(raw)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return None
    section, is_signed = _section_for(value, _format(code))
    if section is None or not section.code:
        return None if section is None else ""
    text = _written(abs(value), section)
    if text is None:
        return None
    return f"-{text}" if value < 0 and is_signed and any(map(str.isnumeric, text)) else text


class _Format:
    """A format, analysed once. ``sections``: as they are written; ``numbers``: those that are not for texts alone;
    ``strftime``: how it shows a number as a date, a time or a duration, None if it does not."""

    def __init__(self, code: str) -> None:
        self.sections = _sections(code)
        numbers = [section for section in self.sections[:4] if "@" not in _QUOTED.sub("", section)]
        self.numbers = [_Section(section) for section in numbers or self.sections[:1]]
        self.has_conditions = any(section.condition for section in self.numbers)
        plain = _GENERAL.sub("", _NOT_SHOWN.sub("", code))
        is_moment = _MOMENT_LETTER.search(plain.partition(";")[0])
        self.strftime = _strftime(self.sections[0]) if is_moment else None
        self.way_of_whole = None if is_moment or self.has_conditions else self.numbers[0].way_of_whole()


_format = lru_cache(maxsize=512)(_Format)


class _Section:
    """A section of a format: its condition, its part that is general, an exponent or a fraction with that one's writer, its
    placeholders, the texts before, between and behind them, and its percent signs."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.condition = _CONDITION.search(code)
        self.special = _special(code)
        self.texts, self.patterns, self.percents = [""], list[_Placeholders](), 0
        for part in _PART.finditer(code):
            if part["digits"]:
                self.patterns.append(_Placeholders(part["digits"]))
                self.texts.append("")
            else:
                shown = part["quoted"] or part["escaped"] or part["currency"] or part["percent"] or part["other"]
                self.percents += bool(part["percent"])
                self.texts[-1] += shown or ""

    def way_of_whole(self) -> tuple[str, bool, int, str] | None:
        """Return how it shows a positive whole number: the text before, whether thousands are grouped, the least digits,
        the text behind; None if it may show less than the number, or another one."""
        if self.special or self.percents or len(self.patterns) != 1 or any(map(str.isdecimal, "".join(self.texts))):
            return None
        digits = self.patterns[0]
        behind = f"{'.' * (digits.kept > 0)}{'0' * digits.kept}{self.texts[1]}".rstrip()
        return None if digits.scale else (self.texts[0].lstrip(), digits.is_grouped, digits.least, behind)


class _Placeholders:
    """Placeholders of digits: the power of ten, the smallest step, the least digits before and behind the point, and
    whether thousands are grouped."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        places = pattern.rstrip(",")
        whole, _, decimals = places.partition(".")
        self.scale, self.step = 3 * (len(places) - len(pattern)), Decimal(1).scaleb(-len(decimals))
        self.least, self.kept, self.is_grouped = whole.count("0"), len(decimals.rstrip("#?")), "," in whole


def _sections(code: str) -> list[str]:
    sections = [""]
    for piece in _SECTION.findall(code):
        if piece == ";":
            sections.append("")
        else:
            sections[-1] += piece
    return sections


def _section_for(value: Decimal, form: _Format) -> tuple[_Section | None, bool]:
    """Return the section of a format that shows a number, and whether a minus is written before it. A section may have
    a condition; the others are for positive and negative numbers and for zero."""
    sections = form.numbers
    if not form.has_conditions:
        index = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
        return sections[index], index == 0
    for section in sections:
        condition = section.condition
        if condition is None or _COMPARE[condition[1]](value, Decimal(condition[2])):
            return section, True
    return None, True


def _written(value: Decimal, section: _Section) -> str | None:
    if section.special:
        match, write = section.special
        if write is None and section.code.strip() == match[0]:
            return None
        return _with_text(section.code, match, number_text(str(value)) if write is None else write(value, match))
    value = value.scaleb(2 * section.percents) if section.percents else value
    patterns = section.patterns
    written = [_digits(value, patterns[0])] if len(patterns) == 1 else _divided(value, [p.pattern for p in patterns])
    text = section.texts[0] + "".join(number + text for number, text in zip(written, section.texts[1:], strict=True))
    return text.strip() or None


def _special(section: str) -> tuple[re.Match[str], Callable[[Decimal, re.Match[str]], str] | None] | None:
    """Return the part of a section that is general, an exponent or a fraction, and its writer."""
    plain = _QUOTED.sub("", section)
    numerals = _CHINESE.search(section)
    general = partial(_chinese, legal=numerals[1] == "2") if numerals else None
    for pattern, write in ((_GENERAL, general), (_EXPONENT, _exponent), (_FRACTION, _fraction)):
        if pattern.search(plain) and (match := pattern.search(section)):
            return match, write
    return None


def _chinese(value: Decimal, _match: re.Match[str], *, legal: bool) -> str:
    """Return a number in Chinese characters, its decimals one by one."""
    whole, point, decimals = f"{value.normalize():f}".partition(".")
    digits = CHINESE_DIGITS[legal]
    return f"{chinese(int(whole), legal=legal) if int(whole) else digits[0]}{point}" + "".join(
        digits[int(digit)] for digit in decimals
    )


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
    mantissa, _, power = f"{value or 0.0:.{decimals}E}".partition("E")
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


def _digits(value: Decimal, places: _Placeholders) -> str:
    """Return a number by its placeholders; each comma behind them divides it by a thousand."""
    scaled = value.scaleb(places.scale) if places.scale else value
    number, _, fraction = f"{scaled.quantize(places.step, rounding=ROUND_HALF_UP):f}".partition(".")
    number = number.lstrip("0").rjust(places.least, "0")
    fraction = fraction[: places.kept] + fraction[places.kept :].rstrip("0")
    if places.is_grouped and number:
        number = f"{int(number):,}".rjust(places.least, "0")
    return f"{number}.{fraction}" if fraction else number or "0" * (places.pattern.strip("?") != "")
