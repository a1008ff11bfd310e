"""The workbook form of a book: a sheet for each category, a header, and a row for each example."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chordwise.contract.example import BookFlaw
from pipeline.errors import DocumentTooLarge
from pipeline.examples.example import REQUIRED, Book, BookRow, Category, Column, ExampleSheet
from pipeline.examples.headings import category_of, column_of, is_guide, one_line, shown
from pipeline.parsing.csv import MOST_CELLS
from pipeline.parsing.sheets import Row, column_letters
from pipeline.parsing.table_headers import Span
from pipeline.parsing.workbook import MOST_ROWS, MOST_SHEETS, TOO_MANY_ROWS, Workbook, open_workbook

_HEADER_WITHIN = 20  # non-empty rows; above a header there may be a heading
_LONGEST_NAME = 64
_NO_VALUE = "holds a formula that was saved without its value; open the book in a spreadsheet program and save it"
_NO_HEADER = "has no header: a row must name the columns, at least user_input and agent_response (用户输入, 助手回复)"
_MOST_COPIES = 500_000  # of values; overlapping ranges, which no spreadsheet program writes, could ask for any number


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A sheet without empty rows. ``merged``: ranges, whose values are copied to every row."""

    name: str
    is_hidden: bool = False
    rows: Sequence[Row] = field(default_factory=list)
    merged: Sequence[str] = ()


def read_tables(body: bytes) -> list[Sheet]:
    """Return the sheets of a workbook; `sandbox.process` bounds its cost. Raises as `parse_xlsx`."""
    with open_workbook(body) as workbook:
        if len(workbook.sheets) > MOST_SHEETS:
            raise DocumentTooLarge(f"the workbook has {len(workbook.sheets)} sheets; at most {MOST_SHEETS} are read")
        return list(_sheets(workbook))


def _sheets(workbook: Workbook) -> Iterator[Sheet]:
    rows_left, cells_left = MOST_ROWS, MOST_CELLS
    for entry in workbook.sheets:
        rows: list[Row] = []
        merged: list[str] = []
        if not entry.is_hidden and category_of(entry.name) is not None:
            reader = workbook.open(entry)
            for row in workbook.rows(entry, reader):
                rows_left, cells_left = rows_left - 1, cells_left - len(row.cells)
                if rows_left < 0:
                    raise DocumentTooLarge(TOO_MANY_ROWS)
                if cells_left < 0:
                    raise DocumentTooLarge(f"the workbook holds more than {MOST_CELLS} cells")
                if row.cells or row.without_value:
                    rows.append(row)
            merged = fill_merged(rows, reader.merged)
        yield Sheet(name=entry.name, is_hidden=entry.is_hidden, rows=rows, merged=merged)


def workbook_tables(sheets: Sequence[Sheet], *, most_rows: int) -> Book:
    """Return the book in a workbook. Hidden sheets are left out, hidden rows are not. Raises DocumentTooLarge."""
    tables: list[ExampleSheet] = []
    warnings: list[BookFlaw] = []
    rows = 0
    for sheet in sheets:
        name, category = one_line(sheet.name)[:_LONGEST_NAME], category_of(sheet.name)
        if category is None:
            if not is_guide(sheet.name):
                warnings.append(BookFlaw(sheet=name, code="unknown_sheet", detail="is no category, and was left out"))
        elif sheet.is_hidden:
            warnings.append(BookFlaw(sheet=name, code="hidden_sheet", detail="is hidden, and was left out"))
        elif sheet.rows:
            table = _table(name, category, sheet)
            tables.append(table)
            rows += len(table.rows)
            if rows > most_rows:
                raise DocumentTooLarge(f"the book has more than {most_rows} rows")
    return Book(tables=tables, warnings=warnings)


def _table(name: str, category: Category, sheet: Sheet) -> ExampleSheet:
    index, header = _header(sheet.rows)
    columns = {number: column for number, column in header.items() if column is not None}
    flaw = _flaw_of_header(name, sheet.rows[max(0, index)], columns)
    below = sheet.rows[index + 1 :]
    if flaw is not None:
        unread = [BookRow(number=row.number, values={}) for row in below]
        return ExampleSheet(name=name, category=category, rows=unread, unusable=flaw)
    rows = [row for row in (_row(row, columns) for row in below) if row is not None]
    span = rows[-1].number - sheet.rows[index].number if rows else 0
    warnings = [*_about_columns(name, sheet.rows[index:], header), *_about_sheet(name, sheet, below)]
    return ExampleSheet(name=name, category=category, rows=rows, blank=max(0, span - len(rows)), warnings=warnings)


def _header(rows: Sequence[Row]) -> tuple[int, dict[int, Column | None]]:
    """Return the index of the header row, and the columns of its cells; -1 if there is none."""
    for index, row in enumerate(rows[:_HEADER_WITHIN]):
        header = {number: column_of(text) for number, text in row.cells.items()}
        columns = set(header.values()) - {None}
        if len(columns) > 1 and columns & set(REQUIRED):
            return index, header
    return -1, {}


def _flaw_of_header(name: str, row: Row, columns: Mapping[int, Column]) -> BookFlaw | None:
    """Return the reason why no row below this header can be read, None if they can."""
    if not columns:
        return BookFlaw(sheet=name, row=row.number, code="no_header", detail=_NO_HEADER)
    for number, column in columns.items():
        if column is not Column.NOTES and any(other < number and columns[other] is column for other in columns):
            cell = f"{column_letters(number)}{row.number}"
            detail = f"is in the header more than once, last as {shown(row.cells[number])}"
            return BookFlaw(sheet=name, row=row.number, column=column, cell=cell, code="repeated_column", detail=detail)
    for column in REQUIRED:
        if column not in columns.values():
            detail = "is not in the header, and is required"
            return BookFlaw(sheet=name, row=row.number, column=column, code="missing_column", detail=detail)
    return None


def _row(row: Row, columns: Mapping[int, Column]) -> BookRow | None:
    """Return the row with its values under their columns; None if it is empty, or has only notes."""
    values: dict[Column, str] = {}
    cells: dict[Column, str] = {}
    faults: dict[Column, tuple[str, str]] = {}
    for number, column in columns.items():
        if column is Column.NOTES:
            continue
        cells[column] = f"{column_letters(number)}{row.number}"
        text = row.cells.get(number)
        if number in row.errors:
            faults[column] = ("error_value", f"holds the error {shown(text)}")
        elif number in row.without_value:
            faults[column] = ("formula_without_value", _NO_VALUE)
        elif text:
            values[column] = text
    return BookRow(number=row.number, values=values, cells=cells, faults=faults) if values or faults else None


def _about_columns(name: str, rows: Sequence[Row], header: Mapping[int, Column | None]) -> Iterator[BookFlaw]:
    top = rows[0].number
    for number in (number for number, column in header.items() if column is None):
        title, cell = one_line(rows[0].cells[number])[:_LONGEST_NAME], f"{column_letters(number)}{top}"
        detail = "is no known column, and was left out"
        yield BookFlaw(sheet=name, row=top, column=title, cell=cell, code="unknown_column", detail=detail)
    nameless = {number for row in rows for number in row.cells} - set(header)
    for number in sorted(nameless)[:_HEADER_WITHIN]:
        detail = "has values and no name in the header, and was left out"
        yield BookFlaw(sheet=name, row=top, column=column_letters(number), code="unknown_column", detail=detail)


def _about_sheet(name: str, sheet: Sheet, rows: Sequence[Row]) -> Iterator[BookFlaw]:
    hidden = [row.number for row in rows if row.is_hidden]
    if hidden:
        verb = "row is hidden, and was" if len(hidden) == 1 else "rows are hidden, and were"
        yield BookFlaw(sheet=name, row=hidden[0], code="hidden_rows", detail=f"{len(hidden)} {verb} read nevertheless")
    if sheet.merged:
        detail = (
            f"cells are merged ({', '.join(sheet.merged[:3])}{'…' if len(sheet.merged) > 3 else ''}); "
            "their value was taken for every row that they cover, in their first column"
        )
        yield BookFlaw(sheet=name, code="merged_cells", detail=detail)


def fill_merged(rows: Sequence[Row], spans: Sequence[Span]) -> list[str]:
    """Copy merged values into the rows that they cover; return the tall ranges. Raises DocumentTooLarge."""
    numbers = [row.number for row in rows]
    tall: list[str] = []
    copies = 0
    for span in spans:
        top, bottom, column = span.top, span.bottom, span.left
        if bottom <= top:
            continue
        tall.append(f"{column_letters(column)}{top}:{column_letters(span.right)}{bottom}")
        covered = rows[bisect_left(numbers, top) : bisect_right(numbers, bottom)]
        copies += len(covered)
        if copies > _MOST_COPIES:
            raise DocumentTooLarge("the workbook merges more cells than a sheet has")
        if not covered or covered[0].number != top or column not in covered[0].cells or column in covered[0].errors:
            continue
        for row in covered[1:]:
            if row.cells:
                row.cells.setdefault(column, covered[0].cells[column])
    return tall
