"""The names under which local files are sent. The server makes the ids of their documents from them."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

K = TypeVar("K")
_HASH_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFile:
    """A file below ``root``: the searched folder, or the folder of a file that was named itself."""

    path: Path
    root: Path

    @property
    def relative(self) -> str:
        """Return its path below the root, with ``/``."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def folder(self) -> str:
        """Return the absolute path of the root."""
        return os.path.abspath(self.root)


def sendable(name: str) -> str:
    """Return a name or a path without lone surrogates: of a part that is not UTF-8, bytes beyond ASCII become ``%BA``."""
    return "/".join(part if _is_utf_8(part) else _escaped(part) for part in name.split("/"))


def _is_utf_8(part: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in part)


def _escaped(part: str) -> str:
    """Return a part with its bytes as on the disk: Python decodes a byte that is not UTF-8 as a low surrogate."""
    pieces = (
        bytes([ord(char) - 0xDC00]) if "\udc80" <= char <= "\udcff" else char.encode("utf-8", "surrogatepass")
        for char in part
    )
    return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in b"".join(pieces))


def id_of(name: str) -> str:
    """Return the document id that the server makes from a name, uncut. Two names with one id would be one document."""
    name = unicodedata.normalize("NFC", name.replace("%22", '"'))  # a quotation mark in a form
    parts = [part.strip() for part in name.replace("\\", "/").split("/")]
    path = "/".join(part for part in parts if part not in ("", ".", ".."))
    return "".join(char for char in path if unicodedata.category(char)[0] not in "CZ" or char == " ").strip()


def names_of(found: Iterable[LocalFile]) -> tuple[dict[LocalFile, str], dict[str, tuple[str, ...]]]:
    """Return the name of each file, and by relative name those of files that are sent under another one.

    The last folders of the roots, as many as are needed, tell files with one relative name apart; a hash of the name tells
    files of one root apart. The order of ``found`` does not matter. A file that was found twice has one name.
    """
    files = _each_once(found)
    names = _told_apart_by_hash(files)
    same = _grouped(files, {file: id_of(name) for file, name in names.items()})
    taken = {document_id for document_id, group in same.items() if len(group) == 1}
    for _, group in sorted(same.items()):
        group, copies = _apart_from_copies(group)
        for copy in copies:
            del names[copy]
        if len(group) > 1:
            names |= _prefixed(group, names, taken)
            taken |= {id_of(names[file]) for file in group}
    renamed = _grouped(names, {file: sendable(file.relative) for file in names if names[file] != file.relative})
    return names, {name: tuple(sorted(names[file] for file in group)) for name, group in sorted(renamed.items())}


def _told_apart_by_hash(files: Sequence[LocalFile]) -> dict[LocalFile, str]:
    """Return names, distinct among the files of each root."""
    names = {file: sendable(file.relative) for file in files}
    for (_, document_id), group in _grouped(files, {file: (file.folder, id_of(names[file])) for file in files}).items():
        if len(group) > 1:
            names |= {file: _hashed(names[file], file.relative) for file in group if file.relative != document_id}
    return names


def _grouped(files: Iterable[LocalFile], keys: Mapping[LocalFile, K]) -> dict[K, list[LocalFile]]:
    """Return the files that have a key by their key."""
    groups: defaultdict[K, list[LocalFile]] = defaultdict(list)
    for file in files:
        if file in keys:
            groups[keys[file]].append(file)
    return groups


def _each_once(found: Iterable[LocalFile]) -> list[LocalFile]:
    """Return one entry of each path: the one with the longest relative name."""
    best: dict[str, LocalFile] = {}
    for file in found:
        known = best.setdefault(os.path.abspath(file.path), file)
        if len(file.relative) > len(known.relative):
            best[os.path.abspath(file.path)] = file
    return list(best.values())


def _apart_from_copies(files: Sequence[LocalFile]) -> tuple[list[LocalFile], list[LocalFile]]:
    """Return the files, and apart from them those that links make the same file as one of them."""
    first: dict[str, LocalFile] = {}
    for file in sorted(files, key=lambda file: os.path.abspath(file.path)):
        first.setdefault(os.path.realpath(file.path), file)
    kept = set(first.values())
    return [file for file in files if file in kept], [file for file in files if file not in kept]


def _prefixed(
    files: Sequence[LocalFile], names: Mapping[LocalFile, str], taken: Container[str]
) -> dict[LocalFile, str]:
    """Return names with the fewest last folders of the roots in front that make the ids distinct."""
    folders = {file: [sendable(part) for part in Path(file.folder).parts[1:]] for file in files}
    prefixed: dict[LocalFile, str] = {}
    for depth in range(1, max(map(len, folders.values())) + 1):
        prefixed = {file: "/".join((*folders[file][-depth:], names[file])) for file in files}
        ids = {id_of(name) for name in prefixed.values()}
        if len(ids) == len(files) and not any(document_id in taken for document_id in ids):
            return prefixed
    return {file: _hashed(name, os.path.abspath(file.path)) for file, name in prefixed.items()}


def _hashed(name: str, of: str) -> str:
    """Return the name with a hash of a path before its suffix."""
    path = PurePosixPath(name)
    digest = hashlib.sha256(os.fsencode(of)).hexdigest()[:_HASH_DIGITS]
    return str(path.with_name(f"{path.stem}~{digest}{path.suffix}"))
