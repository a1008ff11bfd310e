"""Archives of namespaces on a disk: a folder with a manifest and parts, or the same as one tar file.

The manifest names every part with its size and SHA-256, and carries a checksum over itself. It is written anew after
each part, so an export that was killed can be resumed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chordwise.errors import InvalidInput, file_errors

FORMAT_VERSION = 1
SINGLE_FILE = ".chordwise"  # the suffix of an archive that is one file
_MANIFEST = "manifest.json"
_UNFINISHED = ".partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEntry:
    """A part as the manifest lists it. ``cursor``: where an export resumes at it; null for the first.

    ``without_vector``: chunks that will be embedded on import, because the store had no fitting vector for them.
    """

    number: int
    name: str
    bytes: int
    sha256: str
    documents: int
    chunks: int
    vectors: int
    without_vector: int
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The contents of an archive. ``complete``: it holds every document; else ``next_cursor`` is where the export resumes."""

    archive_id: str
    namespace: str
    created_at: str
    parts: tuple[PartEntry, ...] = ()
    complete: bool = False
    next_cursor: str | None = None
    model: str = ""
    dimension: int = 0
    distance: str = ""

    @property
    def documents(self) -> int:
        """Return the number of documents in all parts."""
        return sum(part.documents for part in self.parts)

    @property
    def chunks(self) -> int:
        """Return the number of chunks in all parts."""
        return sum(part.chunks for part in self.parts)

    def to_json(self) -> bytes:
        """Encode the manifest as a file."""
        contents = {
            "format": "chordwise-archive",
            "version": FORMAT_VERSION,
            **asdict(self),
            "documents": self.documents,
            "chunks": self.chunks,
            "vectors": sum(part.vectors for part in self.parts),
        }
        return json.dumps({**contents, "sha256": _checksum(contents)}, ensure_ascii=False, indent=1).encode()


def new_manifest(namespace: str) -> Manifest:
    """Return the manifest of a new archive."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Manifest(archive_id=str(uuid.uuid4()), namespace=namespace, created_at=now)


def read_manifest(content: bytes, name: str) -> Manifest:
    """Parse the manifest of this file name. Raises InvalidInput if it is not one, has another version, or is damaged."""
    try:
        contents = json.loads(content)
    except ValueError:
        contents = None
    if not isinstance(contents, dict) or contents.get("format") != "chordwise-archive":
        raise InvalidInput(f"{name} is not the manifest of a Chordwise archive")
    if contents.get("version") != FORMAT_VERSION:
        raise InvalidInput(f"{name} is of version {contents.get('version')}; this program reads {FORMAT_VERSION}")
    if contents.pop("sha256", None) != _checksum(contents):
        raise InvalidInput(f"{name} is damaged: its checksum does not match")
    try:
        parts = tuple(PartEntry(**{key: entry[key] for key in PartEntry.__slots__}) for entry in contents["parts"])
        values: dict[str, Any] = {key: contents[key] for key in Manifest.__slots__ if key in contents}
        manifest = Manifest(**{**values, "parts": parts})
    except (KeyError, TypeError):
        raise InvalidInput(f"{name} lacks a required field") from None
    if any(part.name != _name(number) for number, part in enumerate(parts, start=1)):
        raise InvalidInput(f"{name} lists files that are not parts of an archive")
    return manifest


def _name(number: int) -> str:
    return f"part-{number:05d}.zip"


def _checksum(contents: Mapping[str, Any]) -> str:
    plain = json.dumps(contents, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


class ArchiveWriter:
    """An archive under export, written part by part. Opening an unfinished one resumes it."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Open or resume. Raises InvalidInput for a file, a folder with other contents, or an archive of another namespace."""
        self._path = path
        self._single = path.suffix == SINGLE_FILE
        self._folder = path.with_name(path.name + _UNFINISHED) if self._single else path
        if self._single and path.exists() and not self._folder.exists():
            raise InvalidInput(f"{path} exists already; move it away, or name another file")
        if self._folder.exists() and not self._folder.is_dir():
            raise InvalidInput(f"{self._folder} is a file; name a folder, or a file that ends in {SINGLE_FILE}")
        self.manifest = self._resumed(namespace) or new_manifest(namespace)

    def _resumed(self, namespace: str) -> Manifest | None:
        """Return the manifest of an unfinished archive up to its first damaged part; None for a new archive."""
        path = self._folder / _MANIFEST
        if not path.exists():
            if self._folder.is_dir() and any(entry.suffix != ".tmp" for entry in self._folder.iterdir()):
                raise InvalidInput(f"{self._folder} has other contents; name a new or an empty folder")
            return None
        manifest = read_manifest(_content(path) or b"", str(path))
        if manifest.namespace != namespace:
            raise InvalidInput(f"{self._folder} holds namespace {manifest.namespace}, not {namespace}")
        for index, part in enumerate(manifest.parts):
            if _damage(part, _content(self._folder / part.name)):  # export again from here
                return replace(manifest, parts=manifest.parts[:index], complete=False, next_cursor=part.cursor)
        return manifest

    def add(self, content: bytes, counts: Mapping[str, int], following: str | None) -> None:
        """Write a part and then the manifest that lists it. ``following``: the cursor of the next part, None after the last."""
        self._folder.mkdir(parents=True, exist_ok=True)
        number = len(self.manifest.parts) + 1
        part = PartEntry(
            number=number,
            name=_name(number),
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            cursor=self.manifest.next_cursor,
            **{name: int(counts.get(name, 0)) for name in ("documents", "chunks", "vectors", "without_vector")},
        )
        _write(self._folder / part.name, content)
        self.manifest = replace(
            self.manifest,
            parts=(*self.manifest.parts, part),
            complete=following is None,
            next_cursor=following,
            **_embedding_space(content),
        )
        _write(self._folder / _MANIFEST, self.manifest.to_json())

    def finish(self) -> None:
        """Pack the folder into one file if the path asks for one. May be repeated after an interruption."""
        if not self._single:
            return
        unfinished = self._path.with_name(self._path.name + ".tmp")
        with tarfile.open(unfinished, "w") as single:
            for name in (_MANIFEST, *(part.name for part in self.manifest.parts)):
                single.add(self._folder / name, arcname=name, filter=_anonymous)
        os.replace(unfinished, self._path)
        shutil.rmtree(self._folder)


class ArchiveReader:
    """A complete archive on disk. A tar file is read in place, never unpacked."""

    def __init__(self, path: Path) -> None:
        """Open an archive. Raises InvalidInput if it is not one, damaged, or incomplete."""
        self._path = path
        try:
            self._single = None if path.is_dir() else tarfile.open(path, "r:")  # noqa: SIM115 - closed by close()
        except (OSError, tarfile.TarError) as error:
            raise InvalidInput(f"{path} cannot be read as an archive ({error})") from None
        self.manifest = read_manifest(self._content(_MANIFEST) or b"", f"{path}/{_MANIFEST}")
        if not self.manifest.complete:
            raise InvalidInput(f"{path} is not complete: its export was interrupted; run chordwise export again")

    def verify(self) -> None:
        """Compare every part with the manifest. Raises InvalidInput naming the first damaged one."""
        for part in self.manifest.parts:
            self.part(part)

    def part(self, part: PartEntry) -> bytes:
        """Return the content of a part. Raises InvalidInput if it differs from the manifest."""
        content = self._content(part.name)
        damage = _damage(part, content)
        if damage or content is None:
            raise InvalidInput(f"{self._path}: {part.name} is damaged: {damage}")
        return content

    def close(self) -> None:
        """Close the file."""
        if self._single is not None:
            self._single.close()

    def _content(self, name: str) -> bytes | None:
        if self._single is None:
            return _content(self._path / name)
        try:
            entry = self._single.extractfile(name)
            return None if entry is None else entry.read()
        except (KeyError, OSError, tarfile.TarError):
            return None


def counts_of(header: str) -> dict[str, int]:
    """Parse ``documents=1, chunks=2`` into a mapping; malformed pairs are skipped."""
    pairs = (pair.strip().partition("=") for pair in header.split(","))
    return {name: int(value) for name, _, value in pairs if value.isascii() and value.isdigit()}


def _damage(part: PartEntry, content: bytes | None) -> str | None:
    if content is None:
        return "it is not there"
    if len(content) != part.bytes:
        return f"it has {len(content)} bytes, and the manifest says {part.bytes}"
    sha256 = hashlib.sha256(content).hexdigest()
    return None if sha256 == part.sha256 else f"its SHA-256 is {sha256}, and the manifest says {part.sha256}"


def _embedding_space(content: bytes) -> dict[str, Any]:
    """Read model, dimension and distance from the header of a part."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as part:
            header = json.loads(part.read("header.json"))
        return {name: kind(header[name]) for name, kind in (("model", str), ("dimension", int), ("distance", str))}
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError):
        return {}


def _content(path: Path) -> bytes | None:
    with file_errors(path, "read"), suppress(FileNotFoundError):
        return path.read_bytes()
    return None


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, also across a power failure."""
    unfinished = path.with_name(path.name + ".tmp")
    with file_errors(path, "written"):
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove owner, times and modes from a tar entry."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o644
    return entry


def missing(parts: Sequence[PartEntry], arrived: Mapping[int, str]) -> list[PartEntry]:
    """Return the parts still to be sent. Raises InvalidInput if another part of the same number arrived before."""
    for part in parts:
        if arrived.get(part.number, part.sha256) != part.sha256:
            raise InvalidInput(f"another {part.name} of this archive was imported before; use --again to send them all")
    return [part for part in parts if part.number not in arrived]
