"""Texts and slides of OpenDocument (LibreOffice, OpenOffice) to text, by way of the tree that pages of HTML have too."""

import io
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from zipfile import ZipFile

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument
from pipeline.parsing.assembly import MONOSPACE, WHITE, Block, assemble, one_line, usable_title, with_furniture
from pipeline.parsing.containers import Archive, XmlReader, copy_of, office_archive, title_in, tree_beside, what_it_is
from pipeline.parsing.formulas import linear_mathml
from pipeline.parsing.html import blocks_of_tree, picture_text
from pipeline.parsing.html_tree import DEEPEST, Element
from pipeline.parsing.numbering import whole
from pipeline.parsing.recognition import unread
from pipeline.parsing.trees import append_code, is_short, with_code
from pipeline.parsing.word_numbers import Numbering
from pipeline.records import Parsed

CONTENT = "content.xml"
_STYLES, _META, _MANIFEST = "styles.xml", "meta.xml", "META-INF/manifest.xml"
_NAMESPACE, _NAMES_WITHIN = re.compile(rb"xmlns:[\w.-]+=(?:\"[^\"<]*\"|'[^'<]*')"), 8192  # of a flat document
_MOST_SLIDES = 2_000
_MOST_SPACES = 100
_OUTLINE = "\noutline"  # the list style of headings, which has no name
_BEHIND_TEXT = re.compile(rb"background-color=['\"]#(?![fF]{6})|<draw:|background-image")  # under white text
_LOOKED_THROUGH = 8_000_000  # bytes
# Changes, entries of the program, and contents tables, which repeat the headings.
_SILENT = frozenset(
    """tracked-changes covered-table-cell table-of-content forms hidden-text ruby-text binary-data page-number
    page-count event-listeners placeholder creator date-string""".split()  # noqa: SIM905 - easier to read in a row
)
_HEADERS = frozenset(f"{name}{side}" for name in ("header", "footer") for side in ("", "-left", "-first"))
_CODE = "Preformatted_20_Text"
_KNOWN = frozenset({_CODE, "Title"})
_FURNITURE = frozenset({"header", "footer", "date-time", "page-number"})  # of slides
_TAGS = {"span": "span", "a": "a", "text-box": "div", "custom-shape": "div", "section": "div", "table-row": "tr"}
_HIDING = frozenset({"p", "h", "span", "section"})
_LENGTH = re.compile(r"(-?\d{1,6}(?:\.\d{1,6})?)\d*(cm|mm|in|pt|pc|px)")
_IN_CM = {"cm": 1.0, "mm": 0.1, "in": 2.54, "pt": 2.54 / 72, "pc": 2.54 / 6, "px": 2.54 / 96}
_LARGE_CM = 3.0  # the least width and height of a picture that may hold text
_ROW_HEIGHT_CM = 0.64  # shapes whose tops differ by less stand beside each other, as in `slides`
_REMEDY = "save the slides as PDF, whose pages can be recognised"


def parse_odt(body: bytes) -> Parsed:
    """Return headings and lists with their numbers, tables with merged cells, notes and comments below the paragraph that
    calls them, headers and footers last. Deleted and hidden text and contents tables are left out. Title: that of the
    properties, else the first paragraph styled as title. Raises as `office_archive`."""
    with open_document(body, "an OpenDocument text") as archive:
        tree = _read(archive)
        blocks = with_furniture(blocks_of_tree(with_code(tree.root)), blocks_of_tree(tree.furniture))
        warnings = ["hidden text was left out"] if tree.hides else []
        if tree.pictures:
            warnings.append(f"pictures were not read ({tree.pictures})")
        title = title_of(archive) or tree.title
        return assemble(blocks, title=title, warnings=warnings + archive.warnings)


def parse_odp(body: bytes) -> Parsed:
    """Return every shown slide as a page: its title as heading, its other shapes from top to bottom and left to right,
    then its notes. Raises as `office_archive`."""
    with open_document(body, "an OpenDocument presentation") as archive:
        slides = _read(archive).slides
        if len(slides) > _MOST_SLIDES:
            raise DocumentTooLarge(f"the presentation has {len(slides)} slides; at most {_MOST_SLIDES} are read")
        blocks: list[Block] = []
        pictures: list[int] = []
        for number, slide in enumerate(slides, start=1):
            if slide.is_hidden:
                continue
            shown = blocks_of_tree(slide.ordered())
            if not shown and slide.has_picture:
                pictures.append(number)
            shown += [replace(block, mark="notes", level=None) for block in blocks_of_tree(slide.notes)]
            blocks += [replace(block, page=number) for block in shown]
        warnings = [unread(pictures, len(slides), _REMEDY, what="slide")] if pictures else []
        if hidden := sum(slide.is_hidden for slide in slides):
            warnings.append(f"{hidden} hidden slides were left out")
        title = title_of(archive)
        return assemble(blocks, title=title, warnings=warnings + archive.warnings)


@contextmanager
def open_document(body: bytes, what: str) -> Iterator[Archive]:
    """Open a document, ``what``; one in a single file of XML as the archive that it would be. Raises as
    `office_archive`."""
    is_flat = not body.startswith(b"PK") and b"office:document" in body[:_NAMES_WITHIN]
    with office_archive(_archived(body) if is_flat else body, what) as archive:
        parts = archive.namelist()
        if _MANIFEST in parts and b"encryption-data" in archive.read(_MANIFEST):
            raise EncryptedDocument("the document is protected by a password")
        if CONTENT not in parts:
            raise MalformedDocument(f"the file is not {what} but {what_it_is(body)}")
        yield archive


def _archived(body: bytes) -> bytes:
    """Return a flat document as an archive, with its objects as parts of their own."""
    names = b" ".join(dict.fromkeys(_NAMESPACE.findall(body, 0, _NAMES_WITHIN)))
    pieces = body.split(b"</draw:object>")
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for number, piece in enumerate(pieces[:-1]):
            before, _, inner = piece.rpartition(b"<draw:object")
            pieces[number] = before + b'<draw:object href="Object %d"/>' % number
            archive.writestr(
                f"Object {number}/{CONTENT}", b"<object %s>%s</object>" % (names, inner.partition(b">")[2])
            )
        archive.writestr(CONTENT, b"".join(pieces))
        meta = body.partition(b"<office:meta")[2].partition(b">")[2].partition(b"</office:meta>")[0]
        archive.writestr(_META, b"<object %s>%s</object>" % (names, meta))
    return out.getvalue()


def title_of(archive: Archive) -> str | None:
    """Return the title in a document's properties, unless a program chose it."""
    return usable_title(title_in(archive, _META))


def _read(archive: Archive) -> "_Tree":
    tree = _Tree(archive)
    parts = [part for part in (_STYLES, CONTENT) if part in archive.namelist()]
    if all(archive.getinfo(part).file_size <= _LOOKED_THROUGH for part in parts):
        tree.styles.is_on_paper = not any(_BEHIND_TEXT.search(archive.read(part)) for part in parts)
    if _STYLES in archive.namelist():
        tree.read_beside(archive, _STYLES)
    tree.read(archive, CONTENT)
    return tree


class _Styles(XmlReader):
    """The styles of a document: those that hide, raise or lower text or hide slides, and those based on a known one."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        self.is_on_paper = False  # nothing is drawn or coloured that white text could stand on
        self.moved: dict[str, str] = {}
        self.code: set[str] = set()  # in a font of equal widths
        self._base: dict[str, str] = {}
        self._style = ""

    def known(self, style: str) -> str:
        """Return the program's own style on which a style of the document is based."""
        return self._base.get(style, style)

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        position = attributes.get("text-position", "0%").split()
        is_white = name == "text-properties" and self.is_on_paper and WHITE.fullmatch(attributes.get("color", "")[1:])
        if name == "style":
            self._style = attributes.get("name", "")
            base = self._style if self._style in _KNOWN else attributes.get("parent-style-name", self._style)
            self._base[self._style] = self.known(base)
            if attributes.get("parent-style-name") in self.code:
                self.code.add(self._style)
        elif name.endswith("-style"):  # a default, or a list with a font for its bullets
            self._style = ""
        elif is_white or attributes.get("display") == "none" or attributes.get("visibility") == "hidden":
            self.hidden.add(self._style)
        elif position and position[0] != "0%":
            self.moved[self._style] = "sub" if position[0].startswith(("sub", "-")) else "sup"
        if self._style and (font := attributes.get("font-name") or attributes.get("font-family")):
            (self.code.add if MONOSPACE.search(font) else self.code.discard)(self._style)


@dataclass(slots=True)
class _Slide:
    is_hidden: bool
    shapes: list[tuple[int, float, Element]] = field(default_factory=list)
    notes: Element = field(default_factory=lambda: Element("div"))
    has_picture: bool = False

    def ordered(self) -> Element:
        return Element("div", children=[shape[2] for shape in sorted(self.shapes, key=lambda shape: shape[:2])])


@dataclass(kw_only=True)
class _Place:
    """Where an element of the document stands. ``element``: takes its content; None to leave it out."""

    element: Element | None = None
    depth: int = 0
    reads: bool = False  # text
    below: list[Element | str] = field(default_factory=list)  # notes of the open paragraph
    is_note: bool = False
    is_header: bool = False  # rows of a table
    is_title: bool = False  # shape of a slide
    list_id: str = ""
    list_style: str = ""
    level: int = -1  # of lists
    item: Element | None = None
    is_code: bool = False
    is_large: bool = True  # a picture
    fonts: set[bool] = field(default_factory=set)  # of the open paragraph: whether it has text as code, and other text

    def begin(self, tag: str, source: str = "") -> Element:
        """Add an element, which takes the content unless it is too deep."""
        assert self.element is not None
        element = Element(tag, source)
        self.element.children.append(element)
        if self.depth < DEEPEST:
            self.element, self.depth = element, self.depth + 1
        return element


class _Tree(XmlReader):
    """Reads the styles and the content into a tree of elements of HTML."""

    def __init__(self, archive: Archive) -> None:
        self.root, self.furniture = Element("#root"), Element("#root")
        self.slides: list[_Slide] = []
        self.hides = False
        self.pictures = 0  # that may hold text: not the small ones
        self._title: Element | None = None
        self._objects = Objects(archive)
        self.styles = _Styles()
        self._numbering = Numbering()
        self._list_style = ""
        self._starts: dict[str, str] = {}  # the first number of each style of lists
        self._lists: list[str] = []
        self._last_list: dict[str, str] = {}  # of each style
        self._headings = ""  # the list of their numbers
        self._shapes: Element | None = None  # takes those of the open slide
        self._open = [_Place()]

    @property
    def title(self) -> str | None:
        """Return the first paragraph that is styled as title."""
        return one_line(self._title.text) if self._title is not None else None

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        place = copy_of(self._open[-1])
        self._open.append(place)
        if name == "body" and place.element is None:
            place.element = self.root
            self._headings = self._begin_list(_OUTLINE)
        elif place.element is None:
            self._style(name, attributes, place)
        elif name in _SILENT or attributes.get("class") in _FURNITURE:
            place.element = None
        elif name in _HIDING and self._is_hidden(attributes):
            place.element, self.hides = None, True
        elif place.element is self._shapes:
            self._shape(name, attributes, place)
        elif name in ("p", "h"):
            self._paragraph(name, attributes, place)
        elif name in ("list", "list-item", "list-header"):
            self._list(name, attributes, place)
        elif name in ("table", "table-cell"):
            self._table(name, attributes, place)
        elif name in ("note", "annotation"):
            mark = Element("note", children=["[Comment] "] if name == "annotation" else [])
            place.below.append(mark)
            place.element, place.is_note, place.reads = mark, True, False
        else:
            self._other(name, attributes, place)

    def ended(self, name: str, /) -> None:
        place, outer = self._open.pop(), self._open[-1]
        if place.element is None or outer.element is None:
            return
        if name in ("title", "desc"):
            place.element.children[:] = [picture_text(place.element.text)]
        elif name == "note-citation":
            mark = f"[{one_line(*(child for child in place.element.children if isinstance(child, str)))}]"
            outer.element.children.insert(0, f"{mark} ")
            if (caller := self._open[-2].element) is not None:
                caller.children.append(mark)
        elif name in ("p", "h") and place.below is not outer.below:
            if place.fonts == {True} and place.item is None and place.element is not outer.element:
                _make_code(place.element, outer.element)
            outer.element.children += place.below

    def text(self, text: str, /) -> None:
        place = self._open[-1]
        if place.element is not None and place.reads:
            place.element.children.append(text)
            place.fonts.add(place.is_code)

    def _is_hidden(self, attributes: dict[str, str]) -> bool:
        return attributes.get("display") == "none" or attributes.get("style-name", "") in self.styles.hidden

    def _style(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        """Take a part of the styles, of which headers and footers hold text."""
        if name in _HEADERS:
            place.element = self.furniture
        elif name in ("list-style", "outline-style"):
            self._list_style = _OUTLINE if name == "outline-style" else attributes.get("name", "")
            self._numbering.started("abstractNum", {"abstractNumId": self._list_style})
            self.styles.started(name, attributes)
        elif name in ("list-level-style-number", "list-level-style-bullet", "outline-level-style"):
            self._list_level(name, attributes)
        else:
            self.styles.started(name, attributes)

    def _list_level(self, name: str, attributes: dict[str, str]) -> None:
        level, shown = (whole(attributes.get(key), 1) for key in ("level", "display-levels"))
        places = ".".join(f"%{place}" for place in range(max(1, level - shown + 1), level + 1))
        text = f"{attributes.get('num-prefix', '')}{places}{attributes.get('num-suffix', '')}"
        if pattern := attributes.get("num-list-format"):
            text = re.sub(r"%(\d+)%", r"%\1", pattern)
        is_bullet = name.endswith("bullet")
        style = "bullet" if is_bullet else attributes.get("num-format", "")[:1] or "none"
        start = attributes.get("start-value", "1")
        if level == 1:
            self._starts[self._list_style] = start
        self._numbering.started("lvl", {"ilvl": str(level - 1)})
        for key, value in (("start", start), ("numFmt", style), ("lvlText", text)):
            self._numbering.started(key, {"val": value})

    def _begin_list(self, style: str, *, level: int = 0, start: str | None = None) -> str:
        """Begin a list of a style, whose first number at a level may be another one, and return its id."""
        list_id = f"{style} {len(self._lists)}"
        self._lists.append(list_id)
        self._last_list[style] = list_id
        for key, attributes in (
            ("num", {"numId": list_id}),
            ("abstractNumId", {"val": style}),
            ("lvlOverride", {"ilvl": str(level)}),
            ("startOverride", {"val": start or self._starts.get(style, "1")}),
            ("num", {}),
        ):
            self._numbering.started(key, attributes)
        return list_id

    def _list(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        place.reads = False
        if name == "list":
            style = attributes.get("style-name") or place.list_style
            goes_on = attributes.get("continue-numbering") == "true" or "continue-list" in attributes
            place.level += 1
            if goes_on and style in self._last_list:
                place.list_id = self._last_list[style]
            elif place.level == 0 or style != place.list_style:
                place.list_id = self._begin_list(style)
            place.list_style = style
            place.begin("ul")
            return
        place.item = place.begin("li")
        if name == "list-header":
            place.item.marker = ""
        if start := attributes.get("start-value"):
            place.list_id = self._open[-2].list_id = self._begin_list(place.list_style, level=place.level, start=start)

    def _paragraph(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        style = self.styles.known(attributes.get("style-name", ""))
        level = whole(attributes.get("outline-level"), 1)
        number: str | None = ""
        if place.item is not None and place.item.marker is None:
            marker = self._numbering.next(place.list_id, place.level)
            place.item.marker = "- " if marker is None else marker
        elif name == "h" and "is-list-header" not in attributes:
            number = self._numbering.next(self._headings, level - 1)
        assert place.element is not None
        if place.is_note:
            place.element.children.append(" ")
            place.begin("span")
        elif style == _CODE:
            before = place.element.children[-1:]
            if before and isinstance(before[0], Element) and before[0].tag == "pre":
                place.element, place.depth = before[0], place.depth + 1
                place.element.children.append("\n")
            else:
                place.begin("pre")
        else:
            element = place.begin(f"h{min(level, 6)}" if name == "h" or place.is_title else "p")
            element.children += [f"{number} "] if number else []
            place.below, place.fonts = [], set()
            place.is_code = attributes.get("style-name", "") in self.styles.code
            if style == "Title" and self._title is None:
                self._title = element
        place.reads = True

    def _table(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        place.reads = False
        if name == "table":
            place.begin("table")
            place.is_header = False
        else:
            spans = (("colspan", "number-columns-spanned"), ("rowspan", "number-rows-spanned"))
            source = "".join(f' {key}="{attributes[own]}"' for key, own in spans if own in attributes)
            place.begin("th" if place.is_header else "td", source)
        place.item, place.level, place.below = None, -1, []

    def _shape(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        """Begin a shape of a slide, or its notes."""
        slide = self.slides[-1]
        place.element = slide.notes if name == "notes" else Element("div")
        if name != "notes":
            top, left = (_centimetres(attributes.get(key, "")) for key in ("y", "x"))
            slide.shapes.append((int(top / _ROW_HEIGHT_CM), left, place.element))
            place.is_title = attributes.get("class") == "title"

    def _other(self, name: str, attributes: dict[str, str], place: _Place) -> None:
        assert place.element is not None
        if name == "page":
            self.slides.append(_Slide(is_hidden=attributes.get("style-name", "") in self.styles.hidden))
            place.element = self._shapes = Element("div")
        elif name == "s":
            place.element.children.append(" " * min(whole(attributes.get("c"), 1), _MOST_SPACES))
        elif name in ("tab", "line-break"):
            place.element.children.append("\t" if name == "tab" else Element("br"))
        elif name == "image" and self.slides:
            self.slides[-1].has_picture = True
        elif name == "image":
            self.pictures += place.is_large
        elif name == "frame":
            sizes = [attributes[key] for key in ("width", "height") if key in attributes]
            place.is_large = all(_centimetres(size) >= _LARGE_CM for size in sizes)
        elif name == "object":
            self._object(attributes.get("href", ""), place.element)
        elif name == "note-citation":
            place.element, place.reads = Element("span"), True
        elif name in ("title", "desc"):
            place.begin("div")
            place.reads = True
        elif name == "table-header-rows":
            place.is_header = True
        elif name == "span" and attributes.get("style-name", "") in self.styles.code:
            place.is_code = True
        elif tag := self.styles.moved.get(attributes.get("style-name", "")) if name == "span" else None:
            place.begin(tag)
        elif tag := _TAGS.get(name):
            place.begin(tag)
            place.reads = place.reads and tag in ("span", "a")

    def _object(self, href: str, element: Element) -> None:
        """Read a formula, or the titles of a chart."""
        inner = self._objects.take(href)
        if any(each.tag == "math" for each in inner.descendants()):
            element.children.append(linear_mathml(inner))
        else:
            element.children += [Element("p", children=[title]) for title in titles_of(inner)]


class Objects:
    """The documents within another one, each of which is read once."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._parts = set(archive.namelist()) - {CONTENT}

    def take(self, href: str) -> Element:
        """Return the tree of a document; an empty one if there is none, or it was read before."""
        part = posixpath.join(posixpath.normpath(href), CONTENT)
        if part not in self._parts:
            return Element("#root")
        self._parts.discard(part)
        return tree_beside(self._archive, part)


def titles_of(chart: Element) -> list[str]:
    """Return the titles of a chart and of its axes."""
    return [text for each in chart.named("title") if (text := one_line(each.text))]


def _make_code(paragraph: Element, within: Element) -> None:
    """Turn a paragraph of a short line, the last of those within another element, into code."""
    if paragraph.tag == "p" and is_short(one_line(paragraph.text)):
        within.children.pop()
        append_code(within, paragraph.children)


def _centimetres(length: str) -> float:
    found = _LENGTH.fullmatch(length)
    return float(found[1]) * _IN_CM[found[2]] if found else 0.0
