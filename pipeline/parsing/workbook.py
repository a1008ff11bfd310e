"""Excel workbooks to text: a heading per sheet, a paragraph per row, read as a stream; gaps cost nothing."""

import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.containers import PROPERTIES, Properties, XmlReader, office_archive, refuse_entities
from pipeline.parsing.csv import MOST_CELLS, table_blocks
from pipeline.parsing.sheets import Formats, Row, SheetReader, Strings, number_formats
from pipeline.records import Parsed

_WORKBOOK = "xl/workbook.xml"
_READ_AT_ONCE = 64 * 1024  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetName:
    """One entry of a workbook's list of sheets. Charts and macros have none."""

    name: str
    part: str
    is_hidden: bool = False


class Workbook:
    """An open workbook. ``sheets`` are in the order of their tabs."""

    def __init__(self, archive: ZipFile) -> None:
        self._archive = archive
        self._parts = frozenset(archive.namelist())
        self._part = ""
        self._part = self._target("/officeDocument") or _WORKBOOK
        if self._part not in self._parts or self._part.endswith(".bin"):
            raise MalformedDocument("the archive holds no Excel workbook")
        index = _Index()
        index.read(archive, self._part)
        worksheets = _targets(archive, self._part, self._parts, "/worksheet")
        self.sheets = tuple(
            SheetName(name=name, part=worksheets[link], is_hidden=state != "visible")
            for name, link, state in index.entries
            if link in worksheets
        )
        self._from_1904 = index.from_1904
        self._strings: list[str] | None = None
        self._formats: Formats | None = None

    @property
    def title(self) -> str | None:
        """Return the title in the workbook's properties."""
        if PROPERTIES not in self._parts:
            return None
        properties = Properties()
        properties.read(self._archive, PROPERTIES)
        return properties.title or None

    def open(self, sheet: SheetName) -> SheetReader:
        """Return a reader of one sheet; see `SheetReader`. Raises MalformedDocument."""
        if sheet.part not in self._parts:
            raise MalformedDocument("a sheet of the workbook is missing")
        if self._strings is None:
            self._strings, self._formats = self._shared(), self._number_formats()
        assert self._formats is not None
        return SheetReader(self._strings, self._formats)

    def rows(self, sheet: SheetName, reader: SheetReader) -> Iterator[Row]:
        """Yield the rows of a sheet that have a cell or are stored without one, in order. Raises MalformedDocument."""
        for _ in _pumped(self._archive, sheet.part, reader):
            yield from reader.taken()

    def _target(self, kind: str) -> str:
        """Return the first part of this kind that the workbook, or the archive itself, links to; empty if none."""
        return next(iter(_targets(self._archive, self._part, self._parts, kind).values()), "")

    def _shared(self) -> list[str]:
        part = self._target("/sharedStrings")
        strings = Strings()
        if part in self._parts:
            for _ in _pumped(self._archive, part, strings):
                pass
        return strings.texts

    def _number_formats(self) -> Formats:
        part = self._target("/styles")
        styles = _Styles()
        if part in self._parts:
            styles.read(self._archive, part)
        return number_formats(styles.used, styles.codes, from_1904=self._from_1904)


@contextmanager
def open_workbook(body: bytes) -> Iterator[Workbook]:
    """Open the workbook in ``body``. Raises as `office_archive`, and MalformedDocument for a damaged one."""
    with office_archive(body, "an Excel workbook") as archive:
        yield Workbook(archive)


def _pumped(archive: ZipFile, part: str, reader: SheetReader | Strings) -> Iterator[None]:
    """Feed one part to a reader, yielding after every piece so that the caller can take the rows."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.EntityDeclHandler = refuse_entities
    parser.StartElementHandler = reader.started
    parser.EndElementHandler = reader.ended
    parser.CharacterDataHandler = reader.text
    try:
        with archive.open(part) as stream:
            while piece := stream.read(_READ_AT_ONCE):
                parser.Parse(piece, False)
                yield
            parser.Parse(b"", True)
            yield
    except (expat.ExpatError, BadZipFile, ValueError, IndexError) as error:
        raise MalformedDocument(f"a sheet of the workbook is damaged ({type(error).__name__})") from None


class _Index(XmlReader):
    """The list of sheets: name, link and state of each."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, str]] = []
        self.from_1904 = False

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if name == "sheet":
            link, state = attributes.get("id", ""), attributes.get("state", "visible")
            self.entries.append((attributes.get("name", ""), link, state))
        elif name == "workbookPr":
            self.from_1904 = attributes.get("date1904", "") in ("1", "true")


class _Styles(XmlReader):
    """Which number format each cell style uses, and the formats that the workbook defines itself."""

    def __init__(self) -> None:
        self.used: list[int] = []
        self.codes: dict[int, str] = {}
        self._within = False

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if name == "cellXfs":
            self._within = True
        elif name == "xf" and self._within:
            self.used.append(_whole(attributes.get("numFmtId", "0")))
        elif name == "numFmt":
            self.codes[_whole(attributes.get("numFmtId", "0"))] = attributes.get("formatCode", "")

    def ended(self, name: str, /) -> None:
        if name == "cellXfs":
            self._within = False


class _Links(XmlReader):
    """The links of one part to others: id to type and target."""

    def __init__(self) -> None:
        self.links: list[tuple[str, str, str]] = []

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if name == "Relationship" and attributes.get("TargetMode", "Internal") == "Internal":
            self.links.append((attributes.get("Id", ""), attributes.get("Type", ""), attributes.get("Target", "")))


def _targets(archive: ZipFile, part: str, parts: frozenset[str], kind: str) -> dict[str, str]:
    """Return the targets of the links of ``part`` whose type ends in ``kind``, by their ids."""
    folder, name = posixpath.split(part)
    links_part = posixpath.join(folder, "_rels", f"{name}.rels")
    if links_part not in parts:
        return {}
    relations = _Links()
    relations.read(archive, links_part)
    return {
        link: posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")
        for link, type_name, target in relations.links
        if type_name.endswith(kind)
    }


def _whole(text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise MalformedDocument("a style of the workbook is damaged")
    return int(text)


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
        blocks = table_blocks(_text_rows(workbook, sheet, rows_left))
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


def _text_rows(workbook: Workbook, sheet: SheetName, rows_left: Iterator[int]) -> Iterator[list[str]]:
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
