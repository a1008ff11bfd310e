"""The lines of a packed document's chunks: write them, and check and read foreign ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pipeline.archives.archive import Enclosed, Origin
from pipeline.chunking.cut import embedding_text
from pipeline.chunking.strategies import searched_text
from pipeline.errors import DocumentTooLarge, EmptyDocument, InvalidPackedDocument
from pipeline.keyword.indexed_fields import indexed
from pipeline.keyword.terms import Tokenizer
from pipeline.outbound import json_limits
from pipeline.records import Chunk, Generation, ParentChunk, Passage, Segment

_MOST = 2**31 - 1  # of every number: fits into all columns it may be stored in
_LONGEST_TEXT = 1_000_000  # characters of a chunk; an edited one has at most 64,000
_MOST_HEADINGS = 64
_LONGEST_TYPE = 16  # characters
_MOST_NAMES = 1000  # of one segment
_LATEST = 2**63 - 1
_UNIT = 0.02  # how far from 1 the length of a unit vector of halves may be


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Changes of a chunk since it was cut. The default: none."""

    enabled: bool = True
    version: int = 1
    edited_at: datetime | None = None


UNMARKED = Mark()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A packed document as chunks of a new generation. ``marks`` and ``vectors``: by ordinal, where there are any; an
    enabled chunk without a vector is to be embedded. ``model`` made the vectors."""

    chunks: Sequence[Chunk]
    marks: Mapping[int, Mark]
    vectors: Mapping[int, NDArray[np.float32]]
    model: str
    parents: Sequence[ParentChunk] = ()


def chunk_line(*, ordinal: int, passage: Passage, content_hash: bytes, mark: Mark, has_vector: bool) -> bytes:
    """Return a chunk as its line of ``chunks.jsonl``. ``content_hash`` is of the text that was embedded."""
    fields = {
        **parent_as_json(ordinal, passage),
        "content_hash": content_hash.hex(),
        "enabled": mark.enabled,
        "version": mark.version,
        "edited_at": mark.edited_at,
        "reworded": passage.reworded,
        "vector": has_vector,
        "chunk_type": passage.chunk_type,
        "parent": passage.parent,
        "index": passage.index,
        "segment": None if passage.segment is None else _segment_said(passage.segment),
    }
    return orjson.dumps(fields, option=orjson.OPT_UTC_Z)


def parent_as_json(ordinal: int, passage: Passage) -> dict[str, Any]:
    """Return a parent as it is written in its document's line."""
    return {
        "ordinal": ordinal,
        "text": passage.text,
        "start": passage.start,
        "end": passage.end,
        "token_count": passage.token_count,
        "heading_path": passage.heading_path,
        "page": passage.page,
        "page_end": passage.page_end,
    }


def _segment_said(segment: Segment) -> dict[str, Any]:
    return {
        "chapter_id": segment.chapter_id,
        "story_time": segment.story_time,
        "entity_names": segment.entity_names,
        "summary": segment.summary,
        "attributes": dict(segment.attributes),
    }


def unpack(
    enclosed: Enclosed,
    origin: Origin,
    generation: Generation,
    *,
    title: str | None,
    strategy: str,
    tokenizer: Tokenizer,
    model: str,
    dimension: int,
    limit: int,
    between: Callable[[], None] = lambda: None,
) -> Unpacked:
    """Return the document as chunks of ``generation``: same positions and texts; new ids, terms and hashes.
    ``strategy`` gives the text that finds a chunk. A vector stays if ``model`` made it in ``dimension`` from the text
    to embed here. ``between`` is called after every chunk and may raise.

    Raises EmptyDocument, DocumentTooLarge above ``limit`` chunks, or InvalidPackedDocument.
    """
    if not enclosed.chunks:
        raise EmptyDocument("the packed document has no chunks")
    if len(enclosed.chunks) > limit:
        raise DocumentTooLarge(f"the document has {len(enclosed.chunks)} chunks; this installation takes {limit}")
    chunks: list[Chunk] = []
    marks: dict[int, Mark] = {}
    row_of: dict[int, int] = {}
    vector_count = 0
    for number, line in enumerate(enclosed.chunks):
        read = _Line(line, number)
        ordinal = read.whole("ordinal")
        if chunks and ordinal <= chunks[-1].ordinal:
            raise read.wrong("ordinal", "must be above that of the chunk before")
        passage, mark = _passage(read), _mark(read)
        searched = searched_text(passage, strategy)
        text = embedding_text(passage, title, text=searched)
        digest = hashlib.sha256(text.encode()).digest()
        if read.flag("vector"):
            if mark.enabled and read.value("content_hash") == digest.hex():
                row_of[ordinal] = vector_count
            vector_count += 1
        if mark != UNMARKED:
            marks[ordinal] = mark
        found_by = indexed(passage, title, strategy=strategy, tokenizer=tokenizer)
        chunks.append(
            Chunk(
                chunk_id=generation.chunk_id(ordinal),
                generation=generation,
                ordinal=ordinal,
                passage=passage,
                terms=found_by.terms,
                content_hash=digest,
                embedding_text=text,
                field_terms=found_by.fields,
            )
        )
        between()
    matrix = _vectors(enclosed.vectors, vector_count, origin.dimension)
    same = (origin.model, origin.dimension) == (model, dimension)
    if same:
        _require_unit(matrix)
    vectors = {ordinal: matrix[row] for ordinal, row in row_of.items()} if same else {}
    parents = _parents(enclosed.description.get("parents"), generation)
    parent_ordinals = {parent.ordinal for parent in parents}
    if any(chunk.passage.parent is not None and chunk.passage.parent not in parent_ordinals for chunk in chunks):
        raise InvalidPackedDocument("a chunk names a parent that the document does not have")
    return Unpacked(chunks=chunks, marks=marks, vectors=vectors, model=model, parents=parents)


def _vectors(content: bytes, count: int, dimension: int) -> NDArray[np.float32]:
    if len(content) != count * dimension * 2:
        detail = f"{count} chunks say that they have a vector, and there are {len(content) // (2 * dimension)} vectors"
        raise InvalidPackedDocument(detail)
    return np.frombuffer(content, dtype="<f2").reshape(count, dimension).astype(np.float32)


def _require_unit(vectors: NDArray[np.float32]) -> None:
    lengths = np.linalg.norm(vectors, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= _UNIT))  # so that NaN is wrong too
    if wrong.size:
        raise InvalidPackedDocument(f"vector {wrong[0]} of the document does not have the length 1")


def _passage(read: _Line) -> Passage:
    text = read.text("text", most=_LONGEST_TEXT)
    if not text.strip():
        raise read.wrong("text", "is empty")
    start, end = read.whole("start"), read.whole("end")
    if end < start:
        raise read.wrong("end", "is before start")
    path = read.value("heading_path", [])
    if not isinstance(path, list) or len(path) > _MOST_HEADINGS or not all(map(_storable, path)):
        raise read.wrong("heading_path", f"must be at most {_MOST_HEADINGS} strings")
    page = None if read.value("page", None) is None else read.whole("page")
    page_end = None if read.value("page_end", None) is None else read.whole("page_end")
    tokens = read.whole("token_count")
    kind = read.text("chunk_type", most=_LONGEST_TYPE, default="parent")
    return Passage(
        text=text,
        start=start,
        end=end,
        token_count=tokens,
        heading_path=tuple(path),
        page=page,
        page_end=page_end,
        chunk_type=kind,
        parent=None if read.value("parent", None) is None else read.whole("parent"),
        index=read.whole("index", 0),
        segment=_segment(read),
        reworded=read.flag("reworded", read.value("edited_at", None) is not None),
    )


def _segment(read: _Line) -> Segment | None:
    segment = read.value("segment", None)
    if segment is None:
        return None
    if not isinstance(segment, dict):
        raise read.wrong("segment", "must be an object")
    chapter, summary, time = segment.get("chapter_id"), segment.get("summary"), segment.get("story_time")
    names, attributes = segment.get("entity_names", []), segment.get("attributes", {})
    are_texts = (
        isinstance(names, list)
        and isinstance(attributes, dict)
        and len(names) + len(attributes) <= _MOST_NAMES
        and all(map(_storable, [*names, *attributes, *attributes.values()]))
        and all(value is None or _storable(value) for value in (chapter, summary))
    )
    if not are_texts or not (time is None or (type(time) is int and abs(time) <= _LATEST)):
        raise read.wrong("segment", "is not what a story says of a segment")
    return Segment(
        chapter_id=chapter, story_time=time, entity_names=tuple(names), summary=summary, attributes=attributes
    )


def _parents(items: Any, generation: Generation) -> list[ParentChunk]:
    if items is None:
        return []
    if not isinstance(items, list):
        raise InvalidPackedDocument("parents must be a list")
    passages = {}
    for number, line in enumerate(items):
        read = _Line(orjson.dumps(line), number)
        ordinal = read.whole("ordinal")
        passages[ordinal] = ParentChunk(
            chunk_id=generation.parent_id(ordinal), generation=generation, ordinal=ordinal, passage=_passage(read)
        )
    return list(passages.values())


def _mark(read: _Line) -> Mark:
    edited_at = None if read.value("edited_at", None) is None else read.moment("edited_at")
    version = read.whole("version", 1)
    if version < 1:
        raise read.wrong("version", "must be at least 1")
    return Mark(enabled=read.flag("enabled", True), version=version, edited_at=edited_at)


def _moment(value: str) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None or not 1000 <= moment.year <= 9998:
        raise ValueError(value)
    return moment.astimezone(UTC)


def _storable(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and len(value) <= _LONGEST_TEXT


_REQUIRED = object()


class _Line:
    """One untrusted line of ``chunks.jsonl``."""

    def __init__(self, line: bytes, number: int) -> None:
        self._number = number
        try:
            values = json_limits.loads(line)
        except json_limits.TooComplex as error:
            raise InvalidPackedDocument(f"chunk {number} of the document {error}") from None
        except orjson.JSONDecodeError:
            values = None
        if not isinstance(values, dict):
            raise InvalidPackedDocument(f"chunk {number} of the document is not a JSON object")
        self._found: dict[str, Any] = values

    def wrong(self, name: str, detail: str) -> InvalidPackedDocument:
        return InvalidPackedDocument(f"chunk {self._number} of the document: {name} {detail}")

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        value = self._found.get(name, default)
        if value is _REQUIRED:
            raise self.wrong(name, "is required")
        return value

    def whole(self, name: str, default: Any = _REQUIRED) -> int:
        number = self.value(name, default)
        if type(number) is not int or not 0 <= number <= _MOST:
            raise self.wrong(name, f"must be an integer from 0 to {_MOST}")
        return number

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        flag = self.value(name, default)
        if not isinstance(flag, bool):
            raise self.wrong(name, "must be true or false")
        return flag

    def text(self, name: str, *, most: int, default: Any = _REQUIRED) -> str:
        text = self.value(name, default)
        if not _storable(text) or len(text) > most:
            raise self.wrong(name, f"must be a string of at most {most} characters, none of them NUL")
        return str(text)

    def moment(self, name: str) -> datetime:
        try:
            return _moment(self.value(name))
        except (ValueError, TypeError, OverflowError):
            raise self.wrong(name, "must be an RFC 3339 time") from None
