"""Numbers of a workbook as their cells show them: percentages, leading zeros, decimals, groups, units and currencies.

Follows the number formats of ECMA-376, part 1, 18.8.31; dates and durations are read in `sheets`.
"""

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


def shown_number(raw: str, code: str) -> str | None:
    """Return a number as a cell of this format shows it, rounded half up; None for the general format."""
    try:
        value = Decimal(raw)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value.adjusted()) > _MOST_DIGITS:
        return None
    section, is_signed = _section_for(value, _sections(code))
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


def _section_for(value: Decimal, sections: Sequence[str]) -> tuple[str | None, bool]:
    """Return the section of a format that shows a number, and whether a minus is written before it. A section may have
    a condition; the others are for positive and negative numbers and for zero; a section with ``@`` is for texts."""
    sections = [section for section in sections[:4] if "@" not in _QUOTED.sub("", section)]
    if not sections:
        return None, True
    if not any(map(_CONDITION.search, sections)):
        index = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
        return sections[index], index == 0
    for section in sections:
        condition = _CONDITION.search(section)
        if condition is None or _COMPARE[condition[1]](value, Decimal(condition[2])):
            return section, True
    return None, True


def _written(value: Decimal, section: str) -> str | None:
    plain = _QUOTED.sub("", section)
    if _GENERAL.search(plain):
        return None
    for special, write in ((_EXPONENT, _exponent), (_FRACTION, _fraction)):
        if special.search(plain):
            match = special.search(section)
            return None if match is None else _with_text(section, match, write(value, match))
    parts = list(_PART.finditer(section))
    numbers = [part["digits"] for part in parts if part["digits"]]
    value = value.scaleb(2 * sum(1 for part in parts if part["percent"]))
    written = iter([_digits(value, numbers[0])] if len(numbers) == 1 else _divided(value, numbers))
    pieces: list[str] = []
    for part in parts:
        if part["digits"]:
            pieces.append(next(written))
        else:
            text = part["quoted"] or part["escaped"] or part["currency"] or part["percent"] or part["other"] or ""
            pieces.append(text)
    text = "".join(pieces).strip()
    return text or None


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


def _digits(value: Decimal, pattern: str) -> str:
    """Return a number by its placeholders; each comma behind them divides it by a thousand."""
    places = pattern.rstrip(",")
    whole, _, decimals = places.partition(".")
    value = value.scaleb(-3 * (len(pattern) - len(places)))
    rounded = value.quantize(Decimal(1).scaleb(-len(decimals)), rounding=ROUND_HALF_UP)
    number, _, fraction = f"{rounded:f}".partition(".")
    least = sum(1 for sign in whole if sign == "0")
    number = number.lstrip("0").rjust(least, "0")
    kept = len(decimals.rstrip("#?"))
    fraction = fraction[:kept] + fraction[kept:].rstrip("0")
    if "," in whole:
        number = f"{int(number or 0):,}".rjust(least, "0") if number else number
    return f"{number}.{fraction}" if fraction else number or "0"
