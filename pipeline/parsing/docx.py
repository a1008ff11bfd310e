"""Word documents to text: paragraphs, their styles and table rows, read as a stream, as a tree takes much memory."""

import re

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import LONGEST_TEXT, Block, assemble
from pipeline.parsing.containers import PROPERTIES, Properties, XmlReader, office_archive
from pipeline.records import Parsed

_BODY, _STYLES = "word/document.xml", "word/styles.xml"
_NOTES = ("word/footnotes.xml", "word/endnotes.xml")
_HEADING_NAME = re.compile(r"heading\s*([1-6])$", re.IGNORECASE)
_HEADING_ID = re.compile(r"(?:Heading|berschrift|Titre)([1-6])$", re.IGNORECASE)
_MOST_STYLES_BACK = 20  # length of the chain of base styles
_SILENT = frozenset({"del", "moveFrom", "instrText", "Fallback", "rPrChange", "pPrChange"})


def parse_docx(body: bytes) -> Parsed:
    """Return paragraphs under their headings, list items and table rows as lines, notes last, without deleted text or
    pages.

    The title is that of the properties, else the first paragraph styled as title, else the first heading of level 1.
    """
    with office_archive(body, "a Word document") as archive:
        parts = set(archive.namelist())
        if _BODY not in parts:
            raise MalformedDocument("the archive holds no Word document")
        styles, properties = _Styles(), Properties()
        if _STYLES in parts:
            styles.read(archive, _STYLES)
        if PROPERTIES in parts:
            properties.read(archive, PROPERTIES)
        reader = _Paragraphs(styles)
        reader.read(archive, _BODY)
        for notes in _NOTES:
            if notes in parts:
                reader.read(archive, notes)
    return assemble(reader.blocks, title=properties.title or reader.title)


class _Styles(XmlReader):
    """The heading level of each style, by its outline level, its name, or its base style."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._based_on: dict[str, str] = {}
        self._titles: set[str] = {"Title"}
        self._style = ""

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        value = attributes.get("val", "")
        if name == "style":
            self._style = attributes.get("styleId", "")
        elif name == "name" and (heading := _HEADING_NAME.match(value)):
            self._levels[self._style] = int(heading[1])
        elif name == "name" and value.lower() == "title":
            self._titles.add(self._style)
        elif name == "outlineLvl" and value in ("0", "1", "2", "3", "4", "5"):
            self._levels.setdefault(self._style, int(value) + 1)
        elif name == "basedOn":
            self._based_on[self._style] = value

    def is_title(self, style: str) -> bool:
        return style in self._titles

    def level(self, style: str) -> int | None:
        if heading := _HEADING_ID.search(style):
            return int(heading[1])
        for _ in range(_MOST_STYLES_BACK):
            if style in self._levels:
                return self._levels[style]
            style = self._based_on.get(style, "")
        return None


class _Paragraphs(XmlReader):
    """Collects blocks. Paragraphs may contain others (text boxes), cells whole tables: inner ones come first."""

    def __init__(self, styles: _Styles) -> None:
        self.blocks: list[Block] = []
        self.title: str | None = None
        self._styles = styles
        self._open: list[list[str]] = []  # pieces of the open paragraphs
        self._styled: list[tuple[int | None, bool, bool]] = []  # of each: heading level, title or not, list item or not
        self._rows: list[list[list[str]]] = []  # of each open table, the cells of its row
        self._first_rows: list[bool] = []
        self._listed = False  # whether the previous block was a list item
        self._silent = 0
        self._characters = 0
        self._in_text = False
        self._in_paragraph_properties = False

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if self._silent or name in _SILENT:
            self._silent += 1
        elif name == "p":
            self._open.append([])
            self._styled.append((None, False, False))
        elif name == "t":
            self._in_text = True
        elif name == "pPr":
            self._in_paragraph_properties = True
        elif self._in_paragraph_properties:
            self._style(name, attributes.get("val", ""))
        elif name in ("tab", "br", "cr", "noBreakHyphen") and self._open:
            self._open[-1].append({"tab": "\t", "noBreakHyphen": "-"}.get(name, "\n"))
        elif name == "tbl":
            self._rows.append([])
            self._first_rows.append(True)
        elif name == "tc" and self._rows:
            self._rows[-1].append([])

    def ended(self, name: str, /) -> None:
        if self._silent:
            self._silent -= 1
        elif name == "t":
            self._in_text = False
        elif name == "pPr":
            self._in_paragraph_properties = False
        elif name == "p" and self._open:
            self._end_paragraph()
        elif name == "tr" and self._rows:
            self._end_row()
        elif name == "tbl" and self._rows:
            self._rows.pop()
            self._first_rows.pop()

    def text(self, text: str, /) -> None:
        if self._in_text and not self._silent and self._open:
            self._open[-1].append(text)
            self._characters += len(text)
            if self._characters > LONGEST_TEXT:
                raise DocumentTooLarge(f"the document holds more than {LONGEST_TEXT} characters")

    def _style(self, name: str, value: str) -> None:
        if not self._styled:
            return
        level, is_title, listed = self._styled[-1]
        if name == "pStyle":
            self._styled[-1] = (self._styles.level(value), self._styles.is_title(value), listed)
        elif name == "outlineLvl" and level is None and value in ("0", "1", "2", "3", "4", "5"):
            self._styled[-1] = (int(value) + 1, is_title, listed)
        elif name == "numPr":
            self._styled[-1] = (level, is_title, True)

    def _end_paragraph(self) -> None:
        text = "".join(self._open.pop()).strip()
        level, is_title, listed = self._styled.pop()
        if not text:
            return
        if self._rows and self._rows[-1]:
            self._rows[-1][-1].append(text)
            return
        if is_title and self.title is None:
            self.title = text
        listed = listed and level is None
        self.blocks.append(Block(text=f"- {text}" if listed else text, level=level, tight=listed and self._listed))
        self._listed = listed

    def _end_row(self) -> None:
        cells = [" ".join(" ".join(cell).split()) for cell in self._rows[-1]]
        self._rows[-1] = []
        if not any(cells):
            return
        row = " | ".join(cells)
        if len(self._rows) > 1 and self._rows[-2]:
            self._rows[-2][-1].append(row)
            return
        self.blocks.append(Block(text=row, tight=not self._first_rows[-1]))
        self._first_rows[-1] = self._listed = False
