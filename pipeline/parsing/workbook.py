"""Excel workbooks to text: a heading per sheet, a paragraph per row, read as a stream; gaps cost nothing."""

import re
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import WHITE, Block, assemble, one_line, usable_title
from pipeline.parsing.containers import (
    Archive,
    linked_parts,
    main_part,
    office_archive,
    pieces,
    texts_in,
    title_in,
    tree_beside,
    tree_of,
)
from pipeline.parsing.csv import MOST_CELLS
from pipeline.parsing.html_tree import Element
from pipeline.parsing.sheets import Formats, Row, SheetReader, Strings, number_formats
from pipeline.parsing.table_headers import Cells
from pipeline.parsing.tables import sheet_blocks
from pipeline.records import Parsed

_WORKBOOK = "xl/workbook.xml"
_PLAIN_NAME = re.compile(
    r"(?:sheet|tabelle|feuil|hoja|foglio|planilha|лист|シート|工作表|sheet页)\s?\d*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetName:
    """One entry of a workbook's list of sheets. Macros have none."""

    name: str
    part: str
    is_hidden: bool = False


class Workbook:
    """An open workbook. ``sheets`` are in the order of their tabs."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._parts = frozenset(archive.namelist())
        self._part = main_part(archive, self._parts) or _WORKBOOK
        if self._part not in self._parts:
            raise MalformedDocument("the archive holds no Excel workbook")
        index = tree_of(archive, self._part)
        self._links = linked_parts(archive, self._part, self._parts)
        worksheets = self._links.by_id("/worksheet") | self._links.by_id("/chartsheet")
        self.sheets = tuple(
            SheetName(
                name=sheet.get("name", ""),
                part=worksheets[sheet["id"]],
                is_hidden=sheet.get("state", "visible") != "visible",
            )
            for sheet in (each.attributes for each in index.named("sheet"))
            if sheet.get("id") in worksheets
        )
        self._from_1904 = any(each.attributes.get("date1904") in ("1", "true") for each in index.named("workbookPr"))
        self._strings: list[str] | None = None
        self._formats: Formats | None = None

    @property
    def title(self) -> str | None:
        """Return the title in the workbook's properties."""
        return title_in(self._archive) or None

    @property
    def warnings(self) -> list[str]:
        """Return the warning about parts that could not be read."""
        return self._archive.warnings

    def open(self, sheet: SheetName) -> SheetReader:
        """Return a reader of one sheet; see `SheetReader`. Raises MalformedDocument."""
        if sheet.part not in self._parts:
            raise MalformedDocument("a sheet of the workbook is missing")
        if self._strings is None:
            self._strings, self._formats = self._shared(), self._number_formats()
        assert self._formats is not None
        return SheetReader(self._strings, self._formats)

    def rows(self, sheet: SheetName, reader: SheetReader) -> Iterator[Row]:
        """Yield the rows of a sheet that have a cell or are stored without one, in order; of one among others as far as it
        can be read. Raises MalformedDocument."""
        with self._archive.beside(sheet.part) if len(self.sheets) > 1 else nullcontext():
            for _ in pieces(self._archive, sheet.part, reader, keeps_prefixes=True):
                yield from reader.taken()

    def notes(self, sheet: SheetName) -> Iterator[Block]:
        """Yield the notes and comments of a sheet's cells, its text boxes, diagrams, and the titles of its charts."""
        links = linked_parts(self._archive, sheet.part, self._parts)
        notes: dict[str, list[str]] = {}  # by cell; a thread of comments has a copy for older programs
        for tag, kind in (("threadedComment", "/threadedComment"), ("comment", "/comments")):
            cells = {*notes}
            for part in links.of_kind(kind):
                for note in tree_beside(self._archive, part).named(tag):
                    text = "".join(each.text for each in note.named("t", "text") if each.tag == "t" or tag != "comment")
                    if text.strip() and (cell := note.attributes.get("ref", "")) not in cells:
                        notes.setdefault(cell, []).append(text.strip())
        texts = [f"{cell}: {text}" for cell, of_cell in notes.items() for text in of_cell]
        titles: list[str] = []
        for part in links.of_kind("/drawing"):
            texts += texts_in(self._archive, part, within="txBody")
            drawn = linked_parts(self._archive, part, self._parts)
            for diagram in drawn.of_kind("/diagramData"):
                texts += texts_in(self._archive, diagram)
            for chart in drawn.of_kind("/chart"):
                titles += texts_in(self._archive, chart, within="title")
        yield from (Block(text=text) for text in (*texts, *dict.fromkeys(titles)))

    def _shared(self) -> list[str]:
        strings = Strings()
        for part in self._links.of_kind("/sharedStrings")[:1]:
            deque(pieces(self._archive, part, strings, keeps_prefixes=True), maxlen=0)
        return strings.texts

    def _number_formats(self) -> Formats:
        used, codes, unseen = list[int](), dict[int, str](), frozenset[str]()
        for part in self._links.of_kind("/styles")[:1]:
            styles = tree_beside(self._archive, part)
            formats = (each.attributes for each in styles.named("numFmt"))
            codes = {_whole(each.get("numFmtId", "0")): each.get("formatCode", "") for each in formats}
            cells = [xf.attributes for each in styles.named("cellXfs") for xf in each.named("xf")]
            used = [_whole(xf.get("numFmtId", "0")) for xf in cells]
            fonts, fills = ([*each.elements()] for name in ("fonts", "fills") for each in [_first(styles, name)])
            white = {str(at) for at, font in enumerate(fonts) if any(map(_is_white, (font, *font.named("color"))))}
            bare = {str(at) for at, fill in enumerate(fills) if not any(fill.named("fgColor", "stop"))}
            bare -= {str(at) for at, fill in enumerate(fills) if fill.attributes.get("patternType") == "solid"}
            looks = [(xf.get("fontId"), xf.get("fillId", "0")) for xf in cells]
            unseen = frozenset(str(at) for at, (font, fill) in enumerate(looks) if font in white and fill in bare)
        return replace(number_formats(used, codes, from_1904=self._from_1904), white=unseen)


@contextmanager
def open_workbook(body: bytes) -> Iterator[Workbook]:
    """Open the workbook in ``body``. Raises as `office_archive`, and MalformedDocument for a damaged one."""
    with office_archive(body, "an Excel workbook") as archive:
        yield Workbook(archive)


def _first(tree: Element, name: str) -> Element:
    return next(tree.named(name), Element(name))


def _is_white(colour: Element) -> bool:
    return bool(WHITE.fullmatch(colour.attributes.get("rgb", "")[2:])) or colour.attributes.get("theme") == "0"


def _whole(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise MalformedDocument("a style of the workbook is damaged")
    return int(text)


MOST_SHEETS = 500
MOST_ROWS = 200_000  # of a workbook, empty ones included, which some programs write by the million
TOO_MANY_ROWS = f"the workbook holds more than {MOST_ROWS} rows, empty ones included"


def parse_xlsx(body: bytes) -> Parsed:
    """Return the tables of every visible sheet as `sheet_blocks` writes them, values as they are shown, formulas by
    their saved value, without hidden rows and columns, which a warning counts; then notes of cells, text boxes and titles
    of charts. The title is that of the workbook's properties, else its first heading that is no name such as Sheet1."""
    warnings: list[str] = []
    headings: list[str] = []
    with open_workbook(body) as workbook:
        own = usable_title(workbook.title)
        parsed = assemble(_noted(workbook_blocks(workbook, warnings), headings), warnings=warnings)
        title = own or next((text for text in headings if not _PLAIN_NAME.match(text)), None)
    return replace(parsed, title=title)


def _noted(blocks: Iterator[Block], headings: list[str]) -> Iterator[Block]:
    """Yield the blocks, adding the headings to a list."""
    for block in blocks:
        if block.level is not None:
            headings.append(one_line(block.text))
        yield block


def workbook_blocks(workbook: Any, warnings: list[str]) -> Iterator[Block]:
    """Yield the visible sheets of a `Workbook`, or of one in another format that has its methods."""
    rows_left = iter(range(MOST_ROWS))
    unseen = without_value = 0
    for sheet in visible_sheets(workbook):
        reader = workbook.open(sheet)
        labels: set[int] = set()
        rows, hidden_rows, hidden, empty = _shown_rows(workbook, sheet, reader, rows_left, labels)
        unseen, without_value = unseen + hidden, without_value + empty
        blocks = chain(
            sheet_blocks(rows, reader.merged, level=2, labels=labels, hidden=hidden_rows), workbook.notes(sheet)
        )
        first = next(blocks, None)
        if first is not None:
            yield Block(text=sheet.name, level=1, mark=first.mark)
            yield first
            yield from blocks
    hidden_sheets = sum(sheet.is_hidden for sheet in workbook.sheets)
    if hidden_sheets or unseen:
        warnings.append(f"hidden content was left out: {hidden_sheets} sheets, {unseen} rows and columns")
    warnings += workbook.warnings
    if without_value:
        warnings.append(
            f"{without_value} cells hold a formula that was saved without its value; open and save the workbook"
        )


def visible_sheets(workbook: Workbook) -> list[SheetName]:
    """Return the sheets that are not hidden. Raises DocumentTooLarge."""
    sheets = [sheet for sheet in workbook.sheets if not sheet.is_hidden]
    if len(sheets) > MOST_SHEETS:
        raise DocumentTooLarge(f"the workbook has {len(sheets)} sheets; at most {MOST_SHEETS} are read")
    return sheets


def _shown_rows(
    workbook: Workbook, sheet: SheetName, reader: SheetReader, rows_left: Iterator[int], labels: set[int]
) -> tuple[list[tuple[int, Cells]], list[int], int, int]:
    """Return the visible rows of a sheet (number, cells), the numbers of the hidden ones, and two counts: the hidden rows and
    columns with cells, and the cells without their value.

    Add to ``labels`` the numbers of rows with a single cell whose style differs from that of the cell below."""
    rows: list[tuple[int, Cells]] = []
    seen = without_value = 0
    style = ""
    hidden_rows, filled, hidden_columns = list[int](), 0, set[int]()
    white: list[tuple[dict[int, str], int]] = []
    for row in workbook.rows(sheet, reader):
        if next(rows_left, None) is None:
            raise DocumentTooLarge(TOO_MANY_ROWS)
        if row.is_hidden:
            hidden_rows.append(row.number)
            filled += bool(row.cells)
            continue
        without_value += len(row.without_value)
        cells = reader.shown(row.cells)
        if len(cells) < len(row.cells):
            hidden_columns |= row.cells.keys() - cells.keys()
        seen += len(cells)
        if seen > MOST_CELLS:
            raise DocumentTooLarge(f"the sheet holds more than {MOST_CELLS} cells")
        if cells:
            if rows and style != row.style and len(rows[-1][1]) == 1 and min(cells) in rows[-1][1]:
                labels.add(rows[-1][0])
            style = row.style
            rows.append((row.number, cells))
            white += [(cells, column) for column in row.white]
    if white and not reader.is_coloured:
        for cells, column in white:
            hidden_columns |= {column} if cells.pop(column, None) else set()
        rows = [row for row in rows if row[1]]
    return rows, hidden_rows, filled + len(hidden_columns), without_value
