"""Recognise files by their first bytes, and open the ZIP archives of Office documents."""

import io
import posixpath
import stat
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TypeVar
from xml.parsers import expat

from pipeline.errors import DocumentTooLarge, EncryptedDocument, MalformedDocument, UnsupportedMediaType
from pipeline.parsing.binary_records import Reader, replay
from pipeline.parsing.html_tree import Element
from pipeline.parsing.number_formats import shown_value

_SIGNATURES = (
    (b"%PDF-", "a PDF file"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document"),
    (b"MZ\x90\0", "a Windows program"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"GIF8", "a GIF image"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"{\\rtf", "an RTF document"),
)
_OLD_OFFICE = b"\xd0\xcf\x11\xe0"
# The part of an old container that holds an encrypted new one.
_ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")
_ENCRYPTED_FLAG = 0x1
_FIRST_FILE, _JUNK = b"PK\x03\x04", 1024  # how archives begin, perhaps behind a few bytes of a transfer
_MOST_ENTRIES = 10_000
_MOST_UNPACKED = 256 * 1024 * 1024  # bytes, all entries together, as the archive's directory declares them
PROPERTIES = "docProps/core.xml"
_LARGEST_PART = 128 * 1024 * 1024  # bytes of XML, whose text is held in memory
_CONTROLS = bytes({*range(32)} - {9, 10, 13})  # that XML forbids and programs write; with zeros it is UTF-16
_READ_AT_ONCE = 64 * 1024  # bytes


_NAMES_SHOWN = 5
SOMETHING_ELSE = "something else"


class UnreadablePart(MalformedDocument):
    """A part of an archive cannot be read."""


class Archive(zipfile.ZipFile):
    """The archive of a document, with the names of the parts beside the main one that are damaged and left out."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._damaged: dict[str, None] = {}

    @contextmanager
    def beside(self, part: str) -> Iterator[None]:
        """Leave a part out from where it is damaged."""
        try:
            yield
        except (UnreadablePart, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
            self._damaged[part] = None

    @property
    def warnings(self) -> list[str]:
        """Return the warning about parts that were left out, if there are any."""
        names = ", ".join([*self._damaged][:_NAMES_SHOWN]) + (", …" if len(self._damaged) > _NAMES_SHOWN else "")
        return [f"damaged parts of the file were left out ({len(self._damaged)}): {names}"] if names else []


def what_it_is(body: bytes) -> str:
    """Return a few words that describe the actual format of a body, `SOMETHING_ELSE` for an unknown one."""
    return next((name for signature, name in _SIGNATURES if body.startswith(signature)), SOMETHING_ELSE)


@contextmanager
def office_archive(body: bytes, what: str) -> Iterator[Archive]:
    """Return an Office document's archive after checking its directory, which bounds the reading; nothing is unpacked
    to disk.

    Raises EncryptedDocument, UnsupportedMediaType for formats before 2007, DocumentTooLarge for a bomb, else
    MalformedDocument.
    """
    if body.startswith(_OLD_OFFICE):
        if _ENCRYPTED_STREAM in body:
            raise EncryptedDocument("the document is protected by a password")
        raise UnsupportedMediaType(
            "the document is of an Office format before 2007; save it as docx, xlsx, pptx or pdf"
        )
    if not body.startswith(b"PK") and _FIRST_FILE not in body[:_JUNK]:
        raise MalformedDocument(f"the file is not {what} but {what_it_is(body)}")
    try:
        with Archive(io.BytesIO(body)) as archive:
            _refuse_harmful(archive)
            for entry in archive.infolist():  # old programs for Windows write backslashes
                entry.filename = entry.filename.replace("\\", "/")
                archive.NameToInfo[entry.filename] = entry
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise MalformedDocument(
            f"the file is cut off or damaged: its archive cannot be read ({type(error).__name__})"
        ) from None
    except RuntimeError as error:
        if "password" in str(error) or "encrypted" in str(error):
            raise EncryptedDocument("the document is protected by a password") from None
        raise


def _refuse_harmful(archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    if len(entries) > _MOST_ENTRIES:
        raise DocumentTooLarge(f"the document's archive holds {len(entries)} files; at most {_MOST_ENTRIES} are read")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > _MOST_UNPACKED:
        raise DocumentTooLarge(
            f"the document unpacks to {unpacked // 2**20} MiB; at most {_MOST_UNPACKED // 2**20} MiB are read"
        )
    names = set()
    for entry in entries:
        name = entry.filename.replace("\\", "/")
        if entry.flag_bits & _ENCRYPTED_FLAG:
            raise EncryptedDocument("the document is protected by a password")
        if name.startswith("/") or ":" in name.split("/")[0] or ".." in name.split("/"):
            raise MalformedDocument("the document's archive holds a file whose name leads out of it")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise MalformedDocument("the document's archive holds a symbolic link")
        if name in names:
            raise MalformedDocument("the document's archive holds two files of one name")
        names.add(name)


_Record = TypeVar("_Record")


def copy_of(record: _Record) -> _Record:
    """Return a copy of a record without slots, at a tenth of the time of `dataclasses.replace`: readers make one for each
    element."""
    copied = object.__new__(type(record))
    copied.__dict__.update(record.__dict__)
    return copied


class XmlReader:
    """Read XML as a stream of calls for a subclass to override, without a tree or entities. Names come without
    namespace, so strict and transitional Office documents read alike."""

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        """Handle the start of an element."""

    def ended(self, name: str, /) -> None:
        """Handle the end of an element."""

    def text(self, text: str, /) -> None:
        """Handle characters between tags; a run of text may come in several pieces."""

    def read(self, archive: zipfile.ZipFile, part: str) -> None:
        """Read one part of the archive to its end. Raises MalformedDocument, or KeyError if it does not exist."""
        deque(pieces(archive, part, self), maxlen=0)

    def read_beside(self, archive: Archive, part: str) -> None:
        """Read a part beside the main ones, as far as it can be read."""
        with archive.beside(part):
            self.read(archive, part)


def pieces(archive: zipfile.ZipFile, part: str, reader: Reader, *, keeps_prefixes: bool = False) -> Iterator[None]:
    """Call a reader for one part of the archive, XML or records, and yield after each piece of it. Names come without
    namespace, or faster with their prefix. Raises MalformedDocument, DocumentTooLarge, or KeyError if the part does not
    exist."""
    if archive.getinfo(part).file_size > _LARGEST_PART:
        raise DocumentTooLarge(f"a part of the document unpacks to more than {_LARGEST_PART // 2**20} MiB")
    if part.endswith(".bin"):
        yield from replay(archive.read(part), reader)
        return
    parser = expat.ParserCreate(namespace_separator=None if keeps_prefixes else " ")
    parser.buffer_text = True
    parser.EntityDeclHandler = refuse_entities
    parser.CharacterDataHandler = reader.text
    if keeps_prefixes:
        parser.StartElementHandler, parser.EndElementHandler = reader.started, reader.ended
    else:
        parser.StartElementHandler = lambda name, attributes: reader.started(
            _local(name), {_local(key): value for key, value in attributes.items()} if attributes else {}
        )
        parser.EndElementHandler = lambda name: reader.ended(_local(name))
    with archive.open(part) as stream:
        try:
            while piece := stream.read(_READ_AT_ONCE):
                parser.Parse(piece if b"\0" in piece else piece.translate(None, _CONTROLS), False)
                yield
            parser.Parse(b"", True)
            yield
        except (expat.ExpatError, zipfile.BadZipFile, ValueError, LookupError) as error:
            raise UnreadablePart(f"a part of the document is damaged ({type(error).__name__})") from None


class _Tree(XmlReader):
    def __init__(self) -> None:
        self.root = Element("#root")
        self._open = [self.root]

    def started(self, name: str, attributes: dict[str, str], /) -> None:
        element = Element(name, attributes=attributes)
        self._open[-1].children.append(element)
        self._open.append(element)

    def ended(self, _name: str, /) -> None:
        self._open.pop()

    def text(self, text: str, /) -> None:
        self._open[-1].children.append(text)


def tree_of(archive: zipfile.ZipFile, part: str) -> Element:
    """Return the tree of a small part of the archive, its names without namespace. Raises as `XmlReader.read`."""
    tree = _Tree()
    tree.read(archive, part)
    return tree.root


def tree_beside(archive: Archive, part: str) -> Element:
    """Return the tree of a part beside the main ones, as far as it can be read."""
    tree = _Tree()
    tree.read_beside(archive, part)
    return tree.root


def title_in(archive: Archive, part: str = PROPERTIES) -> str:
    """Return the title in a document's properties, the first of several; empty if there is none."""
    titles = tree_beside(archive, part).named("title") if part in archive.namelist() else iter(())
    return next((title.text.strip() for title in titles), "")


def texts_in(archive: Archive, part: str, *, within: str = "#root") -> list[str]:
    """Return the texts of a drawing, one for each paragraph: of its diagram's points, or of the elements ``within``."""
    return _texts(tree_beside(archive, part), within)


def _texts(root: Element, within: str) -> list[str]:
    places = [root] if within == root.tag else root.named(within)
    texts = ("".join(text.text for text in each.named("t")).strip() for place in places for each in place.named("p"))
    return [text for text in texts if text]


_MOST_SERIES = 255  # of a chart, as in Excel


def texts_of_chart(archive: Archive, part: str) -> list[str]:
    """Return the titles of a chart and its figures, a row for each category with a column for each series."""
    root, rows = tree_beside(archive, part), dict[str, dict[str, str]]()
    names = dict[str, str]()
    for number, series in enumerate(islice(root.named("ser"), _MOST_SERIES)):
        points = {child.tag: _points(child) for child in series.elements()}
        names[str(number)] = next(iter(points.get("tx", {}).values()), "")
        categories = points.get("cat") or points.get("xVal") or {}
        for at, value in (points.get("val") or points.get("yVal") or {}).items():
            rows.setdefault(categories.get(at, at), {})[str(number)] = value
    lines = [" | ".join((name, *(row.get(each, "") for each in names))) for name, row in rows.items()]
    head = [" | ".join(("", *names.values())).rstrip()] if any(names.values()) and lines else []
    return [*_texts(root, "title"), *head, *lines]


def _points(place: Element) -> dict[str, str]:
    """Return the saved values of a chart's series, or of its names, as the chart shows them, by their numbers."""
    found: dict[str, str] = {}
    code = next((each.text for each in place.named("formatCode")), None)
    for point in place.named("pt"):
        text = " ".join(point.text.split())
        with suppress(ValueError):  # other texts stay as they are
            text = text if code is None else shown_value(text, code)
        found.setdefault(point.attributes.get("idx", ""), text)
    return found


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a part of an Office document to parts that exist: id, type and name of each."""

    links: tuple[tuple[str, str, str], ...]

    def of_kind(self, kind: str) -> list[str]:
        """Return the parts to which links of a type that ends in ``kind`` lead, each once."""
        return list(dict.fromkeys(part for _, name, part in self.links if name.endswith(kind)))

    def by_id(self, kind: str) -> dict[str, str]:
        """Return the parts of a kind by the ids of their links."""
        return {link: part for link, name, part in self.links if name.endswith(kind)}

    def target(self, link: str) -> tuple[str, str | None]:
        """Return the type and the part of a link; None for one that leads nowhere."""
        return next(((name, part) for id_, name, part in self.links if id_ == link), ("", None))


def linked_parts(archive: zipfile.ZipFile, part: str, parts: frozenset[str]) -> Links:
    """Return the links of a part; of the archive itself for an empty name."""
    folder, name = posixpath.split(part)
    links_part = posixpath.join(folder, "_rels", f"{name}.rels")
    if links_part not in parts:
        return Links(())
    relations = (each.attributes for each in tree_of(archive, links_part).named("Relationship"))
    named = (
        (
            link.get("Id", ""),
            link.get("Type", ""),
            posixpath.normpath(posixpath.join("/", folder, link.get("Target", ""))),
        )
        for link in relations
        if link.get("TargetMode", "Internal") == "Internal"
    )
    return Links(tuple((link, kind, target.lstrip("/")) for link, kind, target in named if target.lstrip("/") in parts))


def main_part(archive: zipfile.ZipFile, parts: frozenset[str]) -> str | None:
    """Return the part that holds the document itself, under whichever name a program gave it."""
    return next(iter(linked_parts(archive, "", parts).of_kind("/officeDocument")), None)


@lru_cache(maxsize=4096)  # a document has few names, and millions of elements
def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def refuse_entities(*_: object) -> None:
    """Raise MalformedDocument; a parser's ``EntityDeclHandler``."""
    raise MalformedDocument("the document declares XML entities, which no Office document needs")
