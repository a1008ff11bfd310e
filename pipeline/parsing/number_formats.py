"""Numbers of a workbook as their cells show them: percentages, leading zeros, decimals, groups, units and currencies.

Follows the number formats of ECMA-376, part 1, 18.8.31; dates and durations are read in `sheets`.
"""

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import lru_cache

BUILT_IN_CODES = {
    1: "0",
    2: "0.00",
    3: "#,##0",
    4: "#,##0.00",
    9: "0%",
    10: "0.00%",
    37: "#,##0;(#,##0)",
    38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)",
    40: "#,##0.00;(#,##0.00)",
}
_SECTION = re.compile(r'"[^"]*+(?:"|\Z)|\\.|;|[^";\\]++|\\\Z', re.DOTALL)
_PART = re.compile(
    r'"(?P<quoted>[^"]*+)(?:"|\Z)|\\(?P<escaped>.)|[_*](?P<space>.)|\[\$(?P<currency>[^\-\]]*+)[^\]]*+(?:\]|\Z)'
    r"|\[(?P<option>[^\]]*+)(?:\]|\Z)|(?P<digits>(?:[#0?][#0?,]*+(?:\.[#0?]*+)?|\.[#0?]++),*+)|(?P<percent>%)|(?P<other>.)",
    re.DOTALL,
)
_UNREADABLE = re.compile(r"[Ee][+-]|[#0?]\s*/\s*[#0?\d]|@|General|G/通用格式", re.IGNORECASE)
_CONDITION = re.compile(r"\[\s*[<>=]")
_MOST_DIGITS = 30


def shown_number(raw: str, code: str) -> str | None:
    """Return a number as a cell of this format shows it, rounded half up; None for a format that is not read:
    exponents, fractions, conditions and the general one."""
    sections = _sections(code)
    if sections is None:
        return None
    try:
        value = Decimal(raw)
    except InvalidOperation:
        return None
    if not value.is_finite() or value.adjusted() > _MOST_DIGITS:
        return None
    index = 1 if value < 0 and len(sections) > 1 else 2 if value == 0 and len(sections) > 2 else 0
    text = _written(abs(value), sections[index])
    if text is None:
        return None
    return f"-{text}" if value < 0 and index == 0 and any(map(str.isdigit, text)) else text


@lru_cache(maxsize=512)
def _sections(code: str) -> tuple[str, ...] | None:
    if _UNREADABLE.search(re.sub(r'"[^"]*"|\\.', "", code)) or _CONDITION.search(code):
        return None
    sections = [""]
    for piece in _SECTION.findall(code):
        if piece == ";":
            sections.append("")
        else:
            sections[-1] += piece
    return tuple(sections)


def _written(value: Decimal, section: str) -> str | None:
    parts = list(_PART.finditer(section))
    numbers = [part for part in parts if part["digits"]]
    if len(numbers) > 1:
        return None
    percents = sum(1 for part in parts if part["percent"])
    pieces: list[str] = []
    for part in parts:
        if part["digits"]:
            pieces.append(_digits(value.scaleb(2 * percents), part["digits"]))
        else:
            text = part["quoted"] or part["escaped"] or part["currency"] or part["percent"] or part["other"] or ""
            pieces.append(text)
    text = "".join(pieces).strip()
    return text or None


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
