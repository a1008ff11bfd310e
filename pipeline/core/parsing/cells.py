"""What the number in a spreadsheet's cell says: a number, or the date or time that its format shows it as."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BUILT_IN_DATES = frozenset((*range(14, 23), *range(27, 37), 45, 46, 47, *range(50, 59)))
_BUILT_IN_DURATION = 46
_LONGEST_CODE = 255  # characters of a number format: Excel's limit
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*+(?:\]|\Z)', re.IGNORECASE)
_DURATION = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_DATE = re.compile(r"[dmhysDMHYS]")
_EPOCH, _EPOCH_1904 = datetime.datetime(1899, 12, 30), datetime.datetime(1904, 1, 1)
_LEAP_DAY_THAT_NEVER_WAS = 60  # Excel counts 29 February 1900; numbers below it are a day off
_DAY_S = 86_400
_LARGEST_WHOLE = 1e15  # from which on a float does not hold every whole number


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Which cell styles show a number as a date, and which as a duration."""

    dates: frozenset[int]
    durations: frozenset[int]
    from_1904: bool


def number_formats(used: Sequence[int], codes: Mapping[int, str], *, from_1904: bool) -> Formats:
    """The formats of a workbook: ``used`` has the number format of each style, ``codes`` those the workbook defines."""
    dates, durations = set(), set()
    for style, number in enumerate(used):
        code = _NOT_SHOWN.sub("", codes.get(number, "")[:_LONGEST_CODE])
        if number == _BUILT_IN_DURATION or _DURATION.search(code):
            durations.add(style)
        elif number in _BUILT_IN_DATES or _DATE.search(code.partition(";")[0]):
            dates.add(style)
    return Formats(dates=frozenset(dates), durations=frozenset(durations), from_1904=from_1904)


def number_text(raw: str) -> str:
    """A number as people write it: ``3`` for ``3.0``, ``0.1`` for ``0.10000000000000001``. Raises ValueError."""
    if raw.isdecimal() and len(raw) < 16 and (raw[0] != "0" or raw == "0"):
        return raw
    value = float(raw)
    return str(int(value)) if value.is_integer() and abs(value) < _LARGEST_WHOLE else str(value)


def moment_text(raw: str, style: int, formats: Formats) -> str:
    """A number that is shown as a date, time or duration. One that is none of these stays a number."""
    try:
        days = float(raw)
        if style in formats.durations:
            return str(datetime.timedelta(seconds=round(days * _DAY_S)))
        if 0 <= days < 1:
            return str((_EPOCH + datetime.timedelta(seconds=round(days * _DAY_S))).time())
        if days < _LEAP_DAY_THAT_NEVER_WAS and not formats.from_1904:
            days += 1
        epoch = _EPOCH_1904 if formats.from_1904 else _EPOCH
        moment = epoch + datetime.timedelta(seconds=round(days * _DAY_S))
    except OverflowError:
        return number_text(raw)
    return moment.isoformat(sep=" ").removesuffix(" 00:00:00")
