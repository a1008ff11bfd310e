"""PDF to text, page by page."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

import pypdfium2
import pypdfium2.raw

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument
from pipeline.parsing.assembly import Block, assemble, one_line
from pipeline.parsing.containers import what_it_is
from pipeline.parsing.recognition import DPI, MOST_PIXELS, SWITCHED_OFF, PageReader, UnreadPages, refusal, unread
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
_SOFT_HYPHEN = "\ufffe"  # pdfium's hyphen at a line's end, which joins it with the next; the cleaning removes it
_HYPHEN = re.compile("[\u00ad\u0002]$|(?<=[^\\W\\d_])-$")
_CJK = re.compile("[\u3000-\u9fff\uac00-\ud7af\uff00-\uffef]")
_FREE_TITLES = re.compile(r"untitled|microsoft word|.*\.(?:docx?|tex|dvi|indd|qxd|pages)$", re.IGNORECASE)


def parse_pdf(body: bytes, reader: PageReader | None = None) -> Parsed:
    """Return the text of every page, lines joined to paragraphs, hyphenated words joined. Headings come from the
    outline. Pages that hold only pictures are recognised by ``reader``, or named in a warning. Raises EncryptedDocument
    for a password, MalformedDocument, DocumentTooLarge, EmptyDocument if all are unread pictures."""
    document = open_pdf(body)
    try:
        if len(document) > _MOST_PAGES:
            raise DocumentTooLarge(f"the PDF file has {len(document)} pages; at most {_MOST_PAGES} are read")
        title = one_line(document.get_metadata_value("Title"))
        texts = [_text_of(document, index) for index in range(len(document))]
        pictures = [index for index, text in enumerate(texts) if text is None]
        flaw = _recognise(document, texts, pictures, reader) if pictures else None
        outline = _outline(document)
        blocks = (
            block for index, text in enumerate(texts) for block in _page(text or "", index + 1, outline.get(index, {}))
        )
        parsed = assemble(blocks, title=None if not title or _FREE_TITLES.match(title) else title)
    finally:
        document.close()
    if flaw is None:
        return parsed
    numbers = [index + 1 for index in pictures if texts[index] is None]
    warning = unread(numbers, len(texts), flaw.remedy)
    if not parsed.text:
        raise refusal(warning, is_limit=flaw.is_limit)
    return replace(parsed, encoding=Encoding(pages_warning=warning))


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


def _text_of(document: pypdfium2.PdfDocument, index: int) -> str | None:
    """Return the text of a page; None if it holds pictures and not one letter or digit."""
    try:
        page = document[index]
        try:
            text: str = page.get_textpage().get_text_range(errors="replace")
            if any(map(str.isalnum, text)):
                return text
            pictures = page.get_objects(filter=[pypdfium2.raw.FPDF_PAGEOBJ_IMAGE], max_depth=_MOST_FORMS)
            return text if next(iter(pictures), None) is None else None
        finally:
            page.close()
    except pypdfium2.PdfiumError:
        raise MalformedDocument(f"page {index + 1} of the PDF file is damaged") from None


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


def _page(text: str, number: int, headings: Mapping[str, int]) -> Iterator[Block]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    widths = sorted(len(part) for line in lines for part in line.split(_SOFT_HYPHEN) if part)
    width = widths[int(len(widths) * _USUAL_WIDTH)] if widths else 0
    paragraph, goes_on = "", False
    for line in lines:
        level = headings.get(_squeezed(line)) if headings else None
        if level is not None or not line or not goes_on or _LIST_ITEM.match(line):
            if paragraph:
                yield Block(text=paragraph, page=number)
            paragraph = ""
        if level is not None:
            yield Block(text=line, level=level, page=number)
            continue
        paragraph = _joined(paragraph, line)
        goes_on = width >= _JOINED_WIDTH and len(line.rpartition(_SOFT_HYPHEN)[2]) >= width * _FULL_LINE
        if line and not goes_on and width < _JOINED_WIDTH:
            paragraph, goes_on = paragraph + "\n", True
    if paragraph:
        yield Block(text=paragraph, page=number)


def _joined(paragraph: str, line: str) -> str:
    if not paragraph or paragraph.endswith("\n"):
        return paragraph + line
    if _HYPHEN.search(paragraph):
        is_soft = paragraph[-1] != "-" or line[:1].islower()
        return (paragraph[:-1] if is_soft else paragraph) + line
    return paragraph + line if _CJK.match(paragraph[-1]) and _CJK.match(line) else f"{paragraph} {line}"


def _squeezed(text: str) -> str:
    return "".join(text.split()).lower()
