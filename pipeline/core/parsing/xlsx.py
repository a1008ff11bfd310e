"""Excel workbooks to text: each sheet a heading, each row a paragraph."""

from __future__ import annotations

import datetime
import io
import warnings
from collections.abc import Iterator
from zipfile import ZipFile

import openpyxl
from openpyxl.worksheet._read_only import ReadOnlyWorksheet
from openpyxl.xml import DEFUSEDXML

from pipeline.core.parsing.assembly import Block, assemble
from pipeline.core.parsing.containers import office_archive
from pipeline.core.parsing.csv import MOST_CELLS, table_blocks
from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.records import Parsed

_MOST_SHEETS = 500
_MOST_ROWS = 200_000  # of a workbook, empty ones included, which some programs write by the million
_TOO_MANY_ROWS = f"the workbook holds more than {_MOST_ROWS} rows, empty ones included"
_READ_AT_ONCE = 1024 * 1024  # bytes


def parse_xlsx(body: bytes) -> Parsed:
    """Rows of every visible sheet, as `parse_csv` writes them. Formulas count as the value they had when it was saved.

    Empty rows and cells are left out, however many there are. The title is that of the workbook's properties.
    """
    assert DEFUSEDXML, "openpyxl must not expand entities: defusedxml is not installed"
    with office_archive(body, "an Excel workbook") as archive:
        if not any(name.startswith("xl/workbook") for name in archive.namelist()):
            raise MalformedDocument("the archive holds no Excel workbook")
        _refuse_many_rows(archive)
        return _parsed(body)


def _refuse_many_rows(archive: ZipFile) -> None:
    """Count rows before openpyxl does: where a sheet does not say its size, it first reads the sheet to its end."""
    rows = 0
    for name in archive.namelist():
        if name.startswith("xl/worksheets/"):
            with archive.open(name) as sheet:
                while piece := sheet.read(_READ_AT_ONCE):
                    rows += piece.count(b"<row") + piece.count(b":row")
                    if rows > _MOST_ROWS:
                        raise DocumentTooLarge(_TOO_MANY_ROWS)


def _parsed(body: bytes) -> Parsed:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and extensions that it leaves out
        try:
            workbook = openpyxl.load_workbook(io.BytesIO(body), read_only=True, data_only=True, keep_links=False)
        except (MemoryError, RecursionError, RuntimeError):
            raise
        except Exception as error:
            raise MalformedDocument(f"the workbook cannot be opened ({type(error).__name__})") from error
        try:
            return assemble(list(_blocks(workbook)), title=workbook.properties.title)
        finally:
            workbook.close()


def _blocks(workbook: openpyxl.Workbook) -> Iterator[Block]:
    sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    if len(sheets) > _MOST_SHEETS:
        raise DocumentTooLarge(f"the workbook has {len(sheets)} sheets; at most {_MOST_SHEETS} are read")
    rows_left = iter(range(_MOST_ROWS))
    for sheet in sheets:
        blocks = table_blocks(_rows(sheet, rows_left))
        first = next(blocks, None)
        if first is not None:
            yield Block(text=sheet.title, level=1, mark=first.mark)
            yield first
            yield from blocks


def _rows(sheet: ReadOnlyWorksheet, rows_left: Iterator[int]) -> Iterator[list[str]]:
    sheet.reset_dimensions()  # what a sheet says of its own size may be wrong, and rows are padded to it
    seen = 0
    try:
        for row in sheet.iter_rows(values_only=True):
            if next(rows_left, None) is None:
                raise DocumentTooLarge(_TOO_MANY_ROWS)
            seen += len(row)
            if seen > MOST_CELLS:
                raise DocumentTooLarge(f"the sheet holds more than {MOST_CELLS} cells")
            cells = [_cell(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            yield cells
    except (DocumentTooLarge, MalformedDocument, MemoryError, RecursionError, RuntimeError):
        raise
    except Exception as error:
        raise MalformedDocument(f"a sheet of the workbook is damaged ({type(error).__name__})") from error


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value).strip()
