"""The sources of documents, entities of a namespace; and ids that are the same when an upload is repeated."""

import enum
import hashlib
import unicodedata
import uuid
from dataclasses import dataclass

# The namespace of version-5 UUIDs from which source ids are derived.
_SOURCE_IDS = uuid.UUID("2f1c7a55-0d0e-4c53-8f0b-6f6f1d3b9a26")


class SourceKind(enum.StrEnum):
    """How documents arrived: inline text, bytes in a body, a stored file, a fetched address, a sheet of examples."""

    TEXT = "text"
    BYTES = "bytes"
    FILE = "file"
    URL = "url"
    SHEET = "sheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRef:
    """An upload's source. ``kind``: None keeps the source's. ``source_id``: the sender's, None to derive it. ``uri``,
    ``media_type``: of the whole where the upload is a part, such as a line of a file."""

    kind: SourceKind | None = SourceKind.TEXT
    source_id: str | None = None
    uri: str | None = None
    media_type: str | None = None


def derived_source_id(tenant_id: str, namespace: str, *, uri: str | None, document_id: str) -> str:
    """Return the id (UUID 5) of the source at ``uri`` in this namespace or, without one, of the document's own source."""
    named = ("document", document_id) if uri is None else ("uri", uri)
    return str(uuid.uuid5(_SOURCE_IDS, "\x1f".join((tenant_id, namespace, *named))))


PACKED = "application/vnd.chordwise.document"


def original_type(media_type: str) -> str:
    """Return a document's own media type, packed or not, without parameters."""
    base, _, parameter = media_type.partition(";")
    return parameter.removeprefix("of=") if base == PACKED else base


LONGEST_ID = 64  # characters
_HASH_DIGITS = 16


def with_hash(name: str, digest: bytes, digits: int) -> str:
    """Return a name that ends in ``~`` and the first hexadecimal digits of a hash, not longer than an id may be."""
    tail = "~" + digest.hex()[:digits]
    return name[: LONGEST_ID - len(tail)].rstrip() + tail


def document_id_of(name: str) -> str:
    """Return a document id from a file's name, composed (NFC). Relative folders stay, so that equal names in two of them
    differ.

    A long name keeps its beginning and ends in a hash of the whole; an empty name gives a new id.
    """
    name = unicodedata.normalize("NFC", name)  # macOS sends decomposed names
    parts = [part.strip() for part in name.replace("\\", "/").split("/")]
    path = "/".join(part for part in parts if part not in ("", ".", ".."))
    printable = (character for character in path if unicodedata.category(character)[0] not in "CZ" or character == " ")
    document_id = "".join(printable).strip()
    if document_id in ("", ".", ".."):
        return str(uuid.uuid4())
    if len(document_id) <= LONGEST_ID:
        return document_id
    return with_hash(document_id, hashlib.sha256(document_id.encode("utf-8", "replace")).digest(), _HASH_DIGITS)
