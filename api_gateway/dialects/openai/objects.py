"""The objects of this dialect as they are sent. Times are seconds since the epoch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel


class FileObject(BaseModel):
    """A file that is kept."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None


class FileList(BaseModel):
    """One page of files."""

    object: Literal["list"]
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deleted(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["file", "vector_store.deleted", "vector_store.file.deleted"]
    deleted: Literal[True]


class FileCounts(BaseModel):
    """How many files stand where."""

    in_progress: int
    completed: int
    failed: int
    cancelled: int
    total: int


class VectorStoreObject(BaseModel):
    """A vector store, which is a namespace."""

    id: str
    object: Literal["vector_store"]
    created_at: int
    name: str
    description: str | None
    status: Literal["expired", "in_progress", "completed"]
    usage_bytes: int
    file_counts: FileCounts
    last_active_at: int
    metadata: dict[str, str]
    expires_after: dict[str, Any] | None
    expires_at: int | None


class VectorStoreList(BaseModel):
    """One page of vector stores."""

    object: Literal["list"]
    data: list[VectorStoreObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class LastError(BaseModel):
    """Why a file became no document."""

    code: Literal["server_error", "unsupported_file", "invalid_file"]
    message: str


class StoreFileObject(BaseModel):
    """A file in a vector store."""

    id: str
    object: Literal["vector_store.file"]
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "failed", "cancelled"]
    last_error: LastError | None
    usage_bytes: int
    attributes: dict[str, str | float | bool]
    chunking_strategy: dict[str, Any]


class StoreFileList(BaseModel):
    """One page of files in a vector store."""

    object: Literal["list"]
    data: list[StoreFileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class TextPart(BaseModel):
    """A piece of text."""

    type: Literal["text"]
    text: str


class StoreFileContent(BaseModel):
    """The text that was read from a file, in the pieces that are searched."""

    object: Literal["vector_store.file_content.page"]
    data: list[TextPart]
    has_more: bool
    next_page: str | None


class FileBatchObject(BaseModel):
    """Files that were put into a vector store together."""

    id: str
    object: Literal["vector_store.files_batch"]
    created_at: int
    vector_store_id: str
    status: Literal["in_progress", "completed", "cancelled", "failed"]
    file_counts: FileCounts


class SearchResult(BaseModel):
    """A passage that was found. ``score`` is comparable between searches, and none has more than one above it."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: list[TextPart]


class SearchResultPage(BaseModel):
    """The results, best first. ``search_query``: what was searched, as it was sent or rewritten."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[SearchResult]
    has_more: bool
    next_page: str | None
