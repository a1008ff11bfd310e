"""Archives of namespaces on a disk: a folder with a manifest and parts, or the same as one tar file.

The manifest names every part with its size and SHA-256, and carries a checksum over itself. It is written anew after
each part, so whatever a killed export leaves behind can be gone on with.
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
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chordwise.errors import InvalidInput

FORMAT_VERSION = 1
SINGLE_FILE = ".chordwise"  # the suffix of an archive that is one file
_MANIFEST = "manifest.json"
_UNFINISHED = ".partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEntry:
    """A part as the manifest names it. ``cursor``: where it begins, for an export that goes on; null for the first.

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
    """What is in an archive. ``complete``: every document is in it; else ``next_cursor`` says where it goes on."""

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
        """Documents of all parts."""
        return sum(part.documents for part in self.parts)

    @property
    def chunks(self) -> int:
        """Chunks of all parts."""
        return sum(part.chunks for part in self.parts)

    def to_json(self) -> bytes:
        """The manifest as a file."""
        told = {
            "format": "chordwise-archive",
            "version": FORMAT_VERSION,
            **asdict(self),
            "documents": self.documents,
            "chunks": self.chunks,
            "vectors": sum(part.vectors for part in self.parts),
        }
        return json.dumps({**told, "sha256": _checksum(told)}, ensure_ascii=False, indent=1).encode()


def new_manifest(namespace: str) -> Manifest:
    """The manifest of an archive that is being begun."""
    return Manifest(
        archive_id=str(uuid.uuid4()),
        namespace=namespace,
        created_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    )


def read_manifest(content: bytes, where: str) -> Manifest:
    """A manifest out of a file. Raises InvalidInput if it is none, of another version, or damaged."""
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict) or told.get("format") != "chordwise-archive":
        raise InvalidInput(f"{where} is not the manifest of a Chordwise archive")
    if told.get("version") != FORMAT_VERSION:
        raise InvalidInput(f"{where} is of version {told.get('version')}; this program reads {FORMAT_VERSION}")
    claimed = told.pop("sha256", None)
    if claimed != _checksum(told):
        raise InvalidInput(f"{where} is damaged: it does not have the checksum that it names")
    try:
        parts = tuple(PartEntry(**{name: each[name] for name in PartEntry.__slots__}) for each in told["parts"])
        known: dict[str, Any] = {name: told[name] for name in Manifest.__slots__ if name in told}
        found = Manifest(**{**known, "parts": parts})
    except (KeyError, TypeError):
        raise InvalidInput(f"{where} lacks something that every manifest has") from None
    if any(part.name != _name(number) for number, part in enumerate(parts, start=1)):
        raise InvalidInput(f"{where} names files that are no parts of an archive")
    return found


def _name(number: int) -> str:
    return f"part-{number:05d}.zip"


def _checksum(told: Mapping[str, Any]) -> str:
    plain = json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


class ArchiveWriter:
    """An archive that grows part by part. Opening one that was begun goes on with it."""

    def __init__(self, path: Path, namespace: str) -> None:
        """Raises InvalidInput for a file, a folder with something else in it, or an archive of another namespace."""
        self._path = path
        self._single = path.suffix == SINGLE_FILE
        self._folder = path.with_name(path.name + _UNFINISHED) if self._single else path
        if self._single and path.exists() and not self._folder.exists():
            raise InvalidInput(f"{path} is there already; move it away, or name another file")
        if self._folder.exists() and not self._folder.is_dir():
            raise InvalidInput(f"{self._folder} is a file; name a folder, or a file that ends in {SINGLE_FILE}")
        self.manifest = self._begun(namespace) or new_manifest(namespace)

    def _begun(self, namespace: str) -> Manifest | None:
        place = self._folder / _MANIFEST
        if not place.exists():
            if self._folder.is_dir() and any(entry.suffix != ".tmp" for entry in self._folder.iterdir()):
                raise InvalidInput(f"{self._folder} has other things in it; name a new or an empty folder")
            return None
        found = read_manifest(_read(place), str(place))
        if found.namespace != namespace:
            raise InvalidInput(f"{self._folder} holds namespace {found.namespace}, not {namespace}")
        for place_in_list, part in enumerate(found.parts):
            if _damage(part, _content(self._folder / part.name)):  # from here on it is exported again
                return replace(found, parts=found.parts[:place_in_list], complete=False, next_cursor=part.cursor)
        return found

    def add(self, content: bytes, counts: Mapping[str, int], following: str | None) -> None:
        """Write a part and then the manifest that names it. ``following``: the next part's cursor, None if none follows."""
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
        described = _described(content)
        parts = (*self.manifest.parts, part)
        self.manifest = replace(
            self.manifest, parts=parts, complete=following is None, next_cursor=following, **described
        )
        _write(self._folder / _MANIFEST, self.manifest.to_json())

    def finish(self) -> None:
        """Make one file of it, if one was asked for. May be called again after it was broken off."""
        if not self._single:
            return
        unfinished = self._path.with_name(self._path.name + ".tmp")
        with tarfile.open(unfinished, "w") as single:
            for name in (_MANIFEST, *(part.name for part in self.manifest.parts)):
                single.add(self._folder / name, arcname=name, filter=_anonymous)
        os.replace(unfinished, self._path)
        shutil.rmtree(self._folder)


class ArchiveReader:
    """An archive as it lies there. Nothing of a tar file is unpacked onto the disk."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidInput if it is no archive, damaged, or not complete."""
        self._path = path
        try:
            self._single = None if path.is_dir() else tarfile.open(path, "r:")  # noqa: SIM115 - closed by close()
        except (OSError, tarfile.TarError) as error:
            raise InvalidInput(f"{path} cannot be read as an archive ({error})") from None
        self.manifest = read_manifest(self._content(_MANIFEST) or b"", f"{path}/{_MANIFEST}")
        if not self.manifest.complete:
            raise InvalidInput(f"{path} is not complete: its export was broken off; run chordwise export again")

    def verify(self) -> None:
        """Compare every part with the manifest. Raises InvalidInput that names the first one that is damaged."""
        for part in self.manifest.parts:
            self.part(part)

    def part(self, part: PartEntry) -> bytes:
        """The content of a part. Raises InvalidInput if it is not what the manifest says."""
        content = self._content(part.name)
        damage = _damage(part, content)
        if damage or content is None:
            raise InvalidInput(f"{self._path}: {part.name} is damaged: {damage}")
        return content

    def close(self) -> None:
        """Let go of the file."""
        if self._single is not None:
            self._single.close()

    def _content(self, name: str) -> bytes | None:
        if self._single is None:
            return _content(self._path / name)
        try:
            found = self._single.extractfile(name)
            return None if found is None else found.read()
        except (KeyError, OSError, tarfile.TarError):
            return None


def counts_of(header: str) -> dict[str, int]:
    """``documents=1, chunks=2`` as a mapping; what cannot be read is left out."""
    pairs = (pair.strip().partition("=") for pair in header.split(","))
    return {name: int(value) for name, _, value in pairs if value.isascii() and value.isdigit()}


def _damage(part: PartEntry, content: bytes | None) -> str | None:
    if content is None:
        return "it is not there"
    if len(content) != part.bytes:
        return f"it has {len(content)} bytes, and the manifest says {part.bytes}"
    found = hashlib.sha256(content).hexdigest()
    return None if found == part.sha256 else f"its SHA-256 is {found}, and the manifest says {part.sha256}"


def _described(content: bytes) -> dict[str, Any]:
    """Model, dimension and distance out of a part's header."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as part:
            told = json.loads(part.read("header.json"))
        return {"model": str(told["model"]), "dimension": int(told["dimension"]), "distance": str(told["distance"])}
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError):
        return {}


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error


def _read(path: Path) -> bytes:
    return _content(path) or b""


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing, also if the power fails."""
    unfinished = path.with_name(path.name + ".tmp")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose files these were, and when, is nobody's business."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o644
    return entry


def missing(parts: Sequence[PartEntry], arrived: Mapping[int, str]) -> list[PartEntry]:
    """Parts that have to be sent. Raises InvalidInput if another part of the same number arrived before."""
    for part in parts:
        if arrived.get(part.number, part.sha256) != part.sha256:
            raise InvalidInput(f"another {part.name} of this archive was imported before; use --again to send them all")
    return [part for part in parts if part.number not in arrived]
