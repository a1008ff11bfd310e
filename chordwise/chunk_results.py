"""Chunks as the server answers them: listed, edited, and previewed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.decoding import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Result):
    """A piece of a document. Offsets count characters of the parsed text; ``end`` is exclusive."""

    text: str
    ordinal: int = 0
    start: int = 0
    end: int = 0
    token_count: int = 0
    heading_path: tuple[str, ...] = ()
    page: int | None = None
    page_start: int | None = None
    page_end: int | None = None
    chunk_type: str = "parent"
    chunk_index: int = 0
    chapter_id: str | None = None
    story_time: int | None = None
    entity_names: tuple[str, ...] = ()
    summary: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(Passage):
    """A chunk of what is published. ``searched`` is False for a parent, which is only read with its children;
    ``window`` is the text that is read with a sentence. ``edited``: its text was changed by hand."""

    chunk_id: str
    document_id: str
    namespace: str = ""
    generation: int = 0
    parent_id: str | None = None
    window: str | None = None
    searched: bool = True
    enabled: bool = True
    etag: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source_id: str = ""
    source_uri: str | None = None
    edited: bool = False
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkResult(Result):
    """The outcome of one chunk: updated, unchanged, deleted, or failed with a code and a sentence. ``repeated_in``: chunks
    that overlap it and still have words that the edit took out."""

    chunk_id: str
    status: str
    etag: str | None = None
    code: str | None = None
    detail: str | None = None
    replacement_pending: bool = False
    repeated_in: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedChunk(Passage):
    """A chunk that a document would have. ``parent``: the ordinal of the parent it would be part of."""

    parent: int | None = None
    embedding_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview(Result):
    """What a document would become. Nothing of it was stored."""

    title: str | None = None
    chunking: Mapping[str, Any] = field(default_factory=dict)
    chunks: tuple[PreviewedChunk, ...] = ()
    parents: tuple[PreviewedChunk, ...] = ()
