"""PDF to text, page by page."""

import ctypes
import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice, pairwise

import numpy as np
import pypdfium2
import pypdfium2.raw

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument
from pipeline.parsing.assembly import Block, assemble, one_line, usable_title
from pipeline.parsing.containers import what_it_is
from pipeline.parsing.pdf.contents import PageText, Words, give_extent, rules_of, words_of
from pipeline.parsing.pdf.garbled import is_garbled
from pipeline.parsing.pdf.heads import body_size, heading_sizes, running_heads, without_browser_lines
from pipeline.parsing.pdf.layers import Layers
from pipeline.parsing.pdf.layout import reading_order
from pipeline.parsing.pdf.lines import (
    BREAK,
    CJK,
    NEW,
    SOFT,
    VALUE,
    Line,
    LinePart,
    joined,
    turned,
    unplaced,
    with_initials,
)
from pipeline.parsing.recognition import DPI, MOST_PIXELS, SWITCHED_OFF, PageReader, UnreadPages, refusal, unread
from pipeline.parsing.table_headers import are_alike, looks_like_header
from pipeline.parsing.tables import bar_blocks, named_rows, with_further_names
from pipeline.records import Encoding, Parsed

_SIGNATURE_WITHIN = 1024  # bytes; some programs write a few before it
_MOST_PAGES = 10_000
_CATALOG = re.compile(rb"(?<!\d)(\d{1,9}) 0 obj\s{0,9}<<[^<>]{0,1000}/Type\s{0,9}/Catalog")
_FOREIGN_FONT = re.compile(  # its letters are named by tables that every program has
    rb"/(?:Uni(?:GB|CNS|JIS|KS)-|GBK?-EUC-|GBK2K-|GBKp-|GBpc-|B5pc-|ETenms-|ETen-B5-|90ms-RKSJ-|KSCms-|KSC-EUC-)"
)
_MOST_BOOKMARKS = 10_000
_HEADING_LEVELS = 6
_POINTS_PER_INCH = 72
_MOST_OPEN, _MOST_TOGETHER = 8, 60_000  # pages, and their characters and drawings
_MOST_FORMS = 4  # depth of forms within forms in which pictures are looked for
_HYPHEN = re.compile("\u00ad$|(?<=[^\\W_])-$")
_OPEN_END = re.compile("(?<=\\S)[–/]$")  # a range or an address that goes on
_HYPHENATED = re.compile(r"(?<![^\W_])[^\W_]++-[^\W_]++")
_COMPOUND = re.compile(  # words that are written with a hyphen
    r"(?:well|self)-(?!ish|ness|ington|ing$)|non-(?!e|sense|ch)|so-called|re-e"
    r"|(?:all|full|half|high|long|low|one|part|real|short|two)-"
    r"(?:cost|day|density|end|energy|frequency|income|level|performance|power|pressure|quality|resolution|risk|speed|"
    r"temperature|term|time|voltage|way)|\w{3,}-(?:aware|based|driven|free|friendly|known|oriented|purpose|quality"
    r"|related|scale|specific|term|wide|year)s?$|.*-(?:and|by|of|in|the|to|up)-"
)
_LEAST_PART = 3  # letters of a part of a word that is looked up
_LAST_WORD, _FIRST_WORD = re.compile(r"(?<![^\W_])[^\W_]++$"), re.compile(r"[^\W_]++")
_NUMBER = re.compile(r"[\d.]+|第\w{1,4}[章节条]|[一二三四五六七八九十]{1,3}、|[(（]")
_LONGEST_HEADING = 200  # characters
_MOST_HEADING_LINES = 4
_NOTE_SIZE = 0.92  # times the size of most letters, below which that of notes is
_NOTE_MARK = re.compile(r"(?:\[?\d{1,3}[\].):]?|\^\d{1,3}|[*†‡§①-⑳])\s*\w")
_SENTENCE_END, _GOES_ON = re.compile(r"[.!?:。！？：；][\"'”’)）]?$"), re.compile(r"[^\W\d_A-Z]")
_TITLE_SIZE = 1.14  # times the size of most letters
_WIDER = 1.8  # times the distance of the rows above: the gap above another table
_LEADING_NUMBER = re.compile(r"^(?:[\d.]+|第\w{1,4}[章节])")
_PLACEHOLDER, _LONGEST_PLACEHOLDER = re.compile(r"please wait|adobe\.com/go/", re.IGNORECASE), 3000  # of an XFA form
_STAMP = 200  # characters; a page with fewer may be a picture with a stamp on it
_MOST_OF_PAGE = 0.5  # share of a page that pictures cover
_MOST_ANNOTATIONS = 2000  # of a page
_COMMENTS = frozenset(  # kinds of annotations
    getattr(pypdfium2.raw, f"FPDF_ANNOT_{kind}")
    for kind in "TEXT HIGHLIGHT UNDERLINE SQUIGGLY STRIKEOUT INK SQUARE CIRCLE LINE POLYGON POLYLINE CARET".split()  # noqa: SIM905
)
_LONGEST_VALUE = 64 * 1024  # bytes of a form field
_FIELD_LINE = 12.0  # points: the usual height of a line in a form field
_MOST_NAMED = 20  # pages in a warning


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
        if document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
            document.init_forms()
        pages = _pages_of(document, Layers(body), lacks_fonts=_FOREIGN_FONT.search(body) is not None)
        _refuse_placeholder(document, pages)
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
                pages[index].lines = unplaced((texts[index] or "").splitlines())
        warnings = _refuse_unreadable(pages)
        if unseen := sum(page.unseen for page in pages):
            warnings.append(
                f"{unseen} words that the pages do not show (white, tiny, beyond the edge or on a layer that is off) "
                "were left out"
            )
        title = usable_title(document.get_metadata_value("Title")) or _largest(pages)
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
        if catalog := _CATALOG.search(body):  # of a file without its end
            whole = body if b"/Encrypt" in body else body[: body.rfind(b"endobj") + len(b"endobj")]
            with suppress(pypdfium2.PdfiumError):
                return pypdfium2.PdfDocument(whole + b"\ntrailer\n<< /Root %s 0 R >>\n" % catalog[1])
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
    """A page as lines in reading order. ``is_picture``: a picture covers it, and it has hardly any words of its own.
    ``unseen``: how many words it does not show."""

    lines: list[Line]
    covered: bool = False
    unseen: int = 0
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


def _pages_of(document: pypdfium2.PdfDocument, layers: Layers, *, lacks_fonts: bool) -> list[_Page]:
    """Return the pages. Some are open together: they share their fonts, and the steps of reading words."""
    pages: list[_Page] = []
    opened: list[PageText] = []
    unseen: list[int] = []  # words of layers, by page
    for number in range(1, len(document) + 1):
        try:
            page = document[number - 1]
            unseen.append(layers.leave_out(page))
            if lacks_fonts:
                give_extent(page)
            opened.append(PageText(page))
            size = sum(each.size for each in opened)
            if len(opened) < _MOST_OPEN and size < _MOST_TOGETHER and number < len(document):
                continue
            for text, words in zip(opened, words_of(opened), strict=True):
                number = len(pages) + 1
                pages.append(_page_of(document, text.page, words))
                pages[-1].unseen += unseen[number - 1]
                text.page.close()
            opened = []
        except pypdfium2.PdfiumError:
            raise MalformedDocument(f"page {number} of the PDF file is damaged") from None
    return pages


def _page_of(document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage, words: Words) -> _Page:
    placed = words.runs
    turns = sorted(placed, key=lambda turn: -sum([len(segment.text) for segment in placed[turn]])) or [0]
    comments: list[str] = []
    fields = list(_annotations(document, page, turns[0], comments))
    fields = _beside_labels(fields, placed.get(turns[0], [])) if fields else []
    rules = rules_of(page, words.places)
    lines: list[Line] = []
    for turn in turns:
        segments = with_initials(without_browser_lines(placed.get(turn, [])))
        segments += fields if turn == turns[0] else []
        read = reading_order(segments, np.stack(turned(rules.T, turn), axis=1))
        lines += read if turn == turns[0] else [line._replace(size=0.0) for line in read]  # no headings
    lines += unplaced(words.aslant)
    if comments:
        written = _squeezed("".join(line.text for line in lines))
        for comment in comments:  # programs also copy the marked text
            lines += unplaced([f"[Comment] {comment}"] if _squeezed(comment) not in written else [])
    few = sum(len(line.text) for line in lines) < _STAMP
    has_words = any(any(map(str.isalnum, line.text)) for line in lines)
    return _Page(lines, covered=few and _is_covered(page, has_words=has_words), unseen=words.unseen)


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


def _annotations(
    document: pypdfium2.PdfDocument, page: pypdfium2.PdfPage, turn: int, comments: list[str]
) -> Iterator[LinePart]:
    """Yield the values of filled form fields and the text that annotations write on a page, turned by quarters; add those
    of notes and marked places to ``comments``."""
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
            elif kind == raw.FPDF_ANNOT_FREETEXT or kind in _COMMENTS:
                text = _string(partial(raw.FPDFAnnot_GetStringValue, annotation, b"Contents"))
            else:
                continue
            if kind in _COMMENTS:
                comments += filter(None, [one_line(text)])
                continue
            box = raw.FS_RECTF()
            is_placed = raw.FPDFAnnot_GetRect(annotation, box)
            if text.strip() and is_placed and math.isfinite(box.left + box.right + box.bottom + box.top):
                text = one_line(text)
                left, bottom, right, top = turned((box.left, box.bottom, box.right, box.top), turn)
                yield LinePart(text, left, right, bottom, top, max(1.0, top - bottom), words=((left, right, text),))
        finally:
            raw.FPDFPage_CloseAnnot(annotation)


def _beside_labels(fields: Iterable[LinePart], labels: Iterable[LinePart]) -> list[LinePart]:
    """Return form fields at the height of the text beside them, which is less than that of their boxes. The text nearest
    to the middle of a box of one line counts, or nearest to the first line of a higher box."""
    lines = sorted(((label.bottom + label.top) / 2, label.bottom, label.top) for label in labels)
    found = []
    for box in fields:
        line = min(box.top - box.bottom, 2 * _FIELD_LINE)
        place = bisect_left(lines, (box.top - line / 2, 0.0, 0.0))
        near = [each for each in lines[max(0, place - 1) : place + 1] if box.bottom <= each[0] <= box.top]
        if near:
            _, bottom, top = min(near, key=lambda each: abs(each[0] - box.top + line / 2))
            box = box._replace(bottom=bottom, top=top, height=max(1.0, top - bottom))
        found.append(box)
    return found


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


def _refuse_placeholder(document: pypdfium2.PdfDocument, pages: Sequence[_Page]) -> None:
    """Raise MalformedDocument for a form that only some programs show, with a page of text that says so."""
    raw = pypdfium2.raw
    if document.get_formtype() in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND):
        text = " ".join(line.text for page in pages for line in page.lines)
        if len(text) < _LONGEST_PLACEHOLDER and _PLACEHOLDER.search(text):
            raise MalformedDocument("the PDF file is an XFA form, which few programs show; print it to a new PDF file")


def _refuse_unreadable(pages: Sequence[_Page]) -> list[str]:
    """Return a warning that names the pages whose letters have no meaning. Raises MalformedDocument if they are all."""
    texts = [" ".join(line.text for line in page.lines) for page in pages]
    garbled = [index + 1 for index, text in enumerate(texts) if is_garbled(text)]
    if not garbled:
        return []
    reason = "letters without meaning, because the fonts of the file do not say which characters they show"
    if len(garbled) == sum(1 for text in texts if text.strip()):
        raise MalformedDocument(f"the PDF file holds {reason}; print it to a new PDF file or recognise its pages")
    shown = ", ".join(map(str, garbled[:_MOST_NAMED])) + (" …" if len(garbled) > _MOST_NAMED else "")
    return [f"pages {shown} hold {reason}" if len(garbled) > 1 else f"page {shown} holds {reason}"]


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


def _largest(pages: Sequence[_Page]) -> str | None:
    """Return the largest text of the first page, if it stands out as a title does."""
    body = body_size([page.lines for page in pages])
    lines = [line for line in pages[0].lines if not line.cells] if pages else []
    size = max((line.size for line in lines if sum(map(str.isalpha, line.text)) > 2), default=0.0)
    if not body or size < _TITLE_SIZE * body:
        return None
    first = next(index for index, line in enumerate(lines) if line.size == size)
    level = _Headings({}, [size]).level(lines[first:])
    return one_line(*(line.text for line in lines[first : first + level[1]])) if level else None


def _blocks(pages: Sequence[_Page], outline: Mapping[int, Mapping[str, int]]) -> Iterator[Block]:
    _rejoin_rows(pages)
    lines_of_pages = [page.lines for page in pages]
    sizes = [] if outline else heading_sizes(lines_of_pages, body_size(lines_of_pages))
    hyphens, tables, notes = _Hyphens(pages), _Tables(), list[Block]()
    begins = _notes_within_sentences(lines_of_pages)
    for index, (lines, begin) in enumerate(zip(lines_of_pages, begins, strict=True)):
        headings = _Headings(outline.get(index, {}), sizes)
        tables.begin_page(lines[:begin])
        blocks = _page(lines[:begin], index + 1, headings, hyphens, tables)
        yield from islice(blocks, bool(notes))
        yield from notes
        yield from blocks
        notes = list(_page(lines[begin:], index + 1, headings, hyphens, tables))


def _notes_within_sentences(pages: Sequence[Sequence[Line]]) -> list[int]:
    """Return for each page the index of the first line of the notes at its end that stand between a sentence and its end
    on the next page; the number of its lines if there are none."""
    small = _NOTE_SIZE * body_size(pages)
    begins = [len(lines) for lines in pages]
    for page, (lines, after) in enumerate(pairwise(pages)):
        first = next((at for at in range(len(lines), 0, -1) if not 0 < lines[at - 1].size < small), 0)
        is_note = 0 < first < len(lines) and _NOTE_MARK.match(lines[first].text) is not None
        is_open = is_note and not (lines[first - 1].cells or _SENTENCE_END.search(lines[first - 1].text))
        if is_open and after and after[0].size >= small and _GOES_ON.match(after[0].text) and not after[0].cells:
            begins[page] = first
    return begins


class _Tables:
    """Writes tables. One that goes on at the top of a page has the header of the one at the end of the page before."""

    def __init__(self) -> None:
        self._header: Sequence[tuple[str, ...]] = ()
        self._at_top = False
        self._is_open = False  # whether the page ends with a table

    def begin_page(self, lines: Sequence[Line]) -> None:
        if not self._is_open:
            self._header = ()
        self._at_top = bool(lines) and bool(lines[0].cells)
        self._is_open = bool(lines) and bool(lines[-1].cells)

    def blocks(self, rows: Sequence[tuple[str, ...]], page: int) -> Iterator[Block]:
        if len(rows[0]) == 1:
            self._header = ()
            yield Block(text="\n".join(line for (line,) in rows), page=page, is_code=True)
            return
        while len(rows) > 2 and not any(rows[0][1:]):  # a title within the table
            yield Block(text=rows[0][0], page=page)
            rows = rows[1:]
        depth = int(bool(named_rows(rows)) and not any(map(are_alike, rows[0], rows[1])))
        if self._at_top and not depth and self._header and len(rows[0]) == len(self._header[0]):
            rows, depth = [*self._header, *rows], len(self._header)
        self._at_top = False
        self._header = rows[: with_further_names(rows, depth)]
        yield from bar_blocks(rows, header_rows=depth, page=page)


def _rejoin_rows(pages: Sequence[_Page]) -> None:
    """Give the end of a table's row that stands alone at the top of a page, in one cell, to the row on the page before."""
    for before, page in pairwise(pages):
        if not (before.lines and page.lines):
            continue
        header = page.lines[0].cells
        top = int(bool(header) and any(line.cells == header for line in before.lines))  # below a repeated header
        if top == len(page.lines):
            continue
        last, first = before.lines[-1], page.lines[top]
        filled = [at for at, cell in enumerate(first.cells) if cell]
        if len(filled) == 1 and filled[0] and len(last.cells) == len(first.cells) and last.cells[filled[0]]:
            at = filled[0]
            cells = (*last.cells[:at], joined([last.cells[at], first.cells[at]]), *last.cells[at + 1 :])
            before.lines[-1] = last._replace(text=" ".join(cells), cells=cells)
            page.lines = [*page.lines[:top], *page.lines[top + 1 :]]


@dataclass(frozen=True, slots=True)
class _Headings:
    """Which lines of a page are headings: those of the outline, in one line or several; without one large lines."""

    outline: Mapping[str, int]
    sizes: Sequence[float]

    def level(self, lines: Sequence[Line]) -> tuple[int, int] | None:
        """Return the level of the heading with which the lines begin, and of how many lines it consists."""
        if self.outline:
            key = ""
            for count, line in enumerate(lines[:_MOST_HEADING_LINES], start=1):
                key += _squeezed(line.text)
                name = _LEADING_NUMBER.sub("", key)
                level = self.outline.get(key, self.outline.get(name))
                if level is not None:
                    return level, count
                if not any(known.startswith((key, name)) for known in self.outline):
                    break
            return None
        first, size = lines[0], lines[0].size
        if size not in self.sizes or len(first.text) > _LONGEST_HEADING or not any(map(str.isalpha, first.text)):
            return None
        count = 1
        while (
            count < min(len(lines), _MOST_HEADING_LINES)
            and lines[count].size == size
            and lines[count].follows != NEW
            and not _NUMBER.match(lines[count].text)
        ):
            count += 1
        return self.sizes.index(size) + 1, count


class _Hyphens:
    """Decides whether a hyphen at a line's end belongs to the word.

    It does if the document writes the word so elsewhere, or has both parts as words but not the whole; if a digit or a
    capital follows; if a part is one letter, as in X-ray; and if the whole is built like well-known."""

    def __init__(self, pages: Sequence[_Page]) -> None:
        self._pages = pages

    @cached_property
    def _words(self) -> frozenset[str]:
        lines = (line.text.partition(" ")[2].rpartition(" ")[0] for page in self._pages for line in page.lines)
        text = " ".join({*" ".join(lines).lower().split()})  # without words at the ends of lines
        return frozenset((*_HYPHENATED.findall(text), *_FIRST_WORD.findall(text)))

    def stays(self, left: str, right: str) -> bool:
        """Return whether the hyphen between two parts stays."""
        if right[:1].isdigit() or right[:1].isupper() or left[-1:].isdigit():
            return True
        ends, begins = _LAST_WORD.search(left.rpartition(" ")[2]), _FIRST_WORD.match(right)
        if ends is None or begins is None:
            return False
        first, second = ends[0].lower(), begins[0].lower()
        if f"{first}-{second}" in self._words or min(len(first), len(second)) == 1:
            return True
        if first + second in self._words:
            return False
        known = min(len(first), len(second)) >= _LEAST_PART and {first, second} <= self._words
        return known or _COMPOUND.match(f"{left.rpartition(' ')[2].lower()}-{second}") is not None


def _page(
    lines: Sequence[Line], number: int, headings: _Headings, hyphens: _Hyphens, tables: _Tables
) -> Iterator[Block]:
    paragraph, rows, index = "", list[tuple[str, ...]](), 0
    while index < len(lines):
        line = lines[index]
        may_be = not line.cells and (headings.outline or line.size in headings.sizes)
        heading = headings.level(lines[index : index + _MOST_HEADING_LINES]) if may_be else None
        if paragraph and (heading or line.cells or line.follows == NEW):
            yield Block(text=paragraph, page=number)
            paragraph = ""
        if rows and (len(line.cells) != len(rows[0]) or _begins_table(lines[max(0, index - 3) : index + 2])):
            yield from tables.blocks(rows, number)
            rows = []
        if heading:
            level, count = heading
            yield Block(text=one_line(*(each.text for each in lines[index : index + count])), level=level, page=number)
            index += count
            continue
        if line.cells:
            rows.append(tuple(cell.replace(SOFT, "-") for cell in line.cells))
        else:
            paragraph = _joined(paragraph + "\n" * (line.follows == BREAK and bool(paragraph)), line.text, hyphens)
        index += 1
    if rows:
        yield from tables.blocks(rows, number)
    if paragraph:
        yield Block(text=paragraph, page=number)


def _begins_table(lines: Sequence[Line]) -> bool:
    """Return whether the last but one of these rows names columns above values, below a gap wider than those of the rows
    above it."""
    if len(lines) < 4 or len({len(line.cells) for line in lines}) > 1:
        return False
    *above, names, below = lines
    tops = [line.top for line in (*above, names)]
    *pitches, gap = [one - other for one, other in pairwise(tops)]
    is_named = all(names.cells) and looks_like_header(names.cells) and not any(map(VALUE.match, names.cells))
    return gap > _WIDER * max(pitches) > 0 and is_named and any(map(VALUE.match, below.cells))


def _joined(paragraph: str, line: str, hyphens: _Hyphens) -> str:
    if not paragraph or paragraph.endswith("\n"):
        return paragraph + line
    end = paragraph[-2:]
    if end[-1].isascii() and end[-1] not in "-/":
        return f"{paragraph} {line}"
    if _HYPHEN.search(end):
        stays = hyphens.stays(paragraph[:-1], line) or (paragraph[-1] == "-" and not line[:1].islower())
        return paragraph[:-1] + "-" * stays + line
    is_close = (CJK.match(end[-1]) and CJK.match(line)) or _OPEN_END.search(end)
    return paragraph + line if is_close else f"{paragraph} {line}"


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()
