"""Chunks: positions, beginnings, and the outcomes of edits."""

from dataclasses import dataclass
from typing import Literal

from chordwise.contract.record import Answered, Complete


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult(Complete):
    """The outcome for one chunk. `replacement_pending`: a newer upload of its document will replace it. `repeated_in`:
    chunks that overlap it and still have words that the edit removed; edit them too."""

    chunk_id: str
    status: Literal["updated", "unchanged", "deleted", "failed"]
    etag: str | None = None
    code: str | None = None
    detail: str | None = None
    replacement_pending: bool = False
    repeated_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBeginningShape(Answered):
    """A chunk to recognise: its document with its address, its headings and pages, and the first characters of its text.
    `shown`: searches see it."""

    chunk_id: str
    namespace: str
    document_id: str
    title: str | None
    source_uri: str | None
    heading_path: tuple[str, ...]
    page: int | None
    page_end: int | None
    beginning: str
    shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPosition(Answered):
    """The position of a chunk in a text. `edited`: its own text is another one by now."""

    chunk_id: str
    ordinal: int
    start: int
    end: int
    page: int | None
    page_end: int | None
    enabled: bool
    edited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSection(Answered):
    """A part of a text: its position in characters, `end` exclusive, its headings, and its page."""

    start: int
    end: int
    heading_path: tuple[str, ...]
    page: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentText(Answered):
    """The parsed text of a document's upload, with its sections and the positions of its chunks, by ordinal. Positions
    count characters (code points). `parents`: how many parents precede these chunks in `GET /v1/chunks`."""

    namespace: str
    document_id: str
    generation: int
    title: str | None
    media_type: str
    text: str
    sections: tuple[TextSection, ...]
    parents: int
    chunks: tuple[ChunkPosition, ...]
