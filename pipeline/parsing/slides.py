"""PowerPoint presentations to text, slide by slide."""

import io
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from zipfile import BadZipFile, ZipFile

from pptx.exc import PythonPptxError
from pptx.package import Package

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import Block, assemble, one_line, usable_title
from pipeline.parsing.containers import Archive, main_part, office_archive, texts_in, texts_of_chart, tree_of
from pipeline.parsing.formulas import linear_omml, lowered, raised
from pipeline.parsing.html import picture_text
from pipeline.parsing.html_tree import Element
from pipeline.parsing.numbering import numeral
from pipeline.parsing.recognition import unread
from pipeline.parsing.tables import table_blocks
from pipeline.records import Parsed

_MOST_SLIDES = 2_000
_MOST_COLUMNS = 1000
_MOST_NESTED = 20  # groups within groups
_ROW_HEIGHT = 228_600  # EMU, a quarter of an inch: shapes whose tops differ by less are beside each other
_DAMAGED = (
    *(PythonPptxError, SyntaxError, KeyError, ValueError, AttributeError, IndexError, TypeError),
    *(BadZipFile, zlib.error, EOFError, NotImplementedError),
)
_NUMBERED = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc|ea1|circle)\w*?(Period|ParenR|ParenBoth|Plain|Minus)")
_NUMBER_STYLES = {"alphaLc": "a", "alphaUc": "A", "romanLc": "i", "romanUc": "I", "ea1": "一", "circle": "①"}
_NUMBER_ENDS = {"Period": ".", "ParenR": ")"}
_ALTERNATIVES = "{http://schemas.openxmlformats.org/markup-compatibility/2006}AlternateContent"
_SLIDES = "ppt/slides/slide"
_ROOTS = {"ppt/slides": b"p:sld", "ppt/notesSlides": b"p:notes"}
_EMPTY = b'<%s xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"><p:cSld><p:spTree/></p:cSld></%s>'
_WHITE = "@val='FFFFFF' or @val='bg1'"
_BEHIND_TEXT = (  # that white text could stand on
    f".//p:pic | .//p:bgPr[not(a:solidFill/*[{_WHITE}])] | .//a:tbl | .//p:style | .//p:spPr/*[self::a:solidFill or"
    f" self::a:gradFill or self::a:blipFill or self::a:pattFill] | .//p:bgRef[not(*[{_WHITE}])]"
)
_REMEDY = "save the slides as PDF, whose pages can be recognised"


def parse_pptx(body: bytes) -> Parsed:
    """Return every shown slide as a page: its title as heading, then text, tables and groups from top to bottom and
    left to right, diagrams, then its notes. The title is that of the properties, else the first heading. Text in
    pictures is not read. Raises MalformedDocument, EncryptedDocument,
    DocumentTooLarge."""
    try:
        with office_archive(body, "a PowerPoint presentation") as archive:
            if main_part(archive, frozenset(archive.namelist())) is None:
                raise MalformedDocument("the archive holds no PowerPoint presentation")
            package = _package(body, archive)
            presentation = package.main_document_part.presentation
            slides = [slide for slide in presentation.slides if slide.element.get("show", "1") not in ("0", "false")]
            if len(slides) > _MOST_SLIDES:
                raise DocumentTooLarge(f"the presentation has {len(slides)} slides; at most {_MOST_SLIDES} are read")
            diagrams = {slide.slide_id: _diagrams(archive, slide) for slide in slides}
        numbers = {slide.slide_id: number for number, slide in enumerate(presentation.slides, start=1)}
        reading = _Reading(diagrams, presentation.slide_width, presentation.slide_height)
        blocks = [block for slide in slides for block in reading.blocks(slide, numbers[slide.slide_id])]
        title = usable_title(presentation.core_properties.title)
    except _DAMAGED as error:
        raise MalformedDocument(f"the presentation is damaged ({type(error).__name__})") from None
    warnings = [unread(reading.unread, len(numbers), _REMEDY, what="slide")] if reading.unread else []
    if reading.hides:
        warnings.append("hidden text was left out")
    if hidden := len(numbers) - len(slides):
        warnings.append(f"{hidden} hidden slides were left out")
    return assemble(blocks, title=title, warnings=warnings + archive.warnings)


def _package(body: bytes, archive: Archive) -> Any:
    """Return the open presentation, or slide show, or template, with empty slides and notes for those that are damaged,
    unless all slides are."""
    with suppress(SyntaxError, BadZipFile, zlib.error):
        return Package.open(io.BytesIO(body))
    whole, slides = io.BytesIO(), 0  # those that are not damaged
    with ZipFile(whole, "w") as copy:
        for part in archive.namelist():
            content, root = b"", _ROOTS.get(posixpath.dirname(part))
            with archive.beside(part):
                if root is not None:
                    tree_of(archive, part)
                content = archive.read(part)
                slides += part.startswith(_SLIDES)
            copy.writestr(part, content or (_EMPTY % (root, root) if root else b""))
    if not slides:
        raise ValueError("all slides are damaged")
    return Package.open(whole)


class _Reading:
    """Reads slides, and notes which hold only pictures."""

    def __init__(self, diagrams: Mapping[int, Sequence[Sequence[str]]], width: int, height: int) -> None:
        self.unread: list[int] = []
        self.hides = False
        self._layouts = set[str]()  # names of parts whose own texts were read
        self._diagrams = diagrams
        self._width, self._height = width, height

    def blocks(self, slide: Any, number: int) -> list[Block]:
        """Return the text of a slide."""
        _choose(slide.element)
        self.hides |= _leave_out_white(slide)
        title = slide.shapes.title
        heading = (
            one_line(*map(_text, title.text_frame.paragraphs)) if title is not None and title.has_text_frame else ""
        )
        shown = [block for block in self._shapes(slide.shapes, without=title) if block.text.strip()]
        shown += [Block(text="\n".join(texts)) for texts in self._diagrams[slide.slide_id]]
        shown += self._of_layout(slide.slide_layout)
        if heading:
            shown.insert(0, Block(text=heading, level=1))
        if not shown and _has_picture(slide.shapes):
            self.unread.append(number)
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            shown += [replace(block, mark="notes") for block in self._paragraphs(notes)]
        return [replace(block, page=number) for block in shown]

    def _of_layout(self, layout: Any) -> Iterator[Block]:
        """Yield the texts that a layout and its master show on every slide, at the first of them."""
        shows_master = layout.element.get("showMasterSp", "1") not in ("0", "false")
        for part in (layout, layout.slide_master) if shows_master else (layout,):
            if part.part.partname not in self._layouts:
                self._layouts.add(part.part.partname)
                own = [shape for shape in part.shapes if not shape.is_placeholder]
                yield from (block for block in self._shapes(own) if block.text.strip())

    def _shapes(self, shapes: Iterable[Any], *, without: Any = None, depth: int = 0) -> Iterator[Block]:
        if depth > _MOST_NESTED:
            raise MalformedDocument("the presentation is nested too deeply")
        left_out = None if without is None else without.shape_id
        for shape in sorted(shapes, key=_position):
            is_hidden = shape._element.xpath("*[1]/p:cNvPr/@hidden") in (["1"], ["true"])
            is_hidden |= depth == 0 and self._is_beside(shape)
            is_hidden |= shape._element.xpath("*[1]/p:nvPr/p:ph/@type") in (["dt"], ["sldNum"])  # date and number
            if is_hidden or (left_out is not None and shape.shape_id == left_out):
                continue
            if hasattr(shape, "shapes"):
                yield from self._shapes(shape.shapes, depth=depth + 1)
            elif getattr(shape, "has_table", False):
                yield from self._table(shape.table)
            elif shape.has_text_frame:
                yield from self._paragraphs(shape.text_frame)
            else:
                yield Block(text=picture_text("".join(shape._element.xpath("*[1]/p:cNvPr/@descr"))))

    def _is_beside(self, shape: Any) -> bool:
        """Return whether a shape stands beside the slide, where nobody sees it."""
        left, top, width, height = shape.left, shape.top, shape.width, shape.height
        if None in (left, top, width, height):
            return False
        return bool(left + width <= 0 or top + height <= 0 or left >= self._width or top >= self._height)

    def _paragraphs(self, frame: Any) -> Iterator[Block]:
        """Yield the paragraphs of a shape as lines that belong together, numbered and indented ones as list items."""
        is_first, numbers = True, _Numbers()
        for paragraph in frame.paragraphs:
            text = _text(paragraph).strip()
            if text:
                mark = numbers.mark(paragraph) or ("- " if paragraph.level else "")
                yield Block(text=mark + text, tight=not is_first)
                is_first = False

    def _table(self, table: Any) -> Iterator[Block]:
        """Yield a table with merged cells in every place that they cover. Later parts repeat its header."""
        rows = [
            [
                (one_line(*map(_text, cell.text_frame.paragraphs)), max(1, cell.span_width), max(1, cell.span_height))
                for cell in row.cells
                if not cell.is_spanned
            ]
            for row in table.rows
        ]
        yield from table_blocks(rows, marked=int(table.first_row), most_columns=_MOST_COLUMNS)


class _Numbers:
    """Counts the numbered paragraphs of a shape."""

    def __init__(self) -> None:
        self._counters: dict[int, tuple[str, int]] = {}  # by level: kind and last number

    def mark(self, paragraph: Any) -> str:
        """Return the number of the next paragraph with a space behind it; empty if it has none."""
        found = paragraph._p.xpath("a:pPr/a:buAutoNum")
        level = paragraph.level
        self._counters = {each: counter for each, counter in self._counters.items() if each < level + bool(found)}
        style = _NUMBERED.fullmatch(found[0].get("type", "")) if found else None
        if style is None:
            return ""
        kind, last = self._counters.get(level, ("", 0))
        start = found[0].get("startAt", "1")
        number = last + 1 if kind == style[0] else int(start) if start.isdecimal() and len(start) < 6 else 1
        self._counters[level] = (style[0], number)
        written = numeral(number, _NUMBER_STYLES.get(style[1], "1"))
        return f"({written}) " if style[2] == "ParenBoth" else f"{written}{_NUMBER_ENDS.get(style[2], '')} "


def _text(paragraph: Any) -> str:
    """Return the text of a paragraph, raised and lowered parts written as such, without tiny ones."""
    text = ""
    for part in paragraph._p.xpath("*[not(self::a:pPr or self::a:endParaRPr or a:rPr[@sz < 200])]"):
        if part.tag.endswith("}m"):  # a formula
            text += linear_omml(Element("#root", children=[_tree(child) for child in part]))
            continue
        written = (part.text or "").replace("\v", "\n")
        shift = "".join(part.xpath("a:rPr/@baseline")).rstrip("%0")
        text += written if shift in ("", "-") else (lowered if shift.startswith("-") else raised)(text, written)
    return text


def _choose(slide: Any) -> None:
    """Put what a slide offers to new programs, such as formulas, in the place of what it has for old ones."""
    for either in [*slide.iter(_ALTERNATIVES)]:
        parent, choice = either.getparent(), either[0] if len(either) else ()
        at = parent.index(either)
        parent[at : at + 1] = [each for each in choice if not each.tag.endswith("}contentPart")]  # ink


def _leave_out_white(slide: Any) -> bool:
    """Take white text from a slide on which nothing has a colour that it could stand on. Return whether there was some."""
    white, layout = slide.element.xpath(f".//a:r[a:rPr/a:solidFill/*[{_WHITE}]]"), slide.slide_layout
    if not white or any(each.element.xpath(_BEHIND_TEXT) for each in (slide, layout, layout.slide_master)):
        return False
    for run in white:
        run.getparent().remove(run)
    return any((run.text or "").strip() for run in white)


def _tree(node: Any) -> Element:
    name = node.tag.rpartition("}")[2]
    value = next((text for key, text in node.attrib.items() if key.endswith("val")), "")
    texts = [node.text] if name == "t" and node.text else []
    return Element(name, value, [*texts, *(_tree(child) for child in node if isinstance(child.tag, str))])


def _diagrams(archive: Archive, slide: Any) -> list[list[str]]:
    """Return the texts of each diagram (SmartArt) and chart of a slide."""
    readers = {"diagramData": texts_in, "chart": texts_of_chart}
    return [
        readers[kind](archive, relation.target_partname.lstrip("/"))
        for relation in slide.part.rels.values()
        if not relation.is_external and (kind := relation.reltype.rpartition("/")[2]) in readers
    ]


def _position(shape: Any) -> tuple[int, int]:
    return (shape.top or 0) // _ROW_HEIGHT, shape.left or 0


def _has_picture(shapes: Iterable[Any]) -> bool:
    return any(hasattr(shape, "image") or (hasattr(shape, "shapes") and _has_picture(shape.shapes)) for shape in shapes)
