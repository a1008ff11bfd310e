"""Word documents to text as their readers see them, by way of the tree that pages of HTML have too: paragraphs with their
automatic numbers, tables with merged cells, notes and comments below the paragraph that calls them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pipeline.errors import MalformedDocument
from pipeline.parsing.assembly import MONOSPACE, WHITE, Block, assemble, one_line, usable_title, with_furniture
from pipeline.parsing.books_and_mail import parse_mhtml
from pipeline.parsing.containers import (
    Archive,
    Links,
    XmlReader,
    linked_parts,
    main_part,
    office_archive,
    texts_in,
    texts_of_chart,
    title_in,
)
from pipeline.parsing.encodings import decode
from pipeline.parsing.formulas import RAISED_TEXT, linear_omml, lowered, of_equation, raised
from pipeline.parsing.html import blocks_of_tree, picture_text
from pipeline.parsing.html_tree import LINE_END, TAB, Element, read_page
from pipeline.parsing.rich_text import parse_rtf
from pipeline.parsing.trees import Cell, append_code, is_short, list_at, table_of, with_code
from pipeline.parsing.word_numbers import Numbering
from pipeline.records import Parsed

_BODY = "word/document.xml"
_HEADING_NAME = re.compile(r"heading\s*([1-6])$", re.IGNORECASE)
_HEADING_ID = re.compile(r"(?:Heading|berschrift|Titre)([1-6])$", re.IGNORECASE)
_LIST_NAME = re.compile(r"list (?:bullet|number) ([2-5])$", re.IGNORECASE)
_TINY = ("0", "1", "2")  # half points
_SHIFT = re.compile(r"superscript|subscript|-?(?:[4-9]|[1-9]\d)")  # the last in half points
_LEVELS = ("0", "1", "2", "3", "4", "5")
_MOST_STYLES_BACK = 20  # length of the chain of base styles
_MOST_COLUMNS = 200
_DEEPEST = 20  # tables within tables; deeper ones are paragraphs of the cell around them
_LARGE = 1_080_000  # EMU, 3 cm: the least width and height of a picture that may hold text
_SILENT = frozenset({"del", "moveFrom", "Fallback", "rPrChange", "pPrChange", "rt", "delText"})
_NOTE_KINDS = {"footnoteReference": "footnote", "endnoteReference": "endnote", "commentReference": "comment"}
_BEHIND_TEXT, _LOOKED_THROUGH = re.compile(rb":(?:drawing|pict|background)\b"), 8_000_000  # under white text; bytes
_DRAWN = ("/diagramData", "/chart")
_WINGDINGS = dict(zip("\xa8\x6f\xa1\x71\x72\xfe\xfd\x78\xfc\xfb\xe0\xdf", "☐☐☐☐☐☑☒☒✓✗→←", strict=True))
_WINGDINGS_2 = dict(zip("\xa3\x52\x54\x53\x50\x4f", "☐☑☒☒✓✗", strict=True))
_SYMBOL = dict(zip("abcdefghijklmnopqrstuvwxyz", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ", strict=True))
_SYMBOL |= dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", strict=True))
_SYMBOL |= dict(zip("\xb0\xb1\xa3\xb3\xb4\xb9\xbb\xa5\xae\xb7", "°±≤≥×≠≈∞→•", strict=True))
_SYMBOLS = {"wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2, "symbol": _SYMBOL}


def parse_docx(body: bytes) -> Parsed:
    """Return paragraphs under their headings, with the numbers that Word adds, list items and table rows as lines, notes
    and comments below the paragraph that calls them, headers and footers last. Deleted and hidden text is left out.

    The title is that of the properties unless a program chose it, else the first paragraph styled as title, else the
    first heading of level 1.
    """
    with office_archive(body, "a Word document") as archive:
        parts = frozenset(archive.namelist())
        main = main_part(archive, parts) or _BODY
        if main not in parts:
            raise MalformedDocument("the archive holds no Word document")
        document = _Document(archive, linked_parts(archive, main, parts), parts)
        reader = document.reader()
        if archive.getinfo(main).file_size <= _LOOKED_THROUGH:
            reader.is_on_paper = _BEHIND_TEXT.search(archive.read(main)) is None
        reader.read(archive, main)
        reader.mark_headings()
        blocks = with_furniture(blocks_of_tree(with_code(reader.root)), document.remaining())
        warnings = ["hidden text was left out"] if reader.hidden else []
        if reader.pictures:
            warnings.append(f"pictures were not read ({reader.pictures})")
        title = usable_title(title_in(archive)) or reader.title
        return assemble(blocks, title=title, warnings=warnings + archive.warnings)


class _Document:
    """The parts of a document that its body refers to."""

    def __init__(self, archive: Archive, links: Links, parts: frozenset[str]) -> None:
        self._archive = archive
        self._links = links
        self._parts = parts
        self._styles = _Styles()
        for part in self._named("styles"):
            self._styles.read_beside(archive, part)
        self._numbering = Numbering()
        for part in self._named("numbering"):
            self._numbering.read_beside(archive, part)
        self._notes: dict[tuple[str, str], str] = {}  # by their kind and id
        self._shown: set[str] = set()  # parts that the text refers to
        for kind in ("footnote", "endnote", "comment"):
            for part in self._named(f"{kind}s"):
                reader = self.reader(numbered=False)
                reader.read_beside(archive, part)
                self._notes |= {(kind, name): text for name, text in reader.notes.items() if text}

    def _named(self, kind: str) -> list[str]:
        """Return the parts of a kind; the one of its usual name if a program wrote no link to it."""
        usual = f"word/{kind}.xml"
        return self._links.of_kind(f"/{kind}") or ([usual] if usual in self._parts else [])

    def reader(self, *, numbered: bool = True) -> "_Paragraphs":
        return _Paragraphs(self._styles, self._numbering if numbered else Numbering(), self._notes, self._part)

    def remaining(self) -> Iterator[Block]:
        """Yield notes, diagrams and charts to which nothing may refer, then the headers and footers."""
        root = Element("#root", children=[_note(*key, text) for key, text in self._notes.items()])
        for link, kind, part in self._links.links:
            if part not in self._shown and kind.endswith(_DRAWN):
                root.children += self._part(link)
        yield from blocks_of_tree(root)
        for part in (*self._links.of_kind("/header"), *self._links.of_kind("/footer")):
            reader = self.reader(numbered=False)
            reader.read_beside(self._archive, part)
            yield from blocks_of_tree(with_code(reader.root))

    def _part(self, link: str) -> list[Element]:
        """Return a part that stands within the text: a page of HTML or text, a diagram, a chart."""
        kind, part = self._links.target(link)
        if part is None:
            return []
        self._shown.add(part)
        if kind.endswith("/aFChunk"):
            return [self._alternative(part)]
        if kind.endswith(_DRAWN):
            read = texts_of_chart if kind.endswith("/chart") else texts_in
            return [_verbatim("\n".join(read(self._archive, part)))]
        return []

    def _alternative(self, part: str) -> Element:
        content = self._archive.read(part)
        if content.startswith((b"PK", b"{\\rtf", b"MIME-Version")) or part.lower().endswith((".mht", ".mhtml")):
            parse = parse_docx if content[:1] == b"P" else parse_rtf if content[:1] == b"{" else parse_mhtml
            with suppress(MalformedDocument):
                return _verbatim(parse(content).text)
        text = "" if content.startswith(b"PK") else decode(content)
        return Element("div", children=read_page(text).root.children) if "<" in text else _verbatim(text)


def _verbatim(text: str) -> Element:
    return Element("textarea", children=[text])


class _Styles(XmlReader):
    """The properties of each style; those that it does not name are of the style that it is based on."""

    def __init__(self) -> None:
        self._said: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self._style = ""

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        value, said = attributes.get("val", ""), self._said[self._style]
        if name == "style":
            self._style = attributes.get("styleId", "") if attributes.get("default") != "1" else ""
        elif name == "name":
            heading, depth = _HEADING_NAME.match(value), _LIST_NAME.match(value)
            said |= {"level": int(heading[1])} if heading else {"depth": int(depth[1]) - 1} if depth else {}
            said["title"] = value.lower() == "title"
        elif name == "outlineLvl" and value in _LEVELS:
            said.setdefault("level", int(value) + 1)
        elif name in ("basedOn", "numId", "vertAlign"):
            said[name] = value
        elif name == "ilvl" and value.isdecimal():
            said["ilvl"] = int(value)
        elif name in ("vanish", "b"):
            said[name] = _is_on(attributes)
        elif name == "color":
            said["white"] = bool(WHITE.fullmatch(value))
        elif name == "shd" and _is_shade(attributes):
            said[name] = True
        elif name == "rFonts" and MONOSPACE.search(attributes.get("ascii", "")):
            said["code"] = True

    def of(self, style: str, name: str) -> Any:
        """Return what a style says; None if it says nothing."""
        for _ in range(_MOST_STYLES_BACK if style else 0):
            said = self._said.get(style, {})
            if name in said:
                return said[name]
            style = said.get("basedOn", "")
        return None

    def level(self, style: str) -> int | None:
        """Return the level of the headings of a style."""
        heading = _HEADING_ID.search(style)
        return int(heading[1]) if heading else self.of(style, "level")


_LEADERS = re.compile(r"(?<![.·…])(?<![.·…] )(?: ?[.·…]){6,}+(?=\s{0,9}\d{1,9}\s{0,9}$)")  # before the number of a page


_MAY_BE_HEADING = re.compile(r".{2,60}(?<![。！；，、：.!;,:])")
_HEADING_TAG = re.compile(r"h[1-6]")


@dataclass(slots=True)
class _Paragraph:
    pieces: list[str] = field(default_factory=list)
    style: str = ""
    level: int | None = None
    list_id: str | None = None
    list_level: int | None = None
    is_item: bool = False
    is_shaded: bool = False
    weights: set[bool] = field(default_factory=set)  # whether it has bold text, and other text
    is_removed: bool = False  # its end is deleted, and its number with it
    fonts: set[bool] = field(default_factory=set)  # whether it has text in a font of code, and in another one
    fields: list[bool] = field(default_factory=list)  # the open ones, and whether their instruction goes on
    below: list[Element] = field(default_factory=list)  # notes and parts that the paragraph refers to


@dataclass(slots=True)
class _Table:
    rows: list[list[Cell]] = field(default_factory=list)
    header_rows: int = 0
    deleted: set[int] = field(default_factory=set)  # rows
    is_shaded: bool = False  # by its style or its properties
    has_shaded_cell: bool = False  # the open one


class _Paragraphs(XmlReader):
    """Collects elements. Paragraphs may contain others (text boxes), cells whole tables: inner ones come first."""

    def __init__(
        self,
        styles: _Styles,
        numbering: Numbering,
        notes: Mapping[tuple[str, str], str],
        part: Callable[[str], list[Element]],
    ) -> None:
        self.root = Element("#root")
        self.notes: dict[str, str] = {}  # the texts of a part of notes, by their ids
        self._note_id: str | None = None  # of the open one
        self.title: str | None = None
        self.hidden = False
        self.pictures = 0  # that may hold text: not the small ones
        self.is_on_paper = False  # nothing is drawn that white text could stand on
        self._is_large = True  # the open drawing
        self._is_watermark = False  # likewise
        self._styles = styles
        self._numbering = numbering
        self._notes = notes
        self._part = part
        self._open: list[_Paragraph] = []
        self._tables: list[_Table] = []
        self._silent = self._deeper = 0
        self._in_text = self._in_field = self._in_paragraph_properties = self._in_run_properties = (
            self._in_row_properties
        ) = False
        self._is_hidden = self._is_code = self._is_white = self._is_bold = False  # the open run
        self._bold: set[int] = set()  # ids of short bold paragraphs, which may be headings
        self._position = ""  # of the open run: superscript, subscript, or half points
        self._run_start = self._choice = 0
        self._field = ""  # the instruction of the open field
        self._formula: list[Element] = []  # open elements of a formula

    @property
    def _place(self) -> Element:
        """Return the open cell, or the document."""
        rows = self._tables[-1].rows if self._tables else []
        return rows[-1][-1].element if rows and rows[-1] else self.root

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        if self._silent or name in _SILENT:
            self._silent += 1
            if name == "del" and self._in_row_properties:
                self._tables[-1].deleted.add(len(self._tables[-1].rows) - 1)
            elif name == "del" and self._in_paragraph_properties and self._open:
                self._open[-1].is_removed = True
        elif name == "trPr" and self._tables and self._tables[-1].rows:
            self._in_row_properties = True
        elif self._formula or name == "oMath":
            self._open_formula(name, attributes)
        elif name == "p":
            self._open.append(_Paragraph())
        elif name in ("t", "instrText"):
            self._in_text, self._in_field = name == "t", name != "t"
        elif name == "pPr":
            self._in_paragraph_properties = True
        elif name == "r":
            self._begin_run()
        elif name == "rPr":
            self._in_run_properties = True
        elif self._in_run_properties:
            self._run_property(name, attributes)
        elif self._in_paragraph_properties:
            self._paragraph_property(name, attributes)
        elif name in ("tbl", "tr", "tc", "gridSpan", "vMerge", "tblHeader", "gridBefore", "hMerge", "tblStyle", "shd"):
            self._table_part(name, attributes)
        elif self._open:
            self._inline(name, attributes)
        elif name in _NOTE_KINDS.values() and "eparator" not in attributes.get("type", ""):
            self._note_id, self.root = attributes.get("id", ""), Element("#root")
        elif name == "altChunk":
            self._place.children += self._part(attributes.get("id", ""))

    def ended(self, name: str, /) -> None:
        if self._silent:
            self._silent -= 1
        elif self._formula:
            self._close_formula()
        elif name in ("t", "instrText"):
            self._in_text = self._in_field = False
        elif name == "pPr":
            self._in_paragraph_properties = False
        elif name == "trPr":
            self._in_row_properties = False
        elif name == "rPr":
            self._in_run_properties = False
        elif name == "r":
            self._end_run()
        elif name == "p" and self._open:
            self._end_paragraph()
        elif name == "tbl" and self._deeper:
            self._deeper -= 1
        elif name == "tbl" and self._tables:
            self._end_table()
        elif name in _NOTE_KINDS.values() and self._note_id is not None:
            self.notes[self._note_id] = one_line(*(block.text for block in blocks_of_tree(self.root)))
            self._note_id = None

    def text(self, text: str, /) -> None:
        if self._silent:
            return
        if self._formula:
            self._formula[-1].children.append(text)
        elif self._in_field:
            self._field += text
        elif self._in_text and self._open:
            if self._is_hidden or (self._is_white and self.is_on_paper and not self._is_on_shade()):
                self.hidden = self.hidden or bool(text.strip())
                return
            if any(fields := self._open[-1].fields) and not fields[-1]:
                return  # the result of a field within an instruction
            self._open[-1].pieces.append(text)
            self._open[-1].fonts.add(self._is_code)
            self._open[-1].weights |= {self._is_bold} if text.strip() else set()

    def _begin_run(self) -> None:
        style = self._open[-1].style if self._open else ""
        self._is_hidden, self._is_code = bool(self._styles.of(style, "vanish")), bool(self._styles.of(style, "code"))
        self._position, self._is_bold = "", bool(self._styles.of(style, "b"))
        self._is_white = bool(self._styles.of(style, "white")) and not self._open[-1].is_shaded
        self._run_start = len(self._open[-1].pieces) if self._open else 0

    def _end_run(self) -> None:
        if self._position and self._open:
            pieces = self._open[-1].pieces
            text = "".join(pieces[self._run_start :])
            before = "".join(pieces[max(0, self._run_start - 8) : self._run_start])
            if self._position in ("superscript", "subscript") or RAISED_TEXT.fullmatch(text):
                is_raised = self._position == "superscript" or self._position.isdecimal()
                pieces[self._run_start :] = [(raised if is_raised else lowered)(before, text)]
        self._is_hidden, self._position = False, ""

    def _run_property(self, name: str, attributes: dict[str, str]) -> None:
        if self._in_paragraph_properties or not self._open:
            return  # of the paragraph's mark
        if name == "vanish":
            self._is_hidden = _is_on(attributes)
        elif name == "color":
            self._is_white = bool(WHITE.fullmatch(attributes.get("val", ""))) and not self._open[-1].is_shaded
        elif name in ("shd", "highlight"):
            self._is_white &= not _is_shade(attributes)
        elif name == "b":
            self._is_bold = _is_on(attributes)
        elif name == "sz":
            self._is_hidden |= attributes.get("val") in _TINY
        elif name == "rStyle":
            self._is_hidden |= bool(self._styles.of(attributes.get("val", ""), "vanish"))
            self._is_code |= bool(self._styles.of(attributes.get("val", ""), "code"))
            self._is_white |= bool(self._styles.of(attributes.get("val", ""), "white"))
            self._is_bold |= bool(self._styles.of(attributes.get("val", ""), "b"))
            self._position = self._styles.of(attributes.get("val", ""), "vertAlign") or ""
        elif name == "rFonts" and "ascii" in attributes:
            self._is_code = MONOSPACE.search(attributes["ascii"]) is not None
        elif name in ("vertAlign", "position") and not self._position.isalpha():
            value = attributes.get("val", "")
            self._position = value if _SHIFT.fullmatch(value) else ""

    def _paragraph_property(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open:
            return
        paragraph, value = self._open[-1], attributes.get("val", "")
        if name == "pStyle":
            paragraph.style, paragraph.is_shaded = value, paragraph.is_shaded or bool(self._styles.of(value, "shd"))
        elif name == "shd":
            paragraph.is_shaded = _is_shade(attributes)
        elif name == "outlineLvl" and value in _LEVELS:
            paragraph.level = int(value) + 1
        elif name == "ilvl" and value.isdecimal():
            paragraph.list_level = int(value)
        elif name == "numId":
            paragraph.list_id = value
        elif name == "numPr":
            paragraph.is_item = True

    def _inline(self, name: str, attributes: dict[str, str]) -> None:
        paragraph = self._open[-1]
        if name in ("tab", "ptab", "br", "cr", "noBreakHyphen"):
            paragraph.pieces.append({"tab": TAB, "ptab": TAB, "noBreakHyphen": "-"}.get(name, LINE_END))
        elif name == "fldChar":
            paragraph.pieces.append(of_equation(self._field))
            self._field = ""
            kind = attributes.get("fldCharType")
            if kind == "begin":
                paragraph.fields.append(True)
            elif paragraph.fields and kind == "end":
                paragraph.fields.pop()
            elif paragraph.fields:
                paragraph.fields[-1] = False
        elif name == "sym":
            paragraph.pieces.append(_symbol(attributes))
        elif name == "checkBox":
            paragraph.pieces.append("☐")
        elif name in ("ddList", "result"):  # of a list of choices, the first one unless another is named
            self._choice = int(value) if (value := attributes.get("val", "0")).isdecimal() else 0
        elif name == "listEntry":
            paragraph.pieces += [attributes.get("val", "")] if self._choice == 0 else []
            self._choice -= 1
        elif name in ("default", "checked") and paragraph.pieces[-1:] in (["☐"], ["☒"]):
            paragraph.pieces[-1] = "☒" if _is_on(attributes) else "☐"
        elif name in _NOTE_KINDS:
            kind = _NOTE_KINDS[name]
            text = self._notes.get((kind, attributes.get("id", "")))
            if text:
                if kind != "comment":
                    paragraph.pieces.append(f"[{attributes.get('id', '')}]")
                paragraph.below.append(_note(kind, attributes.get("id", ""), text))
        elif name == "shape":
            self._is_watermark = "watermark" in attributes.get("id", "").lower()
            paragraph.pieces.append(picture_text(attributes.get("alt")))
        elif name == "textpath" and not self._is_watermark:
            paragraph.pieces.append(attributes.get("string", ""))
        elif name in ("docPr", "cNvPr"):
            if (text := picture_text(attributes.get("descr"))) and text not in paragraph.pieces[-2:]:
                paragraph.pieces += [" ", text, " "]
        elif name == "extent":
            self._is_large = all(int(size) >= _LARGE for size in attributes.values() if size.isdecimal())
        elif name in ("blip", "OLEObject"):
            self.pictures += self._is_large or name == "OLEObject"
        elif name == "relIds":
            paragraph.below += self._part(attributes.get("dm", ""))
        elif name == "chart":
            paragraph.below += self._part(attributes.get("id", ""))

    def _open_formula(self, name: str, attributes: dict[str, str]) -> None:
        element = Element(name, attributes.get("val", ""))
        if self._formula:
            self._formula[-1].children.append(element)
        self._formula.append(element)

    def _close_formula(self) -> None:
        element = self._formula.pop()
        if not self._formula and self._open:
            self._open[-1].pieces.append(linear_omml(element))
            self._open[-1].fonts.add(False)
            self._open[-1].weights.add(False)

    def _end_paragraph(self) -> None:
        paragraph, place = self._open.pop(), self._place
        text = _LEADERS.sub(" ", "".join(paragraph.pieces))
        style = paragraph.style
        level = self._styles.level(style) if style else None
        level = paragraph.level if level is None else level
        marker, listed = self._marker(paragraph, level) if text.strip() or not paragraph.is_removed else ("", False)
        if not text.strip() and self._tables and listed and marker.strip(" -"):
            place.children.append(Element("p", children=[marker.strip()]))  # as columns of running numbers have them
        if text.strip():
            if (style == "Title" or self._styles.of(style, "title")) and self.title is None:
                self.title = text.strip()
            if paragraph.fonts == {True} and not (marker or level) and is_short(text.strip()):
                append_code(place, [text])
            elif listed:
                depth = max(paragraph.list_level or 0, self._styles.of(style, "depth") or 0)
                list_at(place, depth).children.append(Element("li", children=[text.strip()], marker=marker))
            else:
                text = marker + text.strip() if level else text
                place.children.append(made := Element(f"h{level}" if level else "p", children=[text]))
                if paragraph.weights == {True} and place is self.root and _MAY_BE_HEADING.fullmatch(text.strip()):
                    self._bold.add(id(made))
        place.children += paragraph.below

    def mark_headings(self) -> None:
        """Turn short bold paragraphs above others into headings in a document that has no other ones."""
        places = [child for child in self.root.children if isinstance(child, Element)]
        found = [one for one, below in pairwise(places) if id(one) in self._bold and id(below) not in self._bold]
        if len(found) < 2 or 2 * len(found) > len(places) or any(_HEADING_TAG.fullmatch(place.tag) for place in places):
            return
        if id(places[0]) in self._bold:
            places[0].tag = "h1"
        for place in found:
            place.tag = "h2"

    def _marker(self, paragraph: _Paragraph, level: int | None) -> tuple[str, bool]:
        """Return the number or the bullet before a paragraph, and whether it is an item of a list."""
        style = paragraph.style
        list_id = self._styles.of(style, "numId") if paragraph.list_id is None else paragraph.list_id
        list_level = self._styles.of(style, "ilvl") if paragraph.list_level is None else paragraph.list_level
        if list_id is None or list_id == "0":
            is_item = paragraph.is_item and list_id is None and level is None
            return ("- " if is_item else ""), is_item
        number = self._numbering.next(list_id, list_level or 0)
        if number is None:
            return ("- ", True) if level is None else ("", False)
        return number, level is None

    def _table_part(self, name: str, attributes: dict[str, str]) -> None:
        value = attributes.get("val", "")
        if name == "tbl":
            is_deeper = len(self._tables) >= _DEEPEST
            self._tables += [] if is_deeper else [_Table()]
            self._deeper += is_deeper
            return
        if not self._tables or self._deeper:
            return
        table = self._tables[-1]
        if name == "tr":
            table.rows.append([])
        elif name == "tblStyle":
            table.is_shaded = bool(self._styles.of(value, "shd"))
        elif name == "shd":
            table.is_shaded |= not table.rows and _is_shade(attributes)
            table.has_shaded_cell = _is_shade(attributes)
        elif not table.rows:
            return
        elif name == "tc":
            table.rows[-1].append(Cell())
            table.has_shaded_cell = False
        elif name == "gridBefore" and value.isdecimal():
            table.rows[-1].append(Cell(across=min(int(value), _MOST_COLUMNS)))
        elif name == "tblHeader" and _is_on(attributes) and table.header_rows == len(table.rows) - 1:
            table.header_rows += 1
        elif name == "gridSpan" and value.isdecimal() and table.rows[-1]:
            table.rows[-1][-1].across = max(1, min(int(value), _MOST_COLUMNS))
        elif name == "vMerge" and table.rows[-1]:
            table.rows[-1][-1].from_above = value != "restart"
        elif name == "hMerge" and table.rows[-1]:
            table.rows[-1][-1].from_left = value != "restart"

    def _is_on_shade(self) -> bool:
        return any(table.is_shaded or table.has_shaded_cell for table in self._tables)

    def _end_table(self) -> None:
        table = self._tables.pop()
        for cell in (cell for row in table.rows[: table.header_rows] for cell in row):
            cell.element.tag = "th"
        shown = (row for at, row in enumerate(table.rows) if at not in table.deleted)
        made = table_of(row for row in shown if any(cell.element.children or cell.from_above for cell in row))
        self._place.children += [made] if made.children else []


def _note(kind: str, name: str, text: str) -> Element:
    return Element("note", children=[f"[{'Comment' if kind == 'comment' else name}] {text}"])


def _symbol(attributes: Mapping[str, str]) -> str:
    code = attributes.get("char", "")
    if not re.fullmatch(r"[0-9A-Fa-f]{1,5}", code):
        return ""
    number = int(code, 16)
    character = chr(number - 0xF000 if 0xF000 <= number <= 0xF0FF else number)
    table = _SYMBOLS.get(attributes.get("font", "").lower())
    return (table.get(character, "") if table is not None else character) if number >= 32 else ""


def _is_shade(attributes: Mapping[str, str]) -> bool:
    return attributes.get("fill", attributes.get("val", "")).upper() not in ("", "AUTO", "NONE", "FFFFFF")


def _is_on(attributes: Mapping[str, str]) -> bool:
    return attributes.get("val", "true") not in ("0", "false", "off", "none")
