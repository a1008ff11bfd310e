"""Local files to send: search folders, read JSON Lines as documents."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from chordwise.api.documents import FIELDS
from chordwise.api.file_names import LocalFile, id_of, names_of, sendable
from chordwise.errors import InvalidInput, file_errors
from chordwise.transport import FilePart

T = TypeVar("T")

MAX_FILES = 200  # per request
MAX_BYTES = 16_000_000  # per request, of JSON or of file contents

_MEDIA_TYPES = {
    ".txt": "text/plain",
    ".text": "text/plain",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".html": "text/html",
    ".htm": "text/html",
    ".pdf": "application/pdf",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".ndjson": "application/x-ndjson",
    ".json": "application/json",
}
# Kinds that the server knows by their suffix, beside those above. A test compares both with the server's.
_OTHER_KINDS = frozenset(
    f".{name}"
    for name in (  # noqa: SIM905 - a list of a hundred is easier to read in a row
        "docm dotx dotm xlsm xltx xltm pptm ppsx ppsm potx xhtml odt ott ods ots odp otp xls xlt xlsb rtf epub eml mht "
        "mhtml ipynb mdx mkd rmd qmd geojson "
        "adoc asciidoc ass bat bib c cc cfg cjs clj conf cpp cs css cxx dart diff env ex exs fs go gradle "
        "graphql groovy h hh hpp hs hxx ics ini java jl js json5 jsonc jsx kt kts less log lrc lua m mjs mts "
        "org pas patch php pl plist po properties proto ps1 psm1 py pyi r rb rs rst scala scss sh sql srt ssa "
        "sub svelte swift tex tf toml ts tsx vb vcf vtt vue xml xsd xsl yaml yml zsh"
    ).split()
)
_LOOKED_AT = 4096  # bytes of a file without a suffix
_LONGEST_ID = 64  # characters
_ID_NAMES = ("document_id", "doc_id", "id", "_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to send. ``name``, as sent to the server, is relative to the searched folder, with ``/``; if files of
    several folders have one name, it begins with the folder's own."""

    path: Path
    name: str
    size: int

    @property
    def is_json_lines(self) -> bool:
        """Return whether each line is a document."""
        return self.name.lower().endswith((".jsonl", ".jsonl.gz"))

    def read(self) -> FilePart:
        """Read the file for sending. Raises InvalidInput."""
        with file_errors(sendable(str(self.path)), "read"):
            content = self.path.read_bytes()
        media_type = _MEDIA_TYPES.get(self.path.suffix.lower(), "application/octet-stream")
        return self.name, content, media_type


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A file or a folder that is not sent. ``reason``: the end of a sentence, such as ``is a link to nothing``."""

    path: str
    reason: str


OTHER_KIND = "is of another kind"
_UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """The result of a search for files. ``left_out``: files of other kinds in folders, links, and unreadable files.
    ``renamed``: the names that files are sent under, by the name that several of them have, or that is not UTF-8."""

    files: tuple[FoundFile, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def skipped_files(self) -> tuple[str, ...]:
        """Return the paths of files of other kinds."""
        return tuple(each.path for each in self.left_out if each.reason == OTHER_KIND)

    @property
    def skipped(self) -> int:
        """Return the number of files of other kinds."""
        return len(self.skipped_files)

    @property
    def unreadable(self) -> tuple[str, ...]:
        """Return the paths of files and folders that may not be read."""
        return tuple(each.path for each in self.left_out if each.reason == _UNREADABLE)


def find_files(paths: Iterable[FoundFile | str | Path], *, of_every_kind: bool = False) -> FileSearch:
    """Return every file named, and every file of a known kind below every folder named, in a stable order, each once.

    Files without a suffix count as known if they look like text; with ``of_every_kind`` all do. Hidden files and folders
    are left out. Links to folders, and to files outside the searched folder, are not followed. Files of one name in
    several folders get the names of these folders in front, the same ones in every order of ``paths``. A `FoundFile`
    keeps its name. Raises InvalidInput for a missing path.
    """
    named: list[FoundFile] = []
    found: list[LocalFile] = []
    left_out: list[LeftOut] = []
    for path in paths:
        if isinstance(path, FoundFile):
            named.append(path)
        elif (path := Path(path)).is_dir():
            for each in _below(path):
                if isinstance(each, LeftOut):
                    left_out.append(each)
                elif of_every_kind or _is_known(each.path):
                    found.append(each)
                else:
                    left_out.append(LeftOut(path=sendable(str(each.path)), reason=OTHER_KIND))
        elif path.is_file():
            found.append(LocalFile(path=path, root=path.parent))
        else:
            raise InvalidInput(f"there is no file or folder {sendable(str(path))}")
    names, renamed = names_of(found)
    once = dict.fromkeys(each for each in found if each in names)
    files = [FoundFile(path=each.path, name=names[each], size=each.path.stat().st_size) for each in once]
    return FileSearch(files=(*named, *files), left_out=tuple(left_out), renamed=renamed)


def _is_known(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix:
        return suffix in _MEDIA_TYPES or suffix in _OTHER_KINDS or path.name.lower().endswith((".jsonl", ".jsonl.gz"))
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_AT)
    except OSError:
        return True  # named when it is read


def _below(folder: Path) -> Iterator[LocalFile | LeftOut]:
    """Yield the files below a folder, and what is left out there for another reason than its kind or a hidden name."""
    root = folder.resolve()
    unreadable: list[LeftOut] = []

    def note(error: OSError) -> None:
        unreadable.append(LeftOut(path=sendable(str(error.filename)), reason=_UNREADABLE))

    for parent, folders, names in os.walk(folder, onerror=note):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in [*folders, *sorted(name for name in names if not name.startswith("."))]:
            path = Path(parent, name)
            reason = _reason_to_leave(path, root)
            if reason:
                yield LeftOut(path=sendable(str(path)), reason=reason)
            elif name not in folders:
                yield LocalFile(path=path, root=folder)
    yield from unreadable


def _reason_to_leave(path: Path, root: Path) -> str | None:
    if path.is_symlink():
        if not path.exists():
            return "is a link to nothing"
        if path.is_dir():
            return "is a link to a folder"
        if not path.resolve().is_relative_to(root):
            return "is a link to a file outside the folder"
    if path.is_dir():
        return None
    if path.name.startswith("~$"):
        return "belongs to a document that is open in an Office program"
    if not path.is_file():
        return "is no regular file"
    return None if os.access(path, os.R_OK) else _UNREADABLE


def grouped(items: Iterable[T], size: Callable[[T], int], *, at_most: int, max_bytes: int) -> Iterator[list[T]]:
    """Split into consecutive groups of up to ``at_most`` items and ``max_bytes``; a larger item is a group of its own."""
    group: list[T] = []
    filled = 0
    for item in items:
        item_bytes = size(item)
        if group and (len(group) == at_most or filled + item_bytes > max_bytes):
            yield group
            group, filled = [], 0
        group.append(item)
        filled += item_bytes
    if group:
        yield group


def file_batches(files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    """Yield the files of each request."""
    return grouped(files, lambda file: file.size, at_most=MAX_FILES, max_bytes=MAX_BYTES)


def read_lines(path: Path, *, charset: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file, plain or gzipped, that are not blank, with their numbers. ``charset``: its encoding,
    by default UTF-8. Raises InvalidInput."""
    open_text = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(path, "rt", encoding=charset or "utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, EOFError, LookupError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, UnicodeDecodeError):
            reason = f"it is not {charset}" if charset else "it is not UTF-8; name its encoding with --charset"
        raise InvalidInput(f"{sendable(str(path))} cannot be read: {reason}") from error


def _refuse(sentence: str) -> None:
    raise InvalidInput(sentence)


def read_documents(
    path: Path, *, name: str = "", on_bad_line: Callable[[str], None] = _refuse, charset: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one document per line of a JSON Lines file in ``charset``, by default UTF-8.

    ``doc_id``, ``id`` and ``_id`` count as ``document_id``; unknown keys move into its metadata. A line without an id gets
    ``name`` and its number, ``notes.jsonl#3``, if there is a ``name``: sent again, it is the same document.
    For a line that is not a JSON object, ``on_bad_line`` gets a sentence; by default it raises InvalidInput.
    """
    for number, line in read_lines(path, charset=charset):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            document = as_document(value)
            if name and document.get("document_id") in (None, ""):
                document["document_id"] = _id_of_line(name, number)
            yield document
        else:
            on_bad_line(f"{sendable(str(path))}:{number} is not a JSON object")


def _id_of_line(name: str, number: int) -> str:
    """Return the id that the server gives to a line without one if it gets the file as it is; a long one ends in its hash."""
    document_id = id_of(f"{name}#{number}")
    if len(document_id) <= _LONGEST_ID:
        return document_id
    tail = "~" + hashlib.sha256(document_id.encode()).hexdigest()[:16]
    return document_id[: _LONGEST_ID - len(tail)].rstrip() + tail


def as_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Convert one line of a file to a document with the server's field names (see ``read_documents``)."""
    document = {name: value for name, value in entry.items() if name in FIELDS}
    value = next((entry[name] for name in _ID_NAMES if entry.get(name) not in (None, "")), None)
    if value is not None:
        document["document_id"] = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    others = {name: value for name, value in entry.items() if name not in FIELDS and name not in _ID_NAMES}
    metadata = document.get("metadata", {})
    if others and isinstance(metadata, dict):
        document["metadata"] = {**others, **metadata}
    return document
