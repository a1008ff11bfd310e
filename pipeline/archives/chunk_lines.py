"""The lines of a packed document's chunks: write them, and check and read foreign ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from pipeline.archives.archive import Enclosed, Origin
from pipeline.chunking.strategies.registry import searched_text
from pipeline.documents.cut_document import Assembled, chunk_of
from pipeline.errors import DocumentTooLarge, EmptyDocument, InvalidPackedDocument
from pipeline.keyword.indexed_fields import indexed
from pipeline.keyword.terms import Tokenizer
from pipeline.outbound import json_limits
from pipeline.records import UNMARKED, Chunk, ChunkMark, Generation, ParentChunk, Passage, Segment

_MOST = 2**31 - 1  # of every number: fits into all columns it may be stored in
_LONGEST_TEXT = 1_000_000  # characters of a chunk; an edited one has at most 64,000
_MOST_HEADINGS = 64
_LONGEST_TYPE = 16  # characters
_MOST_NAMES = 1000  # of one segment
_LATEST = 2**63 - 1
_TOLERANCE = 0.02  # of the length of a unit vector of halves
_PARENT_FIELDS = ("text", "start", "end", "token_count", "heading_path", "page", "page_end")


def chunk_line(*, ordinal: int, passage: Passage, content_hash: bytes, mark: ChunkMark, has_vector: bool) -> bytes:
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
        "segment": passage.segment,
    }
    return orjson.dumps(fields, option=orjson.OPT_UTC_Z)


def parent_as_json(ordinal: int, passage: Passage) -> dict[str, Any]:
    """Return a parent as it is written in its document's line."""
    return {"ordinal": ordinal, **{name: getattr(passage, name) for name in _PARENT_FIELDS}}


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
) -> Assembled:
    """Return the document as chunks of ``generation``: same positions and texts; new ids, terms and hashes.

    ``strategy`` decides which text finds a chunk. A vector is kept if ``model`` made it, in ``dimension``, from the text
    that would be embedded here. ``between`` is called after every chunk and may raise.

    Raises EmptyDocument, DocumentTooLarge above ``limit`` chunks, or InvalidPackedDocument.
    """
    if not enclosed.chunks:
        raise EmptyDocument("the packed document has no chunks")
    if len(enclosed.chunks) > limit:
        raise DocumentTooLarge(f"the document has {len(enclosed.chunks)} chunks; this installation takes {limit}")
    chunks: list[Chunk] = []
    marks: dict[int, ChunkMark] = {}
    vector_rows: dict[int, int] = {}  # by ordinal
    vector_count = 0
    for number, content in enumerate(enclosed.chunks):
        line = _Line(content, number)
        ordinal = line.integer("ordinal")
        if chunks and ordinal <= chunks[-1].ordinal:
            raise line.flaw("ordinal", "must be above that of the chunk before")
        passage, mark = _passage(line), _mark(line)
        tokens = indexed(passage, title, strategy=strategy, tokenizer=tokenizer)
        chunk = chunk_of(generation, ordinal, passage, tokens, title=title, searched=searched_text(passage, strategy))
        chunks.append(chunk)
        if line.flag("vector"):
            if mark.enabled and line.value("content_hash") == chunk.content_hash.hex():
                vector_rows[ordinal] = vector_count
            vector_count += 1
        if mark != UNMARKED:
            marks[ordinal] = mark
        between()
    matrix = _vectors(enclosed.vectors, vector_count, origin.dimension)
    is_same_model = (origin.model, origin.dimension) == (model, dimension)
    if is_same_model:
        _require_unit(matrix)
    vectors = {ordinal: matrix[row] for ordinal, row in vector_rows.items()} if is_same_model else {}
    parents = _parents(enclosed.description.get("parents"), generation)
    parent_ordinals = {parent.ordinal for parent in parents}
    if any(chunk.passage.parent is not None and chunk.passage.parent not in parent_ordinals for chunk in chunks):
        raise InvalidPackedDocument("a chunk names a parent that the document does not have")
    return Assembled(
        chunks=chunks, parents=parents, title=title, marks=marks, vectors=vectors, made_by=(model, dimension)
    )


def _vectors(content: bytes, count: int, dimension: int) -> NDArray[np.float32]:
    if len(content) != count * dimension * 2:
        detail = f"{count} chunks say that they have a vector, and there are {len(content) // (2 * dimension)} vectors"
        raise InvalidPackedDocument(detail)
    return np.frombuffer(content, dtype="<f2").reshape(count, dimension).astype(np.float32)


def _require_unit(vectors: NDArray[np.float32]) -> None:
    lengths = np.linalg.norm(vectors, axis=1)
    wrong = np.flatnonzero(~(np.abs(lengths - 1.0) <= _TOLERANCE))  # so that NaN is wrong too
    if wrong.size:
        raise InvalidPackedDocument(f"vector {wrong[0]} of the document does not have the length 1")


def _passage(line: _Line) -> Passage:
    text = line.text("text", most=_LONGEST_TEXT)
    if not text.strip():
        raise line.flaw("text", "is empty")
    start, end = line.integer("start"), line.integer("end")
    if end < start:
        raise line.flaw("end", "is before start")
    path = line.value("heading_path", [])
    if not isinstance(path, list) or len(path) > _MOST_HEADINGS or not all(map(_is_storable, path)):
        raise line.flaw("heading_path", f"must be at most {_MOST_HEADINGS} strings")
    return Passage(
        text=text,
        start=start,
        end=end,
        heading_path=tuple(path),
        page=line.optional_integer("page"),
        page_end=line.optional_integer("page_end"),
        token_count=line.integer("token_count"),
        chunk_type=line.text("chunk_type", most=_LONGEST_TYPE, default="parent"),
        parent=line.optional_integer("parent"),
        index=line.integer("index", 0),
        segment=_segment(line),
        reworded=line.flag("reworded", line.value("edited_at", None) is not None),
    )


def _segment(line: _Line) -> Segment | None:
    segment = line.value("segment", None)
    if segment is None:
        return None
    if not isinstance(segment, dict):
        raise line.flaw("segment", "must be an object")
    chapter, summary, time = segment.get("chapter_id"), segment.get("summary"), segment.get("story_time")
    names, attributes = segment.get("entity_names", []), segment.get("attributes", {})
    are_texts = (
        isinstance(names, list)
        and isinstance(attributes, dict)
        and len(names) + len(attributes) <= _MOST_NAMES
        and all(map(_is_storable, [*names, *attributes, *attributes.values()]))
        and all(value is None or _is_storable(value) for value in (chapter, summary))
    )
    if not are_texts or not (time is None or (type(time) is int and abs(time) <= _LATEST)):
        raise line.flaw(
            "segment", "must have strings for names, attributes, chapter and summary, and an integer for time"
        )
    return Segment(
        chapter_id=chapter, story_time=time, entity_names=tuple(names), summary=summary, attributes=attributes
    )


def _parents(items: Any, generation: Generation) -> list[ParentChunk]:
    if items is None:
        return []
    if not isinstance(items, list):
        raise InvalidPackedDocument("parents must be a list")
    parents = {}
    for number, item in enumerate(items):
        line = _Line(orjson.dumps(item), number)
        ordinal = line.integer("ordinal")
        parents[ordinal] = ParentChunk(
            chunk_id=generation.parent_id(ordinal), generation=generation, ordinal=ordinal, passage=_passage(line)
        )
    return list(parents.values())


def _mark(line: _Line) -> ChunkMark:
    edited_at = None if line.value("edited_at", None) is None else line.moment("edited_at")
    version = line.integer("version", 1)
    if version < 1:
        raise line.flaw("version", "must be at least 1")
    return ChunkMark(enabled=line.flag("enabled", True), version=version, edited_at=edited_at)


def _is_storable(value: object) -> bool:
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
        self._values: dict[str, Any] = values

    def flaw(self, name: str, detail: str) -> InvalidPackedDocument:
        return InvalidPackedDocument(f"chunk {self._number} of the document: {name} {detail}")

    def value(self, name: str, default: Any = _REQUIRED) -> Any:
        value = self._values.get(name, default)
        if value is _REQUIRED:
            raise self.flaw(name, "is required")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self.value(name, None) is None else self.integer(name)

    def integer(self, name: str, default: Any = _REQUIRED) -> int:
        number = self.value(name, default)
        if type(number) is not int or not 0 <= number <= _MOST:
            raise self.flaw(name, f"must be an integer from 0 to {_MOST}")
        return number

    def flag(self, name: str, default: Any = _REQUIRED) -> bool:
        flag = self.value(name, default)
        if not isinstance(flag, bool):
            raise self.flaw(name, "must be true or false")
        return flag

    def text(self, name: str, *, most: int, default: Any = _REQUIRED) -> str:
        text = self.value(name, default)
        if not _is_storable(text) or len(text) > most:
            raise self.flaw(name, f"must be a string of at most {most} characters, none of them NUL")
        return str(text)

    def moment(self, name: str) -> datetime:
        try:
            moment = datetime.fromisoformat(self.value(name))
            if moment.tzinfo is not None and 1000 <= moment.year <= 9998:
                return moment.astimezone(UTC)
        except (ValueError, TypeError, OverflowError):
            pass
        raise self.flaw(name, "must be an RFC 3339 time")
