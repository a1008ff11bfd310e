"""Documents with chunks and vectors as bytes, to move between installations; docs/portability.md has the format.

A part is an uncompressed ZIP of ``header.json``, ``documents.jsonl``, ``chunks.jsonl`` and ``vectors.f16``; a waiting
document is a part of one. Unknown entries and fields are ignored; an incompatible change raises the version.
"""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from pipeline.document_sources import PACKED
from pipeline.errors import DamagedPart
from pipeline.outbound import json_limits

PART = "application/vnd.chordwise.part"
FORMAT_VERSION = 1

_HEADER, _DOCUMENTS, _CHUNKS, _VECTORS = "header.json", "documents.jsonl", "chunks.jsonl", "vectors.f16"
_NAMES = (_HEADER, _DOCUMENTS, _CHUNKS, _VECTORS)
_ALWAYS = (1980, 1, 1, 0, 0, 0)  # the oldest time a ZIP file can tell: the same content is always the same bytes
_HALF = 2  # bytes of a number in a vector
_LONGEST_MEDIA_TYPE = 80
_MOST_DIMENSIONS = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of vectors: they are meaningful only to the same model. ``distance`` is informative."""

    model: str
    dimension: int
    distance: str = "cosine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """One document in a part: its line, the lines of its chunks, and their vectors as little-endian 16-bit floats."""

    description: Mapping[str, Any]
    chunks: Sequence[bytes]
    vectors: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The content of a part."""

    origin: Origin
    documents: Sequence[Enclosed]

    @property
    def chunk_count(self) -> int:
        """Chunks of all its documents."""
        return sum(len(document.chunks) for document in self.documents)

    @property
    def vector_count(self) -> int:
        """Vectors of all its documents."""
        return sum(len(document.vectors) for document in self.documents) // (self.origin.dimension * _HALF)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """A part to accept. ``vectors``: how many came with it; ``vectors_kept``: whether they fit this installation."""

    import_id: str
    number: int
    sha256: bytes
    documents: int
    chunks: int
    vectors: int
    vectors_kept: bool


def write_part(part: Part) -> bytes:
    """Return the part as a file, always with the same bytes."""
    origin, size = part.origin, part.origin.dimension * _HALF
    header = {
        "format": "chordwise-part",
        "version": FORMAT_VERSION,
        **asdict(origin),
        "documents": len(part.documents),
        "chunks": part.chunk_count,
        "vectors": part.vector_count,
    }
    described = [
        {**document.description, "chunks": len(document.chunks), "vectors": len(document.vectors) // size}
        for document in part.documents
    ]
    line = orjson.OPT_APPEND_NEWLINE | orjson.OPT_UTC_Z
    entries = (
        orjson.dumps(header),
        b"".join(orjson.dumps(description, option=line) for description in described),
        b"".join(line + b"\n" for document in part.documents for line in document.chunks),
        b"".join(document.vectors for document in part.documents),
    )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
        for name, content in zip(_NAMES, entries, strict=True):
            archive.writestr(zipfile.ZipInfo(name, _ALWAYS), content)
    return written.getvalue()


def read_part(body: bytes) -> Part:
    """Split a part into its documents without looking at chunks; time and memory linear in ``body``. Raises DamagedPart."""
    entries = _entries(body)
    origin = _origin(_object(entries[_HEADER], _HEADER))
    lines = _lines(entries[_CHUNKS])
    size = origin.dimension * _HALF
    vectors = entries[_VECTORS]
    documents, line, offset = [], 0, 0  # of the document's first chunk and vector
    for content in _lines(entries[_DOCUMENTS]):
        description = _object(content, _DOCUMENTS)
        line_end = line + _count(description, "chunks")
        offset_end = offset + _count(description, "vectors") * size
        documents.append(
            Enclosed(description=description, chunks=lines[line:line_end], vectors=vectors[offset:offset_end])
        )
        line, offset = line_end, offset_end
    if line != len(lines) or offset != len(vectors):
        raise DamagedPart("the documents of the part do not add up to its chunks and vectors")
    return Part(origin=origin, documents=documents)


def packed_type(media_type: str) -> str:
    """Return the media type under which a packed document is stored: a marker and the original type."""
    base = media_type.partition(";")[0].strip().lower()
    fits = 0 < len(base) <= _LONGEST_MEDIA_TYPE and base.isascii() and base.isprintable() and " " not in base
    return f"{PACKED};of={base if fits else 'application/octet-stream'}"


def is_packed(media_type: str) -> bool:
    """Return whether a body of this type is a packed document."""
    return media_type.partition(";")[0] == PACKED


def _entries(body: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return {name: _stored(archive, name, len(body)) for name in _NAMES}
    # zipfile does not document its errors for bytes that are no ZIP file; these were observed.
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError, RuntimeError, OSError, OverflowError):
        raise DamagedPart("the part is not a ZIP file of stored entries, or it is damaged") from None


def _stored(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    if name not in archive.NameToInfo:
        raise DamagedPart(f"the part has no {name}")
    entry = archive.getinfo(name)
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 or entry.file_size > most:
        raise DamagedPart(f"{name} is not stored as it is")
    return archive.read(entry)


def _origin(header: Mapping[str, Any]) -> Origin:
    if header.get("format") != "chordwise-part":
        raise DamagedPart("header.json does not say that this is a part of a Chordwise archive")
    if header.get("version") != FORMAT_VERSION:
        raise DamagedPart(f"the part is of version {header.get('version')!r}; this installation reads {FORMAT_VERSION}")
    model, dimension, distance = header.get("model"), header.get("dimension"), header.get("distance", "cosine")
    named = isinstance(model, str) and isinstance(distance, str)
    if not named or type(dimension) is not int or not 1 <= dimension <= _MOST_DIMENSIONS:
        raise DamagedPart("header.json does not name the model and the dimension of the vectors")
    return Origin(model=str(model), dimension=dimension, distance=str(distance))


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _object(content: bytes, where: str) -> Mapping[str, Any]:
    try:
        document = json_limits.loads(content)
    except json_limits.TooComplex as error:
        raise DamagedPart(f"{where} holds JSON that {error}") from None
    except orjson.JSONDecodeError:
        raise DamagedPart(f"{where} holds something that is not JSON") from None
    if not isinstance(document, dict):
        raise DamagedPart(f"{where} holds something that is not a JSON object")
    return document


def _count(description: Mapping[str, Any], name: str) -> int:
    count = description.get(name)
    if type(count) is not int or count < 0:
        raise DamagedPart(f"a line of documents.jsonl does not say how many {name} the document has")
    return count
