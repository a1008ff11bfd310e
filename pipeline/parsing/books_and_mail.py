"""Files that hold pages of HTML: EPUB books, mails and saved pages."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from urllib.parse import unquote

from pipeline.errors import EncryptedDocument, MalformedDocument, UndecodableText
from pipeline.parsing.assembly import Block, assemble, one_line
from pipeline.parsing.containers import Archive, office_archive, title_in, tree_of, what_it_is
from pipeline.parsing.encodings import decode
from pipeline.parsing.html import blocks_of_tree, decode_page, parse_html, withheld
from pipeline.parsing.html_tree import INLINE, Element, read_page
from pipeline.parsing.recognition import unread
from pipeline.records import Parsed

_CONTAINER, _RIGHTS = "META-INF/container.xml", ("META-INF/rights.xml", "META-INF/license.lcpl")
_EMPTY_TAG = re.compile(r"<(title|script|style|textarea|iframe)\b([^<>]*)/>", re.IGNORECASE)  # of XML only
_NOTE_LINK = re.compile(r"noteref|footnote-ref")
_BACK_LINK = re.compile(r"backlink|footnote-back")
_HEADERS = ("From", "To", "Cc", "Date")
_PAGES = ("text/html", "application/xhtml+xml")
_LONGEST_HEADER = 32_768  # characters; decoding takes quadratic time
_HEAD = 100  # bytes
_NAMES_SHOWN = 10
_CALENDAR = "text/calendar"
_EVENT = {
    "SUMMARY": "Event",
    "DTSTART": "Begins",
    "DTEND": "Ends",
    "LOCATION": "Location",
    "DESCRIPTION": "Description",
}
_FOLD, _ESCAPED = re.compile(r"\r?\n[ \t]"), re.compile(r"\\([nN,;\\])")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z)?)?")
_REMEDY = "save the book as PDF, whose pages can be recognised"
_DEEPEST_MAIL = 5  # mails attached to mails


def parse_epub(body: bytes) -> Parsed:
    """Return the chapters in reading order, without the book's navigation, with notes below the paragraph that calls
    them. Title: that of the book. Raises as `office_archive`."""
    with office_archive(body, "an EPUB book") as archive:
        parts = frozenset(archive.namelist())
        if any(part in parts for part in _RIGHTS):
            raise EncryptedDocument("the book is protected by a reading program; send a file without protection")
        files = tree_of(archive, _CONTAINER).named("rootfile") if _CONTAINER in parts else iter(())
        package = next((file.attributes.get("full-path", "") for file in files), "")
        if package not in parts:
            raise MalformedDocument(f"the file is not an EPUB book but {what_it_is(body)}")
        chapters: dict[str, Element] = {}
        unseen: list[Element] = []
        missing = 0
        for name in _chapters(archive, package):
            missing += name not in parts
            if name in parts and name not in chapters:
                text = ""
                with archive.beside(name):
                    text = decode_page(archive.read(name), None).text
                chapter = read_page(_EMPTY_TAG.sub(r"<\1\2></\1>", text), keeps_formatting=True)
                chapters[name] = chapter.root
                unseen += chapter.unseen
        _place_notes(chapters)
        root = Element("#root", children=[*chapters.values()])
        warnings = withheld(unseen) + archive.warnings
        if missing:
            warnings.append(f"{missing} chapters are missing in the file")
        pictures = [at for at, chapter in enumerate(chapters.values(), start=1) if at > 1 and _is_picture(chapter)]
        if pictures:  # beside the cover
            warnings.append(unread(pictures, len(chapters), _REMEDY, what="chapter"))
        return assemble(blocks_of_tree(root), title=title_in(archive, package), warnings=warnings)


def _chapters(archive: Archive, root: str) -> Iterator[str]:
    """Yield the parts of a book in the order in which they are read, without its navigation."""
    package = tree_of(archive, root)
    items = (each.attributes for each in package.named("item"))
    files = {item.get("id"): item.get("href", "") for item in items if "nav" not in item.get("properties", "").split()}
    for reference in package.named("itemref"):
        if (file := files.get(reference.attributes.get("idref"))) is not None:
            yield posixpath.normpath(posixpath.join(posixpath.dirname(root), unquote(file)))


def _is_picture(chapter: Element) -> bool:
    return not any(map(str.strip, _words(chapter))) and any(chapter.named("img", "image"))


def _place_notes(chapters: Mapping[str, Element]) -> None:
    """Move each note below the paragraph that calls it first."""
    named: dict[tuple[str, str], Element] = {}
    calls: list[tuple[str, Element, Element]] = []  # chapter, link, and the paragraph around it
    for chapter, root in chapters.items():
        waiting = [(root, root)]
        while waiting:
            element, around = waiting.pop()
            around = around if element.tag in INLINE else element
            if element.source:
                attributes = element.attributes
                named.setdefault((chapter, attributes.get("id", "")), element)
                if element.tag == "a" and _NOTE_LINK.search(_kind(element)):
                    calls.append((chapter, element, around))
            waiting += [(child, around) for child in reversed([*element.elements()])]
    found = [(link, around, named.get(_target(chapter, link))) for chapter, link, around in calls]
    notes = [note for _, _, note in found if note is not None]
    within = {id(each) for note in notes for each in (note, *note.descendants())}
    for link, around, note in found:
        mark = one_line(*_words(link)).strip("[]()")
        if note is not None and note.children and mark and id(link) not in within:
            text = one_line(*_words(note)).removeprefix(mark).lstrip(".)] ")
            link.children, note.children = [f"[{mark}]"], []
            around.children.append(Element("p", children=[f"[{mark}] {text}"]))


def _target(chapter: str, link: Element) -> tuple[str, str]:
    file, _, fragment = link.attributes.get("href", "").partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(chapter), unquote(file))) if file else chapter, fragment


def _kind(element: Element) -> str:
    return " ".join(element.attributes.get(name, "") for name in ("epub:type", "role", "class"))


def _words(element: Element) -> Iterator[str]:
    for child in element.children:
        if isinstance(child, str):
            yield child
        elif not (child.tag == "a" and _BACK_LINK.search(_kind(child))):
            yield from _words(child)


def parse_mhtml(body: bytes) -> Parsed:
    """Return a page that a browser saved in one file, as `parse_html`. Raises MalformedDocument."""
    page = next((part for part, _ in _leaves(message_from_bytes(body)) if part.get_content_type() in _PAGES), None)
    if page is None:
        raise MalformedDocument("the file holds no page of HTML")
    return parse_html(_payload(page), page.get_content_charset())


def parse_eml(body: bytes) -> Parsed:
    """Return a mail: its subject as heading, sender, receivers and date as lines, its text (of HTML, if it has both), and
    texts, pages and mails attached to it. Other attachments are named in a warning."""
    mail = _Mail()
    body = decode(body).encode() if b"\0" in body[:_HEAD] else body  # a mail that was saved as UTF-16
    blocks = [*mail.blocks(message_from_bytes(body))]
    warnings = withheld(mail.unseen)
    if mail.attached:
        names = ", ".join(mail.attached[:_NAMES_SHOWN]) + (", …" if len(mail.attached) > _NAMES_SHOWN else "")
        warnings.append(f"attachments were not read ({len(mail.attached)}): {names}")
    return assemble(blocks, title=mail.title, warnings=warnings)


class _Mail:
    def __init__(self) -> None:
        self.title: str | None = None
        self.attached: list[str] = []
        self.unseen: list[Element] = []

    def blocks(self, message: Message, *, level: int = 1) -> Iterator[Block]:
        """Yield a mail, under a heading."""
        parts = [*_leaves(message)]
        subject = _header(message, "Subject")
        self.title = self.title or subject or None
        yield Block(text=subject, level=level)
        headers = ((name, _header(message, name)) for name in _HEADERS)
        yield Block(text="\n".join(f"{name}: {text}" for name, text in headers if text))
        for part, is_inline in parts:
            inner = part.get_payload(0) if part.is_multipart() else None
            if isinstance(inner, Message) and level < _DEEPEST_MAIL:
                yield from self.blocks(inner, level=level + 1)
            elif not is_inline:
                yield from self._text(part)

    def _text(self, part: Message) -> list[Block]:
        """Return the blocks of a part; note the name of one that is no text."""
        kind, name = part.get_content_type(), one_line(_header_of(part.get_filename() or ""))
        if kind in (*_PAGES, "text/plain"):
            with suppress(UndecodableText):
                decoded = decode_page(_payload(part), part.get_content_charset())
                named = [Block(text=name)] if part.get_content_disposition() == "attachment" else []
                if kind == "text/plain":
                    return [*named, Block(text=decoded.text)]
                page = read_page(decoded.text)
                self.unseen += page.unseen
                return [*named, *blocks_of_tree(page.root)]
        if kind == _CALENDAR:
            with suppress(UndecodableText):
                return [Block(text="\n".join(_event(decode(_payload(part), declared=part.get_content_charset()))))]
        self.attached.append(name or kind)
        return []


def _event(calendar: str) -> Iterator[str]:
    """Yield the time, the place and the words of the first event of an invitation."""
    named: dict[str, str] = {}
    _, _, event = calendar.partition("BEGIN:VEVENT")
    for line in _FOLD.sub("", event.partition("END:VEVENT")[0]).splitlines():
        name, _, value = line.partition(":")
        named.setdefault(name.partition(";")[0].upper(), value)
    for name, label in _EVENT.items():
        text = _ESCAPED.sub(lambda sign: "\n" if sign[1] in "nN" else sign[1], named.get(name, ""))
        if time := _TIME.fullmatch(text):
            text = f"{time[1]}-{time[2]}-{time[3]}" + (
                f" {time[4]}:{time[5]}{' UTC' * bool(time[6])}" if time[4] else ""
            )
        if text.strip():
            yield f"{label}: {text.strip()}"


def _leaves(message: Message, *, is_inline: bool = False) -> Iterator[tuple[Message, bool]]:
    """Yield the parts of a mail that have none themselves, of alternatives the richest that can be read, and whether
    each belongs to a page."""
    headers = (str(value) for name, value in message.raw_items() if name.lower().startswith("content-"))
    if any(len(header) > _LONGEST_HEADER for header in headers):
        raise MalformedDocument(f"a header of the mail has more than {_LONGEST_HEADER} characters")
    kind = message.get_content_type()
    parts = [part for part in message.get_payload() if isinstance(part, Message)] if message.is_multipart() else []
    if kind == "message/rfc822" or not parts:
        yield message, is_inline
        return
    if kind == "multipart/alternative":
        calendars = [part for part in parts if part.get_content_type() == _CALENDAR]
        readable = [part for part in parts if part.get_content_type() in (*_PAGES, "text/plain") or part.is_multipart()]
        parts = [*(readable[-1:] or parts[-1:]), *calendars]
    for part in parts:
        yield from _leaves(part, is_inline=kind == "multipart/related" and part.get_content_maintype() == "image")


def _payload(part: Message) -> bytes:
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _header(message: Message, name: str) -> str:
    return _header_of(next((str(value) for key, value in message.raw_items() if key.lower() == name.lower()), ""))


def _header_of(raw: str) -> str:
    """Return a header as it is read: with its encoded words, or bytes of any encoding, decoded."""
    try:
        pieces = decode_header(raw[:_LONGEST_HEADER])
    except (HeaderParseError, ValueError):
        pieces = [(raw, None)]
    texts = (
        decode(piece if isinstance(piece, bytes) else piece.encode("utf-8", "surrogateescape"), declared=charset)
        for piece, charset in pieces
    )
    return one_line("".join(texts))
