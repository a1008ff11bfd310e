"""Local files to send: search folders, name files, read JSON Lines as documents."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from chordwise.api.documents import FIELDS
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
_ID_NAMES = ("document_id", "doc_id", "id", "_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """A file to send. ``name``, as sent to the server, is relative to the searched folder, with ``/``."""

    path: Path
    name: str
    size: int

    @property
    def is_json_lines(self) -> bool:
        """Return whether each line is a document."""
        return self.name.lower().endswith((".jsonl", ".jsonl.gz"))

    def read(self) -> FilePart:
        """Read the file for sending. Raises InvalidInput."""
        with file_errors(self.path, "read"):
            content = self.path.read_bytes()
        media_type = _MEDIA_TYPES.get(self.path.suffix.lower(), "application/octet-stream")
        return FilePart(name=self.name, content=content, media_type=media_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """The result of a search for files. ``skipped_files``: the paths of files of unknown kind in folders."""

    files: tuple[FoundFile, ...] = ()
    skipped_files: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        """Return the number of skipped files."""
        return len(self.skipped_files)


def find_files(paths: Iterable[str | Path]) -> FileSearch:
    """Return every file named, and every file of a known kind below every folder named, in a stable order.

    Hidden files and folders are left out; links to folders, and to files outside the searched folder, are not followed.
    Raises InvalidInput for a missing path.
    """
    files: list[FoundFile] = []
    skipped: list[str] = []
    for path in map(Path, paths):
        if path.is_file():
            files.append(FoundFile(path=path, name=path.name, size=path.stat().st_size))
        elif path.is_dir():
            for file in _below(path):
                if file.is_json_lines or file.path.suffix.lower() in _MEDIA_TYPES:
                    files.append(file)
                else:
                    skipped.append(str(file.path))
        else:
            raise InvalidInput(f"there is no file or folder {path}")
    return FileSearch(files=tuple(files), skipped_files=tuple(skipped))


def _below(folder: Path) -> Iterator[FoundFile]:
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            leads_out = path.is_symlink() and not path.resolve().is_relative_to(root)
            if not name.startswith(".") and not leads_out and path.is_file():
                yield FoundFile(path=path, name=path.relative_to(folder).as_posix(), size=path.stat().st_size)


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
        raise InvalidInput(f"{path} cannot be read: {reason}") from error


def _refuse(sentence: str) -> None:
    raise InvalidInput(sentence)


def read_documents(
    path: Path, *, on_bad_line: Callable[[str], None] = _refuse, charset: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one document per line of a JSON Lines file in ``charset``, by default UTF-8.

    ``doc_id``, ``id`` and ``_id`` count as ``document_id``; unknown keys move into its metadata.
    For a line that is not a JSON object, ``on_bad_line`` gets a sentence; by default it raises InvalidInput.
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
