"""Chunks: positions, beginnings, and the outcomes of edits."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

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
class TextSection(Complete):
    """A part of a text: its position in characters, `end` exclusive, its headings, and its page."""

    start: int
    end: int
    heading_path: tuple[str, ...] = ()
    page: int | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageFields(Answered):
    """A passage of a document's text."""

    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    page: int | None
    page_start: int | None
    page_end: int | None
    start: int
    end: int
    token_count: int
    chunk_type: str
    chunk_index: int
    chapter_id: str | None
    story_time: int | None
    entity_names: tuple[str, ...]
    summary: str | None
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(PassageFields):
    """A passage of the searchable generation. Offsets count characters of the parsed text; `end` is exclusive.

    `chunk_type` is `parent` for a chunk that is part of no other, else `child`, `sentence`, `qa` or `segment`;
    `chunk_index` is its position in its parent, or in the document. `window`: the text that is read with it.
    `chapter_id`, `story_time`, `entity_names`, `summary` and `attributes` are those of its segment. `edited`: its text
    was changed by hand, and its offsets and pages name the passage that it replaces.
    """

    chunk_id: str
    namespace: str
    document_id: str
    generation: int
    parent_id: str | None
    window: str | None
    edited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedChunkShape(Chunk):
    """A chunk as its owner sees it, enabled or disabled. `searched` is false for a parent, which is only read with its
    children. `metadata`, `source_id` and `source_uri` are its document's."""

    searched: bool
    metadata: Mapping[str, Any]
    source_id: str
    source_uri: str | None
    enabled: bool
    etag: str
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewChunk(PassageFields):
    """A chunk in the preview. `parent`: the ordinal of its parent. `embedding_text`: the text to embed, null for
    parents."""

    parent: int | None
    embedding_text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewEncoding(Answered):
    """The character encoding in which the bytes were read, and the probability that the text is right (0 to 1)."""

    name: str
    probability: float
    warning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewAnswer(Answered):
    """The chunks of a document, and their parents. Nothing was stored. `encoding` is null for formats that are not
    text; `pages_warning`: as in a document's source."""

    title: str | None
    encoding: PreviewEncoding | None
    pages_warning: str | None
    chunking: Mapping[str, Any]
    chunks: tuple[PreviewChunk, ...]
    parents: tuple[PreviewChunk, ...]
