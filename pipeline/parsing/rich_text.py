"""Rich text (RTF) to text, by way of the tree that pages of HTML have too, in one pass without recursion."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.errors import MalformedDocument
from pipeline.parsing.assembly import MONOSPACE, assemble, usable_title, with_furniture
from pipeline.parsing.containers import copy_of, what_it_is
from pipeline.parsing.formulas import RAISED_TEXT
from pipeline.parsing.html import blocks_of_tree
from pipeline.parsing.html_tree import Element
from pipeline.parsing.numbering import spaced
from pipeline.parsing.trees import Cell, append_code, is_short, list_at, table_of, with_code
from pipeline.records import Parsed

_TOKEN = re.compile(rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|([^\\{}\r\n]+)", re.DOTALL)
_WORD, _NUMBER, _CODE, _SIGN, _BRACE, _TEXT = range(1, 7)  # groups of the pattern, of which the last one matched tells
_HEADING = re.compile(r"(?:heading|标题|überschrift|titre)\s*([1-6])$", re.IGNORECASE)
# Character sets of fonts by their numbers in Windows (0 and 1: the document's), and encodings that Python names otherwise.
_CHARSETS = {77: "mac-roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs"}
_CHARSETS |= {161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257"}
_CHARSETS |= {204: "cp1251", 222: "cp874", 238: "cp1250", 254: "cp437"}
_PAGES = {65001: "utf-8", 936: "gb18030", 950: "big5hkscs", 10000: "mac-roman", 1361: "johab"}
_KNOWN_PAGES = frozenset({437, 850, 852, 866, 874, 932, 949, *range(1250, 1259)})
_SIGNS = {"tab": "\t", "emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“"}
_SIGNS |= {"rdblquote": "”", "emspace": " ", "enspace": " ", "qmspace": " ", "nestcell": " | "}
_ESCAPED = {b"~": " ", b"_": "-", b"{": "{", b"}": "}", b"\\": "\\"}
_SILENT = frozenset(
    """shprslt colortbl listtable listoverridetable revtbl rsidtbl generator pict objdata fldinst sp nonesttables nonshppict
    filetbl xe tc ftnsep ftnsepc aftnsep aftnsepc atnid template author operator company comment keywords subject doccomm
    category manager""".split()  # noqa: SIM905 - easier to read in a row
)
# Groups that programs may skip, and that hold text.
_READ = frozenset("shppict shpinst shptxt annotation mmath moMath moMathPara footnote".split())  # noqa: SIM905
_FURNITURE = frozenset(f"{name}{side}" for name in ("header", "footer") for side in ("", "l", "r", "f"))
# Words with a meaning wherever they stand; most words are the look of the text.
_MEANINGFUL = frozenset(
    """u par sect page column nestrow line f fs cf fcharset ansicpg deff s uc cpg plain v deleted super sub nosupersub up dn
    pard intbl outlinelevel ilvl trowd trhdr clmrg clvmrg cellx cell row""".split()  # noqa: SIM905
).union(_SIGNS)
_MEANINGFUL_BYTES = frozenset(word.encode() for word in (*_MEANINGFUL, "bin"))
_COLOURS = re.compile(rb"\\colortbl([^{}]*)")
_BEHIND_TEXT = re.compile(rb"\\(?:cb|(?:ch|cl|tr)?cbpat|highlight|shp|pict|do)(?![a-z])")  # under white text
_WHITE = frozenset((b"red255", b"green255", b"blue255"))
_MOVED = {"up": "sup", "dn": "sub"}
_TOLERANCE = 60  # twips between edges of cells in different rows that count as one
_MOST_GROUPS = 10_000  # within each other


def parse_rtf(body: bytes) -> Parsed:
    """Return headings by their styles, lists with the numbers that the file holds, tables with merged cells, notes and
    comments below the paragraph that calls them, headers and footers last. Deleted and hidden text is left out. Title:
    that of the properties unless a program chose it. Raises MalformedDocument, DocumentTooLarge."""
    if not body.lstrip()[:1] == b"{":
        raise MalformedDocument(f"the file is not an RTF document but {what_it_is(body)}")
    reader = _Reader()
    reader.read(body)
    blocks = with_furniture(blocks_of_tree(with_code(reader.body.root)), blocks_of_tree(reader.furniture))
    warnings = ["hidden text was left out"] if reader.hides else []
    return assemble(blocks, title=usable_title("".join(reader.title)), warnings=warnings)


@dataclass(slots=True)
class _Edge:
    """The right edge of a cell, and whether the cell goes on from its left neighbour or from the row above."""

    right: int
    from_left: bool
    from_above: bool


@dataclass(slots=True)
class _Flow:
    """Paragraphs that follow each other: of the body, a note, or a header."""

    root: Element = field(default_factory=lambda: Element("#root"))
    pieces: list[Element | str] = field(default_factory=list)  # of the open paragraph
    is_prose: bool = False  # it has text in another font than that of code
    below: list[Element | str] = field(default_factory=list)  # its notes
    marker: list[str] = field(default_factory=list)  # its number in a list
    cell: Element = field(default_factory=lambda: Element("td"))
    cells: list[Element] = field(default_factory=list)
    edges: list[_Edge] = field(default_factory=list)  # of the row
    is_header: bool = False
    rows: list[tuple[list[Element], list[_Edge]]] = field(default_factory=list)


@dataclass(kw_only=True)
class _Group:
    """Settings that end with their group. ``target``: the use of its text where that is no text of the document."""

    flow: _Flow
    target: str = ""
    font: int = 0
    is_hidden: bool = False
    is_white: bool = False
    is_tiny: bool = False
    is_deleted: bool = False
    moved: str = ""
    replaced: int = 1  # characters after a Unicode character that stand for it
    in_table: bool = False
    level: int | None = None
    depth: int = 0  # of lists


class _Reader:
    def __init__(self) -> None:
        self.body, self.furniture = _Flow(), Element("#root")
        self.title: list[str] = []
        self.hides = False
        self._groups = [_Group(flow=self.body)]
        self._codec = "cp1252"
        self._charsets: dict[int, str] = {}
        self._code_fonts: set[int] = set()
        self._levels: dict[int, int] = {}  # of styles
        self._white: set[int] = set()  # colours
        self._style, self._style_name = 0, ""
        self._default_font = self._left_out = self._notes = 0
        self._begins = self._optional = False  # the group
        self._bytes, self._bytes_codec = bytearray(), ""
        self._merges: set[str] = set()  # of the cell that is described

    def read(self, body: bytes) -> None:
        """Read the file to its end."""
        colours = _COLOURS.search(body) if _BEHIND_TEXT.search(body) is None else None
        for number, colour in enumerate(colours[1].split(b";") if colours else ()):
            self._white |= {number} if _WHITE.issubset(colour.split(b"\\")) else set()
        tokens = _TOKEN.finditer(body)
        while (token := next(tokens, None)) is not None:
            kind = token.lastindex or 0
            if kind in (_TEXT, _CODE):
                self._take(token[_TEXT] if kind == _TEXT else bytes([int(token[_CODE], 16)]))
                continue
            if kind <= _NUMBER and not self._begins and token[_WORD] not in _MEANINGFUL_BYTES:
                self._left_out = 0
                continue
            sign = token[kind] if kind == _SIGN else b""
            if sign and sign in rb"\{}":
                self._take(sign)
                continue
            if self._bytes:
                self._decode()
            if kind == _BRACE:
                self._begin_or_end_group(token[_BRACE])
            elif kind != _SIGN and token[_WORD] == b"bin":
                tokens = _TOKEN.finditer(body, token.end() + max(0, int(token[_NUMBER] or 0)))
            elif kind != _SIGN:
                self._word(token[_WORD].decode(), int(token[_NUMBER]) if kind == _NUMBER else None)
            elif sign == b"*":
                self._optional = self._begins
            elif sign in b"\n\r":
                self._end_paragraph()
            elif sign in _ESCAPED:
                self._write(_ESCAPED[sign])
        self._decode()
        self._close(self.body)

    def _take(self, text: bytes) -> None:
        """Take bytes of text, but for those that stand for a Unicode character before them."""
        self._begins = False
        left_out = min(self._left_out, len(text))
        self._left_out -= left_out
        codec = self._charsets.get(self._groups[-1].font, self._codec)
        if codec != self._bytes_codec:
            self._decode()
            self._bytes_codec = codec
        self._bytes += text[left_out:]

    def _decode(self) -> None:
        if self._bytes:
            is_plain = self._bytes.isascii() and self._bytes_codec != "johab"  # the only one with another backslash
            text = self._bytes.decode("ascii" if is_plain else self._bytes_codec, "replace")
            self._bytes.clear()
            self._write(text)

    def _write(self, text: str) -> None:
        group = self._groups[-1]
        if group.target == "style":
            self._style_name += text
        elif group.target == "title":
            self.title.append(text)
        elif group.target == "marker":
            group.flow.marker.append(text)
        elif group.target == "font" and MONOSPACE.search(text):
            self._code_fonts.add(group.font)
        elif group.target or group.is_deleted:
            pass
        elif group.is_hidden or group.is_white or group.is_tiny:
            self.hides = self.hides or not text.isspace()
        else:
            moved = group.moved
            if moved in _MOVED:  # by its place alone
                moved = _MOVED[moved] if RAISED_TEXT.fullmatch(text) else ""
            group.flow.is_prose |= group.font not in self._code_fonts or bool(moved)
            group.flow.pieces.append(Element(moved, children=[text]) if moved else text)

    def _begin_or_end_group(self, brace: bytes) -> None:
        if brace == b"}":
            self._end_group()
            return
        if len(self._groups) > _MOST_GROUPS:
            raise MalformedDocument("the document is nested too deeply")
        self._groups.append(copy_of(self._groups[-1]))
        self._begins, self._optional, self._left_out = True, False, 0

    def _end_group(self) -> None:
        if len(self._groups) == 1:
            return
        ended, outer = self._groups.pop(), self._groups[-1]
        if ended.target == "style":
            if found := _HEADING.search(self._style_name.strip("; ")):
                self._levels[self._style] = int(found[1])
            self._style_name = ""
        if ended.flow is not outer.flow:
            self._groups.append(ended)
            self._close(ended.flow)
            self._groups.pop()
        self._begins, self._left_out = False, 0

    def _word(self, word: str, number: int | None) -> None:
        group, begins, optional = self._groups[-1], self._begins, self._optional
        self._begins, self._left_out = False, 0
        if (begins and self._begin_group(word, group, optional=optional)) or word not in _MEANINGFUL:
            return
        value = 1 if number is None else number
        if word == "u":
            self._write(chr(value % 0x10000))
            self._left_out = group.replaced
        elif word in _SIGNS:
            self._write(_SIGNS[word])
        elif word in ("par", "sect", "page", "column", "nestrow"):
            self._end_paragraph()
        elif word == "line":
            group.flow.pieces.append(Element("br"))
        elif word in ("f", "fs", "cf", "fcharset", "ansicpg", "deff", "s", "uc", "cpg"):
            self._number(word, value, group)
        elif word in ("plain", "v", "deleted", "super", "sub", "nosupersub", "up", "dn"):
            self._look(word, group, is_on=value != 0)
        elif word == "pard":
            group.in_table, group.level, group.depth = False, None, 0
        elif word == "intbl":
            group.in_table = True
        elif word == "outlinelevel":
            group.level = value + 1 if value < 6 else None
            if group.target == "style" and group.level:
                self._levels[self._style] = group.level
        elif word == "ilvl":
            group.depth = min(max(value, 0), 8)
        else:
            self._table_word(word, value, group.flow)

    def _begin_group(self, word: str, group: _Group, *, optional: bool) -> bool:
        """Handle the first word of a group. Return whether nothing else is to do."""
        if group.target in ("none", "font", "style"):
            return False
        if word in ("fonttbl", "stylesheet", "title"):
            group.target = {"fonttbl": "font", "stylesheet": "style"}.get(word, word)
        elif word in ("listtext", "pntext"):
            group.target, group.flow.marker = "marker", []
        elif word in _SILENT or (optional and word not in _READ):
            group.target = "none"
        elif word in ("footnote", "annotation"):
            is_note = word == "footnote"
            self._notes += is_note
            note = Element("note", children=[f"[{self._notes}] " if is_note else "[Comment] "])
            group.flow.pieces += [f"[{self._notes}]"] if is_note else []
            group.flow.below.append(note)
            group.flow, group.in_table, group.level = _Flow(root=note), False, None
        elif word in _FURNITURE:
            group.flow, group.in_table, group.level = _Flow(root=self.furniture), False, None
        else:
            return False
        return True

    def _number(self, word: str, value: int, group: _Group) -> None:
        if word == "f":
            group.font = value
        elif word == "fs":
            group.is_tiny = value <= 2  # half points
        elif word == "cf":
            group.is_white = value in self._white
        elif word in ("fcharset", "cpg") and group.target == "font":
            if codec := _CHARSETS.get(value) if word == "fcharset" else _codec_of(value):
                self._charsets[group.font] = codec
        elif word == "ansicpg":
            self._codec = _codec_of(value) or self._codec
        elif word == "deff":
            self._default_font = group.font = value
        elif word == "s":
            self._style = value if group.target == "style" else self._style
            group.level = self._levels.get(value)
        elif word == "uc":
            group.replaced = min(max(value, 0), 8)

    def _look(self, word: str, group: _Group, *, is_on: bool) -> None:
        if word == "plain":
            group.font, group.is_hidden, group.is_deleted, group.moved = self._default_font, False, False, ""
            group.is_white = group.is_tiny = False
        elif word == "v":
            group.is_hidden = is_on
        elif word == "deleted":
            group.is_deleted = is_on
        else:
            group.moved = {"super": "sup", "nosupersub": ""}.get(word, word) if is_on else ""

    def _table_word(self, word: str, value: int, flow: _Flow) -> None:
        if word == "trowd":
            flow.edges, flow.is_header, self._merges = [], False, set()
        elif word == "trhdr":
            flow.is_header = True
        elif word in ("clmrg", "clvmrg"):
            self._merges.add(word)
        elif word == "cellx":
            flow.edges.append(_Edge(value, "clmrg" in self._merges, "clvmrg" in self._merges))
            self._merges = set()
        elif word == "cell":
            self._end_paragraph(in_table=True)
            flow.cells.append(flow.cell)
            flow.cell = Element("td")
        elif word == "row" and flow.cells:
            for cell in flow.cells:
                cell.tag = "th" if flow.is_header else "td"
            flow.rows.append((flow.cells, flow.edges))
            flow.cells = []

    def _end_paragraph(self, *, in_table: bool = False) -> None:
        group = self._groups[-1]
        flow = group.flow
        in_table = in_table or group.in_table
        if not in_table:
            _end_table(flow)
        place = flow.cell if in_table else flow.root
        marker = "".join(flow.marker).strip()
        pieces, below, is_prose = flow.pieces, flow.below, flow.is_prose
        flow.pieces, flow.below, flow.marker, flow.is_prose = [], [], [], False
        if flow.root.tag == "note":
            flow.root.children += [*pieces, " "]
        elif marker:
            marker = spaced(marker) if any(map(str.isalnum, marker)) else "- "
            list_at(place, group.depth).children.append(Element("li", children=pieces, marker=marker))
        elif (
            pieces
            and not (is_prose or in_table or group.level)
            and is_short("".join(each for each in pieces if isinstance(each, str)))
        ):
            append_code(place, pieces)
        elif pieces:
            place.children.append(Element(f"h{group.level}" if group.level and not in_table else "p", children=pieces))
        place.children += below

    def _close(self, flow: _Flow) -> None:
        self._end_paragraph()
        flow.root.children += flow.cell.children
        for cell in flow.cells:
            flow.root.children += cell.children
        _end_table(flow)


def _codec_of(page: int) -> str | None:
    return _PAGES.get(page) or (f"cp{page}" if page in _KNOWN_PAGES else None)


def _end_table(flow: _Flow) -> None:
    """Add the rows that were read as a table. Cells span the columns whose edges they cover."""
    if not flow.rows or flow.cells:
        return
    rows, flow.rows = flow.rows, []
    column_of: dict[int, int] = {}
    column, last = -1, -_TOLERANCE - 1
    for right in sorted({edge.right for _, edges in rows for edge in edges}):
        column += right - last > _TOLERANCE
        column_of[right] = column
        last = right
    table: list[list[Cell]] = []
    for cells, edges in rows:
        line, before = list[Cell](), -1
        for cell, edge in zip(cells, _edges_of(cells, edges), strict=True):
            across = max(1, column_of.get(edge.right, before + 1) - before)
            before += across
            line.append(Cell(cell, across, edge.from_left, edge.from_above))
        table.append(line)
    flow.root.children.append(table_of(table))


def _edges_of(cells: Sequence[Element], edges: Sequence[_Edge]) -> Sequence[_Edge]:
    """Return an edge for each cell; of a row that describes others, none that is known."""
    return edges if len(edges) == len(cells) else [_Edge(-1, False, False)] * len(cells)
