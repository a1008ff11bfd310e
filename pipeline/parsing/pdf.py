"""PDF to text, page by page."""

import ctypes
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

import pypdfium2
import pypdfium2.raw

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument
from pipeline.parsing.assembly import Block, assemble, one_line, usable_title
from pipeline.parsing.containers import what_it_is
from pipeline.parsing.pdf_layout import (
    Line,
    LinePart,
    beside,
    body_size,
    divided,
    heading_sizes,
    reading_order,
    running_heads,
    tidy,
)
from pipeline.parsing.recognition import DPI, MOST_PIXELS, SWITCHED_OFF, PageReader, UnreadPages, refusal, unread
from pipeline.parsing.tables import bar_blocks, looks_like_header
from pipeline.records import Encoding, Parsed

_SIGNATURE_WITHIN = 1024  # bytes; some programs write a few before it
_MOST_PAGES = 10_000
_MOST_BOOKMARKS = 10_000
_HEADING_LEVELS = 6
_POINTS_PER_INCH = 72
_MOST_FORMS = 4  # depth of forms within forms in which pictures are looked for
_JOINED_WIDTH = 40  # characters; a page of shorter lines is a table or a poem, and its lines stay lines
_FULL_LINE = 0.7  # share of the page's usual width from which a line continues in the next one
_USUAL_WIDTH = 0.9  # this share of the lines is not wider than the usual width
_LIST_ITEM = re.compile(r"(?:[-*•‣◦▪–]|\(?\d{1,3}[.)])\s")
_SOFT_HYPHEN = "\ufffe"  # pdfium's hyphen at a line's end, with which it joins the next line
_HYPHEN = re.compile("[\u00ad\u0002]$|(?<=[^\\W_])-$")
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]")
_SOFT = "\u00ad"  # a hyphen at a line's end, as `_HYPHEN` finds it
_LINE = re.compile("[^\n\ufffe]*[\n\ufffe]|[^\n\ufffe]+")
_HYPHENATED = re.compile(r"(?<![^\W_])[^\W_]++-[^\W_]++")
_LAST_WORD, _FIRST_WORD = re.compile(r"(?<![^\W_])[^\W_]++$"), re.compile(r"[^\W_]++")
_WORD = re.compile("[^ \t\r\n\ufffe]+")
_UPRIGHT = 0.05  # radians
_OTHER_SIZE = 0.12  # share by which the sizes of a heading and the text below it differ at least
_LONGEST_HEADING = 200  # characters
_STAMP = 200  # characters; a page with fewer may be a picture with a stamp on it
_MOST_OF_PAGE = 0.6  # share of a page that pictures cover
_MOST_ANNOTATIONS = 2000  # of a page
_LONGEST_VALUE = 64 * 1024  # bytes of a form field
_MOST_NAMED = 20  # pages in a warning
_ENOUGH_LETTERS, _ENOUGH_LATIN = 100, 300
_MOST_ODD = 0.25
_LEAST_VOWELS = 0.15  # share of Latin letters; languages have from 0.3
_ODD = re.compile("[\x00-\x1f\x7f-\x9f\u0180-\u019f\u01a2-\u01ae\u01b1-\u036f\ue000-\uf8ff\ufffd]")


def parse_pdf(body: bytes, reader: PageReader | None = None) -> Parsed:
    """Return the text of every page in reading order, lines joined to paragraphs, hyphenated words joined, without
    running heads, with the values of form fields and free text. Headings come from the outline, else from the size of
    lines. Pages that hold only pictures are recognised by ``reader``, or named in a warning, as are pages whose letters
    have no meaning. Raises EncryptedDocument for a password, MalformedDocument, DocumentTooLarge, EmptyDocument if all
    are unread pictures."""
    document = open_pdf(body)
    try:
        if len(document) > _MOST_PAGES:
            raise DocumentTooLarge(f"the PDF file has {len(document)} pages; at most {_MOST_PAGES} are read")
        title = usable_title(document.get_metadata_value("Title"))
        if document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
            document.init_forms()
        pages = [_page_of(document, index) for index in range(len(document))]
        outline = _outline(document)
        heads = running_heads([page.lines for page in pages])
        for index, (page, indices) in enumerate(zip(pages, heads, strict=True)):
            headings = outline.get(index, {})
            page.drop({at for at in indices if _squeezed(page.lines[at].text) not in headings})
        if any(page.is_picture for page in pages) and not any(page.has_words for page in pages):
            pages[0].restore()  # a stamp on every page is all that can be read
        pictures = [index for index, page in enumerate(pages) if page.is_picture]
        texts: list[str | None] = [None if index in pictures else "" for index in range(len(pages))]
        flaw = _recognise(document, texts, pictures, reader) if pictures else None
        for index in pictures:
            if texts[index] is not None:
                pages[index].lines = [Line(text=line) for line in _lines_of_text(texts[index] or "")]
        warnings = _refuse_unreadable(pages)
        parsed = assemble(_blocks(pages, outline), title=title, warnings=warnings)
    finally:
        document.close()
    if flaw is None:
        return parsed
    numbers = [index + 1 for index in pictures if texts[index] is None]
    warning = unread(numbers, len(texts), flaw.remedy)
    if not parsed.text:
        raise refusal(warning, is_limit=flaw.is_limit)
    return replace(parsed, encoding=Encoding(pages_warning="; ".join([warning, *warnings])))


def open_pdf(body: bytes) -> pypdfium2.PdfDocument:
    """Return the opened file, to be closed. Raises EncryptedDocument for a password, MalformedDocument."""
    if b"%PDF-" not in body[:_SIGNATURE_WITHIN]:
        raise MalformedDocument(f"the file is not a PDF file but {what_it_is(body)}")
    try:
        return pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        # The library may report the previous document's error, so its word alone is not enough.
        is_locked = error.err_code in (pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY)
        if is_locked and b"/Encrypt" in body:
            raise EncryptedDocument("the PDF file is protected by a password") from None
        raise MalformedDocument("the PDF file is cut off or damaged and cannot be opened") from None


def _outline(document: pypdfium2.PdfDocument) -> Mapping[int, Mapping[str, int]]:
    """Return the outline by page: each heading, without its spaces, and its level."""
    headings: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for bookmark in islice(document.get_toc(max_depth=_HEADING_LEVELS), _MOST_BOOKMARKS):
        destination = bookmark.get_dest()
        page = destination.get_index() if destination else None
        if page is not None and (name := _squeezed(bookmark.get_title())):
            headings[page].setdefault(name, min(bookmark.level + 1, _HEADING_LEVELS))
    return headings


@dataclass(slots=True)
class _Page:
    """A page as lines in reading order. ``is_picture``: a picture covers it, and it has hardly any words of its own."""

    lines: list[Line]
    covered: bool = False
    dropped: list[Line] = field(default_factory=list)

    @property
    def has_words(self) -> bool:
        return any(map(str.isalnum, "".join(line.text for line in self.lines)))

    @property
    def is_picture(self) -> bool:
        return self.covered and sum(len(line.text) for line in self.lines) < _STAMP

    def drop(self, indices: set[int]) -> None:
        """Leave out these lines."""
        self.dropped = [line for index, line in enumerate(self.lines) if index in indices]
        self.lines = [line for index, line in enumerate(self.lines) if index not in indices]

    def restore(self) -> None:
        """Take back the lines that were left out."""
        self.lines = self.dropped + self.lines


def _page_of(document: pypdfium2.PdfDocument, index: int) -> _Page:
    try:
        page = document[index]
        try:
            text_page = page.get_textpage()
            text: str = text_page.get_text_range(errors="replace")
            additions = list(_annotations(document, page))
            rows = _rows(text_page, text) if page.get_rotation() == 0 else None
            if rows is None:
                lines = [Line(text=tidy(line)) for line in _lines_of_text(text)]
                lines += [Line(text=added.text) for added in additions]
            else:
                lines = reading_order(beside(rows, additions) if additions else rows)
            few = sum(len(line.text) for line in lines) < _STAMP
            return _Page(lines, covered=few and _is_covered(page, has_words=any(map(str.isalnum, text))))
        finally:
            page.close()
    except pypdfium2.PdfiumError:
        raise MalformedDocument(f"page {index + 1} of the PDF file is damaged") from None


def _lines_of_text(text: str) -> list[str]:
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace(_SOFT_HYPHEN, f"{_SOFT}\n")
    return [line.rstrip() for line in text.split("\n")]


def _is_covered(page: pypdfium2.PdfPage, *, has_words: bool) -> bool:
    """Return whether pictures are all that a page without words holds, or cover most of one with a few."""
    width, height = page.get_size()
    covered = 0.0
    for picture in page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=_MOST_FORMS):
        if not has_words:
            return True
        left, bottom, right, top = map(float, picture.get_bounds())
        covered += max(0.0, right - left) * max(0.0, top - bottom)
    return bool(covered >= _MOST_OF_PAGE * width * height)


def _rows(text_page: pypdfium2.PdfTextPage, text: str) -> list[list[LinePart]] | None:
    """Return the lines of a page, divided at wide gaps; None where characters and places do not belong together, or
    where lines do not run from left to right."""
    count = text_page.count_chars()
    is_wide = len(text) != count
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2 if is_wide else count
    if units != count:
        return None
    rows: list[list[LinePart]] = []
    position = 0
    raw = text_page.raw
    for line in _LINE.findall(text):
        if line.strip("\r\n" + _SOFT_HYPHEN).strip():
            if pypdfium2.raw.FPDFText_GetCharAngle(raw, position) > _UPRIGHT:
                return None
            size = round(float(pypdfium2.raw.FPDFText_GetFontSize(raw, position + len(line) - len(line.lstrip()))), 1)
            words = [_segment(text_page, word, line, position, size, is_wide=is_wide) for word in _WORD.finditer(line)]
            if line.endswith(_SOFT_HYPHEN) and words:
                words[-1] = replace(words[-1], text=words[-1].text + _SOFT)
            rows.append(divided(words))
        position += len(line.encode("utf-16-le", "surrogatepass")) // 2 if is_wide else len(line)
    return rows


def _segment(
    text_page: pypdfium2.PdfTextPage, word: re.Match[str], line: str, position: int, size: float, *, is_wide: bool
) -> LinePart:
    def place(index: int) -> int:
        return position + (len(line[:index].encode("utf-16-le", "surrogatepass")) // 2 if is_wide else index)

    left, bottom, _, top = text_page.get_charbox(place(word.start()), loose=True)
    _, _, right, _ = text_page.get_charbox(place(word.end() - 1), loose=True)
    return LinePart(text=word[0], left=left, right=max(left, right), bottom=bottom, top=top, size=size)


def _annotations(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[LinePart]:
    """Yield the values of filled form fields and the text that annotations write on a page."""
    raw = pypdfium2.raw
    form = document.formenv.raw if document.formenv else None
    for index in range(min(raw.FPDFPage_GetAnnotCount(page.raw), _MOST_ANNOTATIONS)):
        annotation = raw.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            kind = raw.FPDFAnnot_GetSubtype(annotation)
            flags = raw.FPDFAnnot_GetFlags(annotation)
            if flags & (raw.FPDF_ANNOT_FLAG_HIDDEN | raw.FPDF_ANNOT_FLAG_NOVIEW):
                continue
            if kind == raw.FPDF_ANNOT_WIDGET and form is not None:
                text = _field_value(form, annotation)
            elif kind in (raw.FPDF_ANNOT_FREETEXT, raw.FPDF_ANNOT_TEXT):
                text = _string(partial(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            else:
                continue
            box = raw.FS_RECTF()
            if text.strip() and raw.FPDFAnnot_GetRect(annotation, box):
                yield LinePart(
                    text=one_line(text), left=box.left, right=box.right, bottom=box.bottom, top=box.top, size=0.0
                )
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _field_value(form: object, annotation: object) -> str:
    raw = pypdfium2.raw
    kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
    if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
        return "[x]" if raw.FPDFAnnot_IsChecked(form, annotation) else "[ ]"
    if kind in (raw.FPDF_FORMFIELD_TEXTFIELD, raw.FPDF_FORMFIELD_COMBOBOX, raw.FPDF_FORMFIELD_LISTBOX):
        return _string(partial(raw.FPDFAnnot_GetFormFieldValue, form, annotation))
    return ""


def _string(read: Callable[[object, int], int]) -> str:
    """Return the text that a function of the library writes into a buffer of UTF-16."""
    size = min(read(None, 0), _LONGEST_VALUE)
    if size <= 2:
        return ""
    buffer = ctypes.create_string_buffer(size)
    read(ctypes.cast(buffer, ctypes.POINTER(pypdfium2.raw.FPDF_WCHAR)), size)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")


def _refuse_unreadable(pages: Sequence[_Page]) -> list[str]:
    """Return a warning that names the pages whose letters have no meaning. Raises MalformedDocument if they are all."""
    texts = ["".join(line.text for line in page.lines) for page in pages]
    garbled = [index + 1 for index, text in enumerate(texts) if is_garbled(text)]
    if not garbled:
        return []
    reason = "letters without meaning, because the fonts of the file do not say which characters they show"
    if len(garbled) == sum(1 for text in texts if text.strip()):
        raise MalformedDocument(f"the PDF file holds {reason}; print it to a new PDF file or recognise its pages")
    shown = ", ".join(map(str, garbled[:_MOST_NAMED])) + (" …" if len(garbled) > _MOST_NAMED else "")
    return [f"pages {shown} hold {reason}" if len(garbled) > 1 else f"page {shown} holds {reason}"]


def is_garbled(text: str) -> bool:
    """Return whether a text consists of letters that no language puts beside each other: private and rare characters,
    or hardly any vowel."""
    letters = [character for character in text if not character.isspace()]
    if len(letters) < _ENOUGH_LETTERS:
        return False
    odd = sum(1 for character in letters if _ODD.match(character))
    if odd > _MOST_ODD * len(letters):
        return True
    latin = [character for character in letters if character.isascii() and character.isalpha()]
    vowels = sum(1 for character in latin if character.lower() in "aeiouy")
    return len(latin) > _ENOUGH_LATIN and len(latin) > 0.5 * len(letters) and vowels < _LEAST_VOWELS * len(latin)


def _recognise(
    document: pypdfium2.PdfDocument, texts: list[str | None], pictures: Sequence[int], reader: PageReader | None
) -> UnreadPages | None:
    """Put the recognised text of ``pictures`` into ``texts``; return the reason if one stays None."""
    if reader is None:
        return UnreadPages(SWITCHED_OFF)
    flaw = None
    try:
        reader.check(len(pictures))
    except UnreadPages as error:
        return error
    for index in pictures:
        try:
            texts[index] = _recognised(document[index], reader)
        except UnreadPages as error:
            flaw = error
        except pypdfium2.PdfiumError:
            raise MalformedDocument(f"page {index + 1} of the PDF file is damaged") from None
    return flaw


def _recognised(page: pypdfium2.PdfPage, reader: PageReader) -> str:
    width, height = page.get_size()
    scale = min(DPI / _POINTS_PER_INCH, (MOST_PIXELS / max(1.0, width * height)) ** 0.5)
    try:
        bitmap = page.render(scale=scale, grayscale=True)
        rows = memoryview(bitmap.buffer).cast("B")
        pixels = b"".join(rows[at : at + bitmap.width] for at in range(0, bitmap.stride * bitmap.height, bitmap.stride))
        size = {"width": bitmap.width, "height": bitmap.height}
        bitmap.close()
    finally:
        page.close()
    return reader.read(pixels, **size)


def _blocks(pages: Sequence[_Page], outline: Mapping[int, Mapping[str, int]]) -> Iterator[Block]:
    body = body_size([page.lines for page in pages])
    sizes = heading_sizes([page.lines for page in pages], body)
    hyphenated, tables = _Hyphens(pages), _Tables()
    for index, page in enumerate(pages):
        tables.begin_page(page.lines)
        yield from _page(
            page.lines, index + 1, outline.get(index, {}), _Sizes(sizes, has_outline=bool(outline)), hyphenated, tables
        )


class _Tables:
    """Writes tables. One that goes on at the top of a page has the header of the one at the end of the page before."""

    def __init__(self) -> None:
        self._header: tuple[str, ...] | None = None
        self._at_top = False
        self._is_open = False  # whether the page ends with a table

    def begin_page(self, lines: Sequence[Line]) -> None:
        if not self._is_open:
            self._header = None
        self._at_top = bool(lines) and bool(lines[0].cells)
        self._is_open = bool(lines) and bool(lines[-1].cells)

    def blocks(self, rows: Sequence[tuple[str, ...]], page: int) -> Iterator[Block]:
        is_headed = looks_like_header(rows[0])
        if self._at_top and not is_headed and self._header is not None and len(rows[0]) == len(self._header):
            rows, is_headed = [self._header, *rows], True
        self._at_top = False
        self._header = rows[0] if is_headed else None
        yield from bar_blocks(rows, header_rows=int(is_headed), page=page)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of headings, largest first. With an outline, large lines stand alone and are no headings."""

    sizes: Sequence[float]
    has_outline: bool

    def rank(self, line: Line) -> int | None:
        """Return the level of a line of a heading's size, from 1, or None."""
        size = round(line.size, 1)
        if not line.size or size not in self.sizes or len(line.text) > _LONGEST_HEADING or line.cells:
            return None
        return self.sizes.index(size) + 1 if any(map(str.isalpha, line.text)) else None


class _Hyphens:
    """Decides whether a hyphen at a line's end belongs to the word: the document writes it so elsewhere, or a digit or
    a capital follows."""

    def __init__(self, pages: Sequence[_Page]) -> None:
        words = (word for page in pages for line in page.lines for word in _HYPHENATED.findall(line.text))
        self._words = {word.lower() for word in words}

    def stays(self, left: str, right: str) -> bool:
        """Return whether the hyphen between two parts stays."""
        if right[:1].isdigit() or right[:1].isupper() or left[-1:].isdigit():
            return True
        first, second = _LAST_WORD.search(left), _FIRST_WORD.match(right)
        return first is not None and second is not None and f"{first[0]}-{second[0]}".lower() in self._words


def _page(
    lines: Sequence[Line],
    number: int,
    headings: Mapping[str, int],
    sizes: _Sizes,
    hyphens: _Hyphens,
    tables: _Tables,
) -> Iterator[Block]:
    widths = sorted(len(line.text) for line in lines if line.text and not line.cells)
    width = widths[int(len(widths) * _USUAL_WIDTH)] if widths else 0
    paragraph, goes_on, size = "", False, 0.0
    rows: list[tuple[str, ...]] = []
    heading: tuple[str, int] | None = None
    for line in (*lines, Line(text="")):
        text = line.text
        level = headings.get(_squeezed(line.text)) if headings else None
        rank = sizes.rank(line) if level is None else None
        if rank is not None and not sizes.has_outline:
            level = rank
        if heading is not None and (level != heading[1] or len(heading[0]) + len(text) > _LONGEST_HEADING or headings):
            yield Block(text=heading[0], level=heading[1], page=number)
            heading = None
        if rows and not line.cells:
            yield from tables.blocks(rows, number)
            rows = []
        differs = bool(size and line.size and abs(size - line.size) > _OTHER_SIZE * size)
        if level is not None or line.cells or not text or not goes_on or differs or _LIST_ITEM.match(text):
            if paragraph:
                yield Block(text=paragraph, page=number)
            paragraph = ""
        size = line.size
        if level is not None:
            heading = (f"{heading[0]} {text}", level) if heading else (text, level)
            continue
        if line.cells:
            rows.append(tuple(cell.replace(_SOFT, "-") for cell in line.cells))
            continue
        paragraph = _joined(paragraph, text, hyphens)
        goes_on = (width >= _JOINED_WIDTH and len(line.text) >= width * _FULL_LINE) or line.text.endswith(_SOFT)
        goes_on = goes_on and rank is None
        if text and not goes_on and width < _JOINED_WIDTH and rank is None:
            paragraph, goes_on = paragraph + "\n", True
    if paragraph:
        yield Block(text=paragraph, page=number)


def _joined(paragraph: str, line: str, hyphens: _Hyphens) -> str:
    if not paragraph or paragraph.endswith("\n"):
        return paragraph + line
    if _HYPHEN.search(paragraph):
        stays = hyphens.stays(paragraph[:-1], line) or (paragraph[-1] == "-" and not line[:1].islower())
        return paragraph[:-1] + "-" * stays + line
    return paragraph + line if _CJK.match(paragraph[-1]) and _CJK.match(line) else f"{paragraph} {line}"


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()
