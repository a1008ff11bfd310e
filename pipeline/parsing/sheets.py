"""One sheet of a workbook, read as a stream of XML: rows of text, and their properties."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.parsing.number_formats import BUILT_IN_CODES, shown_number

_BUILT_IN_DATES = frozenset((*range(14, 23), *range(27, 37), 45, 46, 47, *range(50, 59)))
_BUILT_IN_DURATION = 46
_LONGEST_CODE = 255  # characters of a number format: Excel's limit
_NOT_SHOWN = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!h+\]|m+\]|s+\])[^\]]*+(?:\]|\Z)', re.IGNORECASE)
_DURATION = re.compile(r"\[(h+|m+|s+)\]", re.IGNORECASE)
_DATE = re.compile(r"[dmhysDMHYS]")
_EPOCH, _EPOCH_1904 = datetime.datetime(1899, 12, 30), datetime.datetime(1904, 1, 1)
_LEAP_DAY_THAT_NEVER_WAS = 60  # Excel counts 29 February 1900; numbers below it are a day off
_DAY_S = 86_400
_LARGEST_WHOLE = 1e15  # from here on a float cannot represent every integer
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # the notation of a workbook for characters that XML lacks
_MOST_COLUMNS = 16_384
_LAST_ROW = 1_048_576
_DIGITS = "0123456789"
_PICTURE = re.compile(r"=?_?(?:xlfn\.)?(?:DISPIMG|IMAGE)\(", re.IGNORECASE)  # a picture in a cell, as WPS writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """Which cell styles show a number as a date, and which as a duration. ``codes``: the number formats of the others."""

    dates: frozenset[int]
    durations: frozenset[int]
    from_1904: bool
    codes: Mapping[int, str] = field(default_factory=dict)


def number_formats(used: Sequence[int], codes: Mapping[int, str], *, from_1904: bool) -> Formats:
    """Return the formats of a workbook: ``used`` has the number format of each style, ``codes`` those the workbook
    defines.
    """
    dates, durations = set(), set()
    others: dict[int, str] = {}
    for style, number in enumerate(used):
        whole = (codes.get(number) or BUILT_IN_CODES.get(number, ""))[:_LONGEST_CODE]
        code = _NOT_SHOWN.sub("", codes.get(number, "")[:_LONGEST_CODE])
        if number == _BUILT_IN_DURATION or _DURATION.search(code):
            durations.add(style)
        elif number in _BUILT_IN_DATES or _DATE.search(code.partition(";")[0]):
            dates.add(style)
        elif whole:
            others[style] = whole
    return Formats(dates=frozenset(dates), durations=frozenset(durations), from_1904=from_1904, codes=others)


def number_text(raw: str) -> str:
    """Return a number as people write it: ``3`` for ``3.0``, ``0.1`` for ``0.10000000000000001``. Raises ValueError."""
    if raw.isdecimal() and len(raw) < 16 and (raw[0] != "0" or raw == "0"):
        return raw
    value = float(raw)
    return str(int(value)) if value.is_integer() and abs(value) < _LARGEST_WHOLE else str(value)


def moment_text(raw: str, style: int, formats: Formats) -> str:
    """Return a number with the format of a date, time or duration as text. Any other number stays a number."""
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


@dataclass(slots=True, kw_only=True)
class Row:
    """One row. ``cells``: values that are not empty, by column from 0, never formulas. ``without_value``: columns whose
    formula was saved without its value. ``errors``: columns with an error such as ``#N/A``."""

    number: int
    cells: dict[int, str] = field(default_factory=dict)
    is_hidden: bool = False
    without_value: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()


class Strings:
    """The table of texts that cells share."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._pieces: list[str] = []
        self._reads = False
        self._silent = False

    def started(self, name: str, _attributes: dict[str, str]) -> None:
        """Begin an element."""
        local = name if ":" not in name else name.rpartition(":")[2]
        if local == "t":
            self._reads = not self._silent
        elif local == "si":
            self._pieces = []
        elif local == "rPh":  # the reading of a Japanese word, which is not part of it
            self._silent = True

    def ended(self, name: str) -> None:
        """End an element."""
        local = name if ":" not in name else name.rpartition(":")[2]
        if local == "t":
            self._reads = False
        elif local == "si":
            self.texts.append(_unescaped("".join(self._pieces)))
        elif local == "rPh":
            self._silent = False

    def text(self, text: str) -> None:
        """Take the text within an element."""
        if self._reads:
            self._pieces.append(text)


class SheetReader:
    """Handlers for the XML of a sheet. ``merged`` is complete when the sheet was read to its end."""

    def __init__(self, strings: list[str], formats: Formats) -> None:
        self.merged: list[str] = []
        self._strings = strings
        self._formats = formats
        self._moments = formats.dates | formats.durations
        self._columns: dict[str, int] = {}
        self._done: list[Row] = []
        self._row = Row(number=0)
        self._column = -1
        self._kind = self._style = ""
        self._value: list[str] = []
        self._reads = self._silent = self._is_formula = False
        self._hidden: list[tuple[int, int]] = []  # first and last of adjacent columns

    def is_hidden(self, column: int) -> bool:
        """Return whether a column, from 0, is hidden."""
        return any(first <= column <= last for first, last in self._hidden)

    def taken(self) -> list[Row]:
        """Return the rows that were finished since the last call."""
        done, self._done = self._done, []
        return done

    def started(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        local = name if ":" not in name else name.rpartition(":")[2]
        if local == "c":
            reference = attributes.get("r")
            self._column = self._column + 1 if reference is None else self._column_of(reference.rstrip(_DIGITS))
            self._kind, self._style = attributes.get("t", "n"), attributes.get("s", "")
            self._value, self._is_formula = [], False
        elif local == "v" or local == "t":
            self._reads = not self._silent
        elif local == "f":
            self._is_formula = True
        elif local == "row":
            number = int(attributes.get("r") or self._row.number + 1)
            if not 1 <= number <= _LAST_ROW:
                raise ValueError("no row")
            self._row = Row(number=number, is_hidden=attributes.get("hidden") in ("1", "true"))
            self._column = -1
        elif local == "rPh":
            self._silent = True
        elif local == "col":
            if attributes.get("hidden") in ("1", "true"):
                self._hidden.append((int(attributes.get("min", 1)) - 1, int(attributes.get("max", 1)) - 1))
        elif local == "mergeCell":
            self.merged.append(attributes.get("ref", ""))

    def ended(self, name: str) -> None:
        """End an element."""
        local = name if ":" not in name else name.rpartition(":")[2]
        if local == "c":
            self._keep("".join(self._value))
        elif local == "v" or local == "t":
            self._reads = False
        elif local == "row":
            self._done.append(self._row)
        elif local == "rPh":
            self._silent = False

    def text(self, text: str) -> None:
        """Take the text within an element."""
        if self._reads:
            self._value.append(text)

    def _keep(self, raw: str) -> None:
        text = self._text(raw) if raw and not _PICTURE.match(raw) else ""
        if text:
            self._row.cells[self._column] = text
        elif self._is_formula and not raw and self._kind != "str":  # an empty string is a value
            self._row.without_value = (*self._row.without_value, self._column)

    def _text(self, raw: str) -> str:
        kind = self._kind
        if kind == "s":
            return self._strings[int(raw)].strip()
        if kind == "n":
            style = self._style
            if style and style != "0":
                if int(style) in self._moments:
                    return moment_text(raw, int(style), self._formats)
                if (code := self._formats.codes.get(int(style))) and (shown := shown_number(raw, code)):
                    return shown
            return number_text(raw)
        if kind == "b":
            return "true" if raw == "1" else "false"
        if kind == "e":
            self._row.errors = (*self._row.errors, self._column)
        return _unescaped(raw).strip()

    def _column_of(self, letters: str) -> int:
        column = self._columns.get(letters)
        if column is None:
            column = column_number(letters)
            self._columns[letters] = column
        return column


def column_number(letters: str) -> int:
    """Return the index of a column: 0 for ``A``, 26 for ``AA``. Raises ValueError for an impossible one."""
    if not (1 <= len(letters) <= 3 and letters.isascii() and letters.isalpha()):
        raise ValueError("no column")
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    if number > _MOST_COLUMNS:
        raise ValueError("no column")
    return number - 1


def column_letters(column: int) -> str:
    """Return the letters of a column: ``A`` for column 0, ``AA`` for 26."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return letters


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _character(int(match[1], 16)), text) if "_x" in text else text


def _character(code: int) -> str:
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)  # a surrogate is not text
