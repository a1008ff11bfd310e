"""Files on their way to the server: which of a folder are taken, what they are called, and JSON Lines as documents."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from chordwise.api.documents import FIELDS
from chordwise.errors import InvalidInput
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
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".ndjson": "application/x-ndjson",
    ".json": "application/json",
}
_ID_NAMES = ("document_id", "doc_id", "id", "_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to send. ``name`` is what the server is told: relative to the folder it was found in, with ``/``."""

    path: Path
    name: str
    size: int

    @property
    def is_json_lines(self) -> bool:
        """Whether its lines are documents of their own."""
        return self.name.lower().endswith((".jsonl", ".jsonl.gz"))

    def read(self) -> FilePart:
        """Its content, ready to be sent. Raises InvalidInput."""
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{self.path} cannot be read: {error.strerror}") from error
        media_type = _MEDIA_TYPES.get(self.path.suffix.lower(), "application/octet-stream")
        return FilePart(name=self.name, content=content, media_type=media_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The files that were found. ``skipped_files``: the paths of files in folders whose kind is not known."""

    files: tuple[FoundFile, ...] = ()
    skipped_files: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        """How many files were skipped."""
        return len(self.skipped_files)


def find_files(paths: Iterable[str | Path]) -> Found:
    """Every file named, and every file of a known kind below every folder named, in a stable order.

    Hidden files and folders are left out; links to folders are not followed, nor links to files outside of the folder
    that is searched. Raises InvalidInput for what is not there.
    """
    files: list[FoundFile] = []
    skipped: list[str] = []
    for path in map(Path, paths):
        if path.is_file():
            files.append(FoundFile(path=path, name=path.name, size=path.stat().st_size))
        elif path.is_dir():
            for found in _below(path):
                if found.is_json_lines or found.path.suffix.lower() in _MEDIA_TYPES:
                    files.append(found)
                else:
                    skipped.append(str(found.path))
        else:
            raise InvalidInput(f"there is no file or folder {path}")
    return Found(files=tuple(files), skipped_files=tuple(skipped))


def _below(folder: Path) -> Iterator[FoundFile]:
    inside = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            leads_out = path.is_symlink() and not path.resolve().is_relative_to(inside)
            if not name.startswith(".") and not leads_out and path.is_file():
                yield FoundFile(path=path, name=path.relative_to(folder).as_posix(), size=path.stat().st_size)


def grouped(things: Iterable[T], size: Callable[[T], int], *, at_most: int, max_bytes: int) -> Iterator[list[T]]:
    """Cut into runs, in order, of up to ``at_most`` things and ``max_bytes``; a larger thing travels alone."""
    group: list[T] = []
    filled = 0
    for thing in things:
        room = size(thing)
        if group and (len(group) == at_most or filled + room > max_bytes):
            yield group
            group, filled = [], 0
        group.append(thing)
        filled += room
    if group:
        yield group


def file_batches(files: Iterable[FoundFile]) -> Iterator[list[FoundFile]]:
    """The files of each request."""
    return grouped(files, lambda found: found.size, at_most=MAX_FILES, max_bytes=MAX_BYTES)


def read_lines(path: Path, *, charset: str | None = None) -> Iterator[tuple[int, str]]:
    """The lines of a text file, also a gzipped one, that are not blank, with their numbers. ``charset``: its encoding, by
    default UTF-8. Raises InvalidInput."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding=charset or "utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, EOFError, LookupError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, UnicodeDecodeError):
            reason = f"it is not {charset}" if charset else "it is not UTF-8; name its encoding with --charset"
        raise InvalidInput(f"{path} cannot be read: {reason}") from error


def _refuse(sentence: str) -> None:
    raise InvalidInput(sentence)


def read_documents(
    path: Path, *, on_bad_line: Callable[[str], None] = _refuse, charset: str | None = None
) -> Iterator[dict[str, Any]]:
    """One document per line of a JSON Lines file in ``charset``, by default UTF-8.

    ``doc_id``, ``id`` and ``_id`` are taken for ``document_id``; keys that no document has move into its metadata.
    A line that is not a JSON object is handed to ``on_bad_line`` as a sentence, which by default raises InvalidInput.
    """
    for number, line in read_lines(path, charset=charset):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            yield as_document(value)
        else:
            on_bad_line(f"{path}:{number} is not a JSON object")


def as_document(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A document from one line of a file, in the server's words (see ``read_documents``)."""
    document = {name: value for name, value in entry.items() if name in FIELDS}
    named = next((name for name in _ID_NAMES if entry.get(name) not in (None, "")), None)
    if named:
        value = entry[named]
        document["document_id"] = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    others = {name: value for name, value in entry.items() if name not in FIELDS and name not in _ID_NAMES}
    metadata = document.get("metadata", {})
    if others and isinstance(metadata, dict):
        document["metadata"] = {**others, **metadata}
    return document
