"""Workbooks of OpenDocument, of Excel before 2007 and of XML in one file, read by the same handlers as the sheets of xlsx."""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from zipfile import ZipFile

import olefile
import xlrd
from xlrd.formula import FormulaError

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument
from pipeline.parsing.assembly import WHITE, Block, assemble, one_line
from pipeline.parsing.containers import XmlReader, what_it_is
from pipeline.parsing.csv import MOST_CELLS
from pipeline.parsing.numbering import whole
from pipeline.parsing.opendocument import CONTENT, Objects, open_document, title_of, titles_of
from pipeline.parsing.sheets import Formats, Row, SheetReader, column_letters, number_formats
from pipeline.parsing.workbook import MOST_ROWS, TOO_MANY_ROWS, workbook_blocks
from pipeline.records import Parsed

_WHITE = 1  # the style of white cells of OpenDocument
_NO_FORMATS = Formats(codes={}, from_1904=False, white=(str(_WHITE),))
_KINDS = {xlrd.XL_CELL_TEXT: "str", xlrd.XL_CELL_NUMBER: "n", xlrd.XL_CELL_DATE: "n", xlrd.XL_CELL_BOOLEAN: "b"}
_KINDS |= {xlrd.XL_CELL_ERROR: "e"}
_DAMAGED = (
    *(xlrd.XLRDError, FormulaError, struct.error, OSError, RecursionError, ArithmeticError, AssertionError),
    *(AttributeError, LookupError, NameError, NotImplementedError, TypeError, ValueError),
)
_BARE_GROUNDS = ("#ffffff", "transparent")
_BARE = (b"\x09\x00", b"\x09\x02", b"\x09\x04", b"\x09\x08")  # beginnings of a workbook without a container
_PASSWORD = "the document is protected by a password"
_NO_WORKBOOK = "the archive holds no Excel workbook"
_MOST_COLUMNS = 16_384
_WHITE_RGB, _DRAWN = (255, 255, 255), frozenset({0xEC, 0x1B0})  # records: drawings, formats with conditions
_XML_KINDS = {"Number": "n", "DateTime": "n", "Boolean": "b", "Error": "e"}
_NAMED_FORMATS = {
    **{"Fixed": "0.00", "Standard": "#,##0.00", "Currency": "#,##0.00", "Percent": "0.00%", "Scientific": "0.00E+00"},
    **{"General": "", "General Number": "", "Short Date": "yyyy-mm-dd", "General Date": "yyyy-mm-dd hh:mm"},
    **{"Long Date": "yyyy-mm-dd", "Medium Date": "d-mmm-yy", "Short Time": "hh:mm", "Medium Time": "hh:mm AM/PM"},
    **{"Long Time": "hh:mm:ss", "Yes/No": '"Yes";"Yes";"No"', "True/False": '"True";"True";"False"'},
}
_SILENT = frozenset({"tracked-changes", "creator", "date", "date-string", "title", "desc", "content-validations"})
_SHAPES = frozenset({"annotation", "shapes", "frame", "custom-shape"})


class _Sheet(SheetReader):
    """A sheet that was read, as `workbook_blocks` takes it."""

    def __init__(self, name: str, *, is_hidden: bool, formats: Formats = _NO_FORMATS) -> None:
        super().__init__([], formats)
        self.name, self.is_hidden = name, is_hidden
        self.notes: list[str] = []

    def add_note(self, row: int, column: int, text: str) -> None:
        self.notes.append(f"{column_letters(column)}{row}: {text}")


@dataclass(frozen=True, slots=True)
class _Workbook:
    sheets: tuple[_Sheet, ...]
    warnings: Sequence[str] = ()

    def open(self, sheet: _Sheet) -> SheetReader:
        return sheet

    def rows(self, _sheet: _Sheet, reader: SheetReader) -> Iterator[Row]:
        yield from reader.taken()

    def notes(self, sheet: _Sheet) -> Iterator[Block]:
        return (Block(text=text) for text in sheet.notes)


def parse_xls(body: bytes) -> Parsed:
    """Return the sheets as `parse_xlsx` does. Raises MalformedDocument, EncryptedDocument, DocumentTooLarge."""
    warnings: list[str] = []
    if body.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"<"):
        return _xml_2003(body)
    try:
        # With formatting come hidden rows, merged cells and notes.
        contents = _stream_of(body)
        book = xlrd.open_workbook(file_contents=contents, formatting_info=True, ragged_rows=True, logfile=io.StringIO())
        codes = {number: each.format_str or "" for number, each in book.format_map.items()}
        formats = number_formats([each.format_key for each in book.xf_list], codes, from_1904=book.datemode == 1)
        white = [str(at) for at, style in enumerate(book.xf_list) if _is_white(book, style)]
        formats = replace(formats, white=white)
        is_coloured = bool(white) and not _DRAWN.isdisjoint(_kinds_of_records(contents))
        sheets = tuple(_xls_sheet(sheet, formats, is_coloured=is_coloured) for sheet in book.sheets())
    except _DAMAGED as error:
        if "encrypted" in str(error):
            raise EncryptedDocument(_PASSWORD) from None
        raise MalformedDocument(f"a part of the document is damaged ({type(error).__name__})") from None
    return assemble(workbook_blocks(_Workbook(sheets), warnings), warnings=warnings)


def _xml_2003(body: bytes) -> Parsed:
    """Return the sheets of a workbook in one file of XML, as Excel 2003 and many programs since write it."""
    warnings: list[str] = []
    tables = _XmlTables()
    with ZipFile(io.BytesIO(), "w") as archive:
        archive.writestr(CONTENT, body)
        tables.read(archive, CONTENT)
    if not tables.sheets:
        raise MalformedDocument(f"the file is not an Excel workbook but {what_it_is(body)}")
    return assemble(workbook_blocks(_Workbook(tuple(tables.sheets)), warnings), warnings=warnings)


def _stream_of(body: bytes) -> bytes:
    """Return the workbook in a container, or the body of a bare one. xlrd's own reading of containers may not end."""
    if not body.startswith(olefile.MAGIC):
        if not body.startswith(_BARE):
            raise MalformedDocument(f"the file is not an Excel workbook but {what_it_is(body)}")
        return body
    with olefile.OleFileIO(body) as container:
        names = {"/".join(path).lower(): path for path in container.listdir(storages=False)}
        path = next((names[name] for name in ("workbook", "book") if name in names), None)
        if path is None:
            is_encrypted = "encryptedpackage" in names
            raise EncryptedDocument(_PASSWORD) if is_encrypted else MalformedDocument(_NO_WORKBOOK)
        return bytes(container.openstream(path).read())


def _is_white(book: Any, style: Any) -> bool:
    """Return whether a style writes white on no other colour."""
    colour = book.colour_map.get(book.font_list[style.font_index].colour_index)
    ground = style.background
    is_bare = not ground.fill_pattern or book.colour_map.get(ground.pattern_colour_index) in (None, _WHITE_RGB)
    return colour == _WHITE_RGB and is_bare


def _kinds_of_records(stream: bytes) -> set[int]:
    kinds, at = set[int](), 0
    while at + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, at)
        kinds.add(kind)
        at += 4 + length
    return kinds


def _xls_sheet(source: Any, formats: Formats, *, is_coloured: bool) -> _Sheet:
    sheet = _Sheet(source.name, is_hidden=source.visibility != 0, formats=formats)
    sheet.is_coloured = is_coloured
    for column, about in source.colinfo_map.items():
        if about.hidden:
            sheet.hide(column, column)
    for top, bottom, left, right in source.merged_cells:
        sheet.merge(top + 1, bottom, left, right - 1)
    for (row, column), note in sorted(source.cell_note_map.items()):
        sheet.add_note(row + 1, column, note.text.strip())
    for index in range(source.nrows):
        about = source.rowinfo_map.get(index)
        sheet.begin_row(index + 1, is_hidden=about is not None and bool(about.hidden))
        for column, (kind, value) in enumerate(zip(source.row_types(index), source.row_values(index), strict=True)):
            if kind in _KINDS:
                text = xlrd.error_text_from_code.get(value, "") if kind == xlrd.XL_CELL_ERROR else str(value)
                sheet.add_cell(column, text, _KINDS[kind], style=source.cell_xf_index(index, column))
        sheet.end_row()
    return sheet


class _XmlTables(XmlReader):
    """Reads the tables of a workbook of XML in one file."""

    def __init__(self) -> None:
        self.sheets: list[_Sheet] = []
        self._styles: dict[str, int] = {"": 0}  # numbers of the styles of cells
        self._codes: dict[int, str] = {}
        self._style = self._kind = ""
        self._row = self._column = 0  # from 1; from 0, of the open cell or column
        self._next = 0  # column
        self._cell: dict[str, str] = {}
        self._value: list[str] = []
        self._within: list[str] = []  # open elements of which the text is read

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        place = whole(attributes.get("Index"), 0)
        if name == "Style":
            self._style = attributes.get("ID", "")
            number = self._styles.setdefault(self._style, len(self._styles))
            self._codes[number] = self._codes.get(self._styles.get(attributes.get("Parent", ""), 0), "")
        elif name == "NumberFormat":
            code = attributes.get("Format", "")
            self._codes[self._styles.get(self._style, 0)] = _NAMED_FORMATS.get(code, code)
        elif name == "Worksheet":
            formats = number_formats([*self._styles.values()], self._codes, from_1904=False)
            self.sheets.append(_Sheet(attributes.get("Name", ""), is_hidden=False, formats=formats))
            self._row = self._next = 0
        elif name == "Column":
            self._column = place - 1 if place else self._next
            self._next = self._column + 1 + whole(attributes.get("Span"), 0)
            if attributes.get("Hidden") == "1":
                self.sheets[-1].hide(self._column, self._next - 1)
        elif name == "Row":
            self._row, self._next = place or self._row + 1, 0
            self.sheets[-1].begin_row(self._row, is_hidden=attributes.get("Hidden") == "1")
        elif name == "Cell":
            self._cell, self._kind, self._value = attributes, "", []
            self._column = place - 1 if place else self._next
            across, down = (whole(attributes.get(key), 0) for key in ("MergeAcross", "MergeDown"))
            self._next = self._column + 1 + across
            if across or down:
                self.sheets[-1].merge(self._row, self._row + down, self._column, self._column + across)
        elif name in ("Data", "Comment", "Visible"):
            self._within.append(name)
            self._kind = self._kind or attributes.get("Type", "")

    def ended(self, name: str, /) -> None:
        if self._within and name == self._within[-1]:
            self._within.pop()
            text = "".join(self._value).strip()
            if name == "Visible" and self.sheets:
                self.sheets[-1].is_hidden = text != "SheetVisible"
            elif name == "Comment" and text:
                self.sheets[-1].add_note(self._row, self._column, one_line(text))
            elif name == "Data" and not self._within and self._column < _MOST_COLUMNS:
                kind, style = _XML_KINDS.get(self._kind, "str"), self._styles.get(self._cell.get("StyleID", ""), 0)
                text = _serial(text) if self._kind == "DateTime" else text
                self.sheets[-1].add_cell(self._column, text, kind, style=style, is_formula="Formula" in self._cell)
            self._value = self._value if self._within else []
        elif name == "Row":
            self.sheets[-1].end_row()

    def text(self, text: str, /) -> None:
        if self._within:
            self._value.append(text)


def _serial(moment: str) -> str:
    """Return a moment as the number of days that Excel counts; other text unchanged."""
    try:
        since = datetime.fromisoformat(moment) - datetime(1899, 12, 30)
    except (ValueError, TypeError):
        return moment
    return str(since / timedelta(days=1))


def parse_ods(body: bytes) -> Parsed:
    """Return the sheets as `parse_xlsx` does: values as they are shown. Raises as `office_archive`."""
    warnings: list[str] = []
    with open_document(body, "an OpenDocument workbook") as archive:
        tables = _Tables(Objects(archive))
        tables.read(archive, CONTENT)
        title = title_of(archive)
        blocks = workbook_blocks(_Workbook(tuple(tables.sheets), archive.warnings), warnings)
        return assemble(blocks, title=title, warnings=warnings)


@dataclass(slots=True)
class _Cell:
    repeat: int = 1
    value: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


class _Tables(XmlReader):
    """Reads the tables of a workbook."""

    def __init__(self, objects: Objects) -> None:
        self.sheets: list[_Sheet] = []
        self._objects = objects
        self._hidden: set[str] = set()  # styles of sheets
        self._white, self._shaded = set[str](), set[str]()  # styles of cells
        self._is_coloured = False  # a style has conditions
        self._style = ""
        self._depth = self._silent = self._shape = 0  # open tables, silent elements, and shapes
        self._number = self._column = 0  # of the row, from 1; of the next cell
        self._row: dict[str, str] = {}
        self._cells: list[tuple[int, str, bool, int]] = []
        self._cell = _Cell()
        self._pieces: list[str] | None = None  # of the open paragraph
        self._note: list[str] = []
        self._rows_left, self._cells_left = MOST_ROWS, MOST_CELLS

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if self._silent or name in _SILENT:
            self._silent += 1
        elif name == "style":
            self._style = attributes.get("name", "")
        elif name == "table-properties" and attributes.get("display") == "false":
            self._hidden.add(self._style)
        elif name == "text-properties" and WHITE.fullmatch(attributes.get("color", "")[1:]):
            self._white.add(self._style)
        elif (
            name == "table-cell-properties"
            and attributes.get("background-color", "#ffffff").lower() not in _BARE_GROUNDS
        ):
            self._shaded.add(self._style)
        elif name in ("map", "conditional-format"):
            self._is_coloured = True
        elif name == "table":
            self._depth += 1
            if self._depth == 1:
                is_hidden = attributes.get("style-name") in self._hidden
                self.sheets.append(_Sheet(attributes.get("name", ""), is_hidden=is_hidden))
                self.sheets[-1].is_coloured = self._is_coloured
                self._number = self._column = 0
        elif self._depth == 1:
            self._part(name, attributes)

    def _part(self, name: str, attributes: dict[str, str]) -> None:
        """Take a part of a sheet."""
        if name in _SHAPES:
            self._shape += 1
            self.sheets[-1].is_coloured |= name != "annotation"
        elif name == "object":
            self._note += titles_of(self._objects.take(attributes.get("href", "")))
        elif name == "p":
            self._pieces = []
        elif self._pieces is not None:
            if name in ("s", "tab", "line-break"):
                self._pieces.append("\n" if name == "line-break" else " ")
        elif name == "table-column":
            last = self._column + whole(attributes.get("number-columns-repeated"), 1) - 1
            if attributes.get("visibility") in ("collapse", "filter"):
                self.sheets[-1].hide(self._column, last)
            self._column = last + 1
        elif name == "table-row":
            self._row, self._cells, self._column = attributes, [], 0
            self._number += 1
        elif name in ("table-cell", "covered-table-cell"):
            self._cell = _Cell(whole(attributes.get("number-columns-repeated"), 1))
            self._cell.value = attributes if name == "table-cell" else {}

    def ended(self, name: str, /) -> None:
        if self._silent:
            self._silent -= 1
        elif name == "table" and self._depth:
            self._depth -= 1
        elif self._depth == 1:
            self._part_ended(name)

    def _part_ended(self, name: str) -> None:
        if name == "p" and self._pieces is not None:
            (self._note if self._shape else self._cell.lines).append("".join(self._pieces))
            self._pieces = None
        elif name in _SHAPES:
            self._shape -= 1
            text = one_line(*self._note) if not self._shape else ""
            if text and name == "annotation":
                self.sheets[-1].add_note(self._number, self._column, text)
            elif text:
                self.sheets[-1].notes.append(text)
            self._note = self._note if self._shape else []
        elif name in ("table-cell", "covered-table-cell"):
            self._end_cell(self._cell)
        elif name == "table-row":
            self._end_row()

    def text(self, text: str, /) -> None:
        if self._pieces is not None and not self._silent:
            self._pieces.append(text)

    def _end_cell(self, cell: _Cell) -> None:
        text = _shown(cell)
        lacks_value = not text and "formula" in cell.value and "value-type" not in cell.value
        if text or lacks_value:
            look = cell.value.get("style-name", "")
            style = _WHITE if look in self._white and look not in self._shaded else 0
            for column in range(self._column, min(self._column + cell.repeat, _MOST_COLUMNS)):
                self._cells.append((column, text, lacks_value, style))
            across = whole(cell.value.get("number-columns-spanned"), 1)
            down = whole(cell.value.get("number-rows-spanned"), 1)
            if across > 1 or down > 1:
                self.sheets[-1].merge(self._number, self._number + down - 1, self._column, self._column + across - 1)
        self._column += cell.repeat

    def _end_row(self) -> None:
        sheet, repeat = self.sheets[-1], whole(self._row.get("number-rows-repeated"), 1)
        is_hidden = self._row.get("visibility") in ("collapse", "filter")
        filled = repeat if self._cells else 0
        self._rows_left, self._cells_left = self._rows_left - filled, self._cells_left - filled * len(self._cells)
        if self._rows_left < 0:
            raise DocumentTooLarge(TOO_MANY_ROWS)
        if self._cells_left < 0:
            raise DocumentTooLarge(f"the workbook holds more than {MOST_CELLS} cells")
        for number in range(self._number, self._number + filled):
            sheet.begin_row(number, is_hidden=is_hidden)
            for column, text, lacks_value, style in self._cells:
                sheet.add_cell(column, text, "n" if lacks_value else "str", style=style, is_formula=lacks_value)
            sheet.end_row()
        self._number += repeat - 1


def _shown(cell: _Cell) -> str:
    value = cell.value
    moment = value.get("date-value", "").replace("T", " ").removesuffix(" 00:00:00")
    return "\n".join(cell.lines).strip() or moment or value.get("string-value", "") or value.get("value", "")
