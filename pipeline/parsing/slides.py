"""PowerPoint presentations to text, slide by slide."""

import io
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from pptx import Presentation
from pptx.exc import PythonPptxError

from pipeline.errors import DocumentTooLarge, MalformedDocument
from pipeline.parsing.assembly import LONGEST_TEXT, Block, assemble, one_line
from pipeline.parsing.containers import office_archive
from pipeline.parsing.recognition import refusal, unread
from pipeline.records import Encoding, Parsed

_BODY = "ppt/presentation.xml"
_MOST_SLIDES = 2_000
_MOST_NESTED = 20  # groups within groups
_ROW_HEIGHT = 228_600  # EMU, a quarter of an inch: shapes whose tops differ by less are beside each other
_FREE_TITLES = frozenset({"powerpoint presentation", "presentation", "untitled"})  # of presentations without a title
_REMEDY = "save the slides as PDF, whose pages can be recognised"


def parse_pptx(body: bytes) -> Parsed:
    """Return every shown slide as a page: its title as heading, then text, tables and groups from top to bottom and
    left to right, then its notes. The title is that of the properties, else the first heading. Text in pictures,
    SmartArt and charts (but for their titles) is not read. Raises MalformedDocument, EncryptedDocument,
    DocumentTooLarge, EmptyDocument."""
    with office_archive(body, "a PowerPoint presentation") as archive:
        if _BODY not in archive.namelist():
            raise MalformedDocument("the archive holds no PowerPoint presentation")
    try:
        presentation = Presentation(io.BytesIO(body))
        slides = [slide for slide in presentation.slides if slide.element.get("show", "1") not in ("0", "false")]
        if len(slides) > _MOST_SLIDES:
            raise DocumentTooLarge(f"the presentation has {len(slides)} slides; at most {_MOST_SLIDES} are read")
        numbers = {slide.slide_id: number for number, slide in enumerate(presentation.slides, start=1)}
        reading = _Reading()
        blocks = [block for slide in slides for block in reading.blocks(slide, numbers[slide.slide_id])]
        title = one_line(presentation.core_properties.title or "")
    except (PythonPptxError, SyntaxError, KeyError, ValueError, AttributeError, IndexError, TypeError) as error:
        raise MalformedDocument(f"the presentation is damaged ({type(error).__name__})") from None
    warning = unread(reading.unread, len(numbers), _REMEDY, what="slide") if reading.unread else None
    parsed = assemble(blocks, title=None if title.lower() in _FREE_TITLES else title)
    if warning and not parsed.text:
        raise refusal(warning, is_limit=False)
    return replace(parsed, encoding=Encoding(pages_warning=warning)) if warning else parsed


class _Reading:
    """Reads slides, and notes which hold only pictures."""

    def __init__(self) -> None:
        self.unread: list[int] = []
        self._characters = 0

    def blocks(self, slide: Any, number: int) -> list[Block]:
        """Return the text of a slide."""
        title = slide.shapes.title
        heading = one_line(title.text_frame.text) if title is not None and title.has_text_frame else ""
        shown = [block for block in self._shapes(slide.shapes, without=title) if block.text.strip()]
        if heading:
            shown.insert(0, Block(text=heading, level=1))
        if not shown and _has_picture(slide.shapes):
            self.unread.append(number)
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame):
            shown += [replace(block, mark="notes") for block in self._paragraphs(notes)]
        return [replace(block, page=number) for block in shown]

    def _shapes(self, shapes: Iterable[Any], *, without: Any = None, depth: int = 0) -> Iterator[Block]:
        if depth > _MOST_NESTED:
            raise MalformedDocument("the presentation is nested too deeply")
        left_out = None if without is None else without.shape_id
        for shape in sorted(shapes, key=_position):
            if left_out is not None and shape.shape_id == left_out:
                continue
            if hasattr(shape, "shapes"):
                yield from self._shapes(shape.shapes, depth=depth + 1)
            elif getattr(shape, "has_table", False):
                yield from self._table(shape.table)
            elif getattr(shape, "has_chart", False):
                if shape.chart.has_title and shape.chart.chart_title.has_text_frame:
                    yield from self._paragraphs(shape.chart.chart_title.text_frame)
            elif shape.has_text_frame:
                yield from self._paragraphs(shape.text_frame)

    def _paragraphs(self, frame: Any) -> Iterator[Block]:
        """Yield the paragraphs of a shape as lines that belong together, indented ones as list items."""
        is_first = True
        for paragraph in frame.paragraphs:
            text = paragraph.text.replace("\v", "\n").strip()
            if text:
                self._count(text)
                yield Block(text=f"- {text}" if paragraph.level else text, tight=not is_first)
                is_first = False

    def _table(self, table: Any) -> Iterator[Block]:
        is_first = True
        for row in table.rows:
            cells = [one_line(cell.text) for cell in row.cells if not cell.is_spanned]
            if any(cells):
                line = " | ".join(cells)
                self._count(line)
                yield Block(text=line, tight=not is_first)
                is_first = False

    def _count(self, text: str) -> None:
        self._characters += len(text)
        if self._characters > LONGEST_TEXT:
            raise DocumentTooLarge(f"the document holds more than {LONGEST_TEXT} characters")


def _position(shape: Any) -> tuple[int, int]:
    return (shape.top or 0) // _ROW_HEIGHT, shape.left or 0


def _has_picture(shapes: Iterable[Any]) -> bool:
    return any(hasattr(shape, "image") or (hasattr(shape, "shapes") and _has_picture(shape.shapes)) for shape in shapes)
