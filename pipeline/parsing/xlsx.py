"""Excel workbooks to text: each sheet a heading, each row a paragraph."""

from collections.abc import Iterator

from pipeline.errors import DocumentTooLarge
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.csv import MOST_CELLS, table_blocks
from pipeline.parsing.workbook import SheetName, Workbook, open_workbook
from pipeline.records import Parsed

MOST_SHEETS = 500
MOST_ROWS = 200_000  # of a workbook, empty ones included, which some programs write by the million
TOO_MANY_ROWS = f"the workbook holds more than {MOST_ROWS} rows, empty ones included"


def parse_xlsx(body: bytes) -> Parsed:
    """Return the rows of every visible sheet as `parse_csv` writes them, formulas by their saved value, without empty
    rows and cells. The title is that of the workbook's properties."""
    with open_workbook(body) as workbook:
        return assemble(_blocks(workbook), title=workbook.title)


def _blocks(workbook: Workbook) -> Iterator[Block]:
    rows_left = iter(range(MOST_ROWS))
    for sheet in visible_sheets(workbook):
        blocks = table_blocks(_rows(workbook, sheet, rows_left))
        first = next(blocks, None)
        if first is not None:
            yield Block(text=sheet.name, level=1, mark=first.mark)
            yield first
            yield from blocks


def visible_sheets(workbook: Workbook) -> list[SheetName]:
    """Return the sheets that are not hidden. Raises DocumentTooLarge."""
    sheets = [sheet for sheet in workbook.sheets if not sheet.is_hidden]
    if len(sheets) > MOST_SHEETS:
        raise DocumentTooLarge(f"the workbook has {len(sheets)} sheets; at most {MOST_SHEETS} are read")
    return sheets


def _rows(workbook: Workbook, sheet: SheetName, rows_left: Iterator[int]) -> Iterator[list[str]]:
    seen = number = 0
    for row in workbook.rows(sheet, workbook.open(sheet)):
        if next(rows_left, None) is None:
            raise DocumentTooLarge(TOO_MANY_ROWS)
        if not row.cells:
            continue
        for _ in range(number + 1, row.number):
            yield []  # rows are counted by the caller
        number = row.number
        width = max(row.cells) + 1
        seen += width
        if seen > MOST_CELLS:
            raise DocumentTooLarge(f"the sheet holds more than {MOST_CELLS} cells")
        yield [row.cells.get(column, "") for column in range(width)]
