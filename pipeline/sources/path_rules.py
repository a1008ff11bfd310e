"""The rules of a source: ids, types, tags, metadata and readers by path."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any, Final

from pipeline.document_sources import document_id_of
from pipeline.filters.readers import stored_readers
from pipeline.records import DocumentFields, DocumentId

PLACES: Final = ("path", "folder", "name", "stem")  # in the pattern of an id
_PLACE = re.compile(r"\{(path|folder|name|stem)\}")
_PARTS: Final = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")
_MEANT: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

Rule = Mapping[str, Any]  # the fields of `contract.source.SourceRule` that are given


def document_of(path: str, rules: Sequence[Rule]) -> tuple[DocumentId, DocumentFields] | None:
    """Return the id and the fields of the document that a file becomes; None if a rule skips it. All rules that match
    apply in order: tags and metadata add up, of the rest the last holds."""
    rules = [rule for rule in rules if matches(path, rule.get("path") or "**")]
    last = {name: value for rule in rules for name, value in rule.items()}
    if last.get("skip"):
        return None
    tags = dict.fromkeys(tag for rule in rules for tag in rule.get("tags", ()))
    metadata = {name: value for rule in rules for name, value in rule.get("metadata", {}).items()}
    readers = last.get("readers")
    fields = DocumentFields(
        type=last.get("type"),
        tags=tuple(tags),
        metadata=metadata,
        readers=None if readers is None else stored_readers(readers) or ("public",),
    )
    return DocumentId(document_id_of(_named(path, last.get("document_id") or "{path}"))), fields


def matches(path: str, pattern: str) -> bool:
    """Return whether a path matches: ``*`` and ``?`` within a folder, ``**`` across folders. A pattern that ends in a slash
    means all below."""
    return _compiled(pattern + "**" if pattern.endswith("/") else pattern).fullmatch(path) is not None


def version_of(version: str, fields: DocumentFields) -> bytes:
    """Return the hash of a file's version and of the fields of its document: another rule makes another version."""
    given = json.dumps([version, asdict(fields)], ensure_ascii=False, sort_keys=True, default=str)
    return sha256(given.encode("utf-8", "replace")).digest()


def _named(path: str, pattern: str) -> str:
    pure = PurePosixPath(path)
    folder = "" if pure.parent == PurePosixPath(".") else str(pure.parent)
    parts = {"path": path, "folder": folder, "name": pure.name, "stem": pure.stem}
    return _PLACE.sub(lambda place: parts[place[1]], pattern)


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile("".join(_MEANT.get(part, re.escape(part)) for part in _PARTS.findall(pattern)), re.DOTALL)
