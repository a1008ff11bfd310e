"""One sheet of a workbook, read as a stream of XML: rows of text, and their properties."""

import re
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pipeline.parsing.formulas import lowered, raised
from pipeline.parsing.number_formats import BUILT_IN_CODES, shown_text, shown_value
from pipeline.parsing.numbering import alphabetic
from pipeline.parsing.table_headers import Span

_LONGEST_CODE = 255  # characters of a number format: Excel's limit
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # the notation of a workbook for characters that XML lacks
_MOST_COLUMNS = 16_384
_LAST_ROW = 1_048_576
_RANGE = re.compile(r"([A-Za-z]{1,3})(\d{1,7}):([A-Za-z]{1,3})(\d{1,7})")
_DIGITS = "0123456789"
_PICTURE = re.compile(r"=?_?(?:xlfn\.)?(?:DISPIMG|IMAGE)\(", re.IGNORECASE)  # a picture in a cell, as WPS writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Formats:
    """The number format of each cell style that has one, whether dates count from 1904, and the styles that write white on
    white."""

    codes: Mapping[int, str]
    from_1904: bool
    white: Container[str] = ()


def number_formats(used: Sequence[int], codes: Mapping[int, str], *, from_1904: bool) -> Formats:
    """Return the formats of a workbook: ``used`` has the number format of each style, ``codes`` those the workbook
    defines.
    """
    named = {style: codes.get(number) or BUILT_IN_CODES.get(number, "") for style, number in enumerate(used)}
    codes = {style: code[:_LONGEST_CODE] for style, code in named.items() if code and code != "General"}
    return Formats(codes=codes, from_1904=from_1904)


@dataclass(slots=True, kw_only=True)
class Row:
    """One row. ``cells``: values that are not empty, by column from 0, never formulas. ``without_value``: columns whose
    formula was saved without its value. ``errors``: columns with an error such as ``#N/A``. ``style``: of the first cell.
    ``white``: columns with white text, unless the sheet ``is_coloured`` by more than its cells."""

    number: int
    cells: dict[int, str] = field(default_factory=dict)
    is_hidden: bool = False
    without_value: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    style: str = ""
    white: tuple[int, ...] = ()


class Strings:
    """The table of texts that cells share, each of one or several runs."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._pieces: list[str] = []  # of the open text
        self._reads = self._silent = False
        self._position = ""  # of the open run: superscript or subscript

    def started(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._begin_run(name if ":" not in name else name.rpartition(":")[2], attributes)

    def ended(self, name: str) -> None:
        """End an element."""
        self._end_run(name if ":" not in name else name.rpartition(":")[2])

    def text(self, text: str) -> None:
        """Take the text within an element."""
        if self._reads:
            self._pieces.append(_shifted(self._pieces, text, self._position) if self._position else text)

    def _begin_run(self, local: str, attributes: dict[str, str]) -> None:
        if local == "t":
            self._reads = not self._silent
        elif local == "si":
            self._pieces, self._position = [], ""
        elif local == "r":
            self._position = ""
        elif local == "vertAlign":
            self._position = attributes.get("val", "")
        elif local == "rPh":  # the reading of a Japanese word, which is not part of it
            self._silent = True

    def _end_run(self, local: str) -> None:
        if local == "t":
            self._reads = False
        elif local == "si":
            self.texts.append(_unescaped("".join(self._pieces)))
        elif local == "rPh":
            self._silent = False


class SheetReader(Strings):
    """Handlers for the XML of a sheet. ``merged`` is complete when the sheet was read to its end."""

    def __init__(self, strings: list[str], formats: Formats) -> None:
        super().__init__()
        self.merged: list[Span] = []
        self._strings = strings
        self._codes = {str(style): code for style, code in formats.codes.items()}
        self._from_1904 = formats.from_1904
        self._white = formats.white
        self.is_coloured = False
        self._columns: dict[str, int] = {}
        self._done: list[Row] = []
        self._row = Row(number=0)
        self._column = -1
        self._kind = self._style = ""
        self._is_formula = False
        self._hidden: list[tuple[int, int]] = []  # first and last of adjacent columns
        self._is_hidden: dict[int, bool] = {}  # by column

    def hide(self, first: int, last: int) -> None:
        """Take columns, from 0, for hidden ones."""
        self._hidden.append((first, last))

    def merge(self, top: int, bottom: int, left: int, right: int) -> None:
        """Merge the cells of rows, from 1, and columns, from 0, inclusive."""
        self.merged.append(Span(top=top, bottom=bottom, left=left, right=min(right, _MOST_COLUMNS - 1)))

    def begin_row(self, number: int, *, is_hidden: bool = False) -> None:
        """Begin a row. Raises ValueError for a number that no row has."""
        if not 1 <= number <= _LAST_ROW:
            raise ValueError("no row")
        self._row = Row(number=number, is_hidden=is_hidden)
        self._column = -1

    def end_row(self) -> None:
        """End the row."""
        self._done.append(self._row)

    def add_cell(self, column: int, raw: str, kind: str, *, style: int = 0, is_formula: bool = False) -> None:
        """Add a cell to the row, of a kind and a style of xlsx."""
        self._column, self._kind, self._style, self._is_formula = column, kind, str(style), is_formula
        self._keep(raw)

    def shown(self, cells: dict[int, str]) -> dict[int, str]:
        """Return the cells that are in no hidden column."""
        if not self._hidden:
            return cells
        for column in cells.keys() - self._is_hidden.keys():
            self._is_hidden[column] = any(first <= column <= last for first, last in self._hidden)
        return {column: text for column, text in cells.items() if not self._is_hidden[column]}

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
            self._pieces, self._is_formula, self._position = [], False, ""
        elif local == "v":
            self._reads = True
        elif local == "f":
            self._is_formula = True
        elif local == "row":
            self.begin_row(int(attributes.get("r") or self._row.number + 1), is_hidden=_is_hidden(attributes, "ht"))
        elif local in ("tablePart", "conditionalFormatting", "drawing", "legacyDrawing", "picture"):
            self.is_coloured = True
        elif local == "col":
            if _is_hidden(attributes, "width"):
                self.hide(int(attributes.get("min", 1)) - 1, int(attributes.get("max", 1)) - 1)
        elif local == "mergeCell" and (range_ := _RANGE.fullmatch(attributes.get("ref", ""))):
            with suppress(ValueError):  # columns beyond the last one merge nothing
                columns = sorted((column_number(range_[1]), column_number(range_[3])))
                self.merge(int(range_[2]), int(range_[4]), *columns)
        else:
            self._begin_run(local, attributes)

    def ended(self, name: str) -> None:
        """End an element."""
        local = name if ":" not in name else name.rpartition(":")[2]
        if local == "c":
            self._keep("".join(self._pieces))
        elif local == "v":
            self._reads = False
        elif local == "row":
            self.end_row()
        else:
            self._end_run(local)

    def _keep(self, raw: str) -> None:
        """Take the value of the open cell."""
        row, kind = self._row, self._kind
        if not raw:
            if self._is_formula and kind != "str":  # an empty string is a value
                row.without_value = (*row.without_value, self._column)
            return
        code = self._codes.get(self._style, "")
        if kind == "n":
            text = shown_value(raw, code, from_1904=self._from_1904)
        elif kind == "b":
            text = "TRUE" if raw == "1" else "FALSE"
        else:
            text = (self._strings[int(raw)] if kind == "s" else _unescaped(raw)).strip()
            if kind == "e":
                row.errors = (*row.errors, self._column)
            elif kind != "s" and _PICTURE.match(text):
                return
            elif len(code) > 1 and ("@" in code or ";;" in code):
                text = shown_text(text, code)
        if text:
            if not row.cells:
                row.style = self._style
            row.cells[self._column] = text
            if self._style in self._white:
                row.white = (*row.white, self._column)

    def _column_of(self, letters: str) -> int:
        column = self._columns.get(letters)
        if column is None:
            column = column_number(letters)
            self._columns[letters] = column
        return column


def _is_hidden(attributes: Mapping[str, str], size: str) -> bool:
    return attributes.get("hidden") in ("1", "true") or attributes.get(size) in ("0", "0.0")


def _shifted(before: Sequence[str], text: str, position: str) -> str:
    shift = {"superscript": raised, "subscript": lowered}.get(position)
    return shift("".join(before[-1:]), text) if shift else text


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
    return alphabetic(column + 1).upper()


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: _character(int(match[1], 16)), text) if "_x" in text else text


def _character(code: int) -> str:
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else chr(code)  # a surrogate is not text
