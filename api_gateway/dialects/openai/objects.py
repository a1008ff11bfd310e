"""The JSON objects of this dialect. Times are seconds since the epoch."""

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel
from starlette.responses import Response

from api_gateway.http.responses import json_response
from pipeline.administration.edit_vector_stores import shown_attributes
from pipeline.chunking.strategies.prose import SENTENCES
from pipeline.records import Chunking, FailureReason, JobId
from pipeline.vector_stores.collection import STATUSES, Attached, StoredFile, Tally, VectorStore

T = TypeVar("T")

BATCH_PREFIX = "vsfb_"
_SOONEST_MS, _LATEST_MS = 250, 2000


def file(stored: StoredFile) -> dict[str, Any]:
    """Return a stored file."""
    return {
        "id": stored.file_id,
        "object": "file",
        "bytes": stored.body_bytes,
        "created_at": seconds(stored.created_at),
        "expires_at": None if stored.expires_at is None else seconds(stored.expires_at),
        "filename": stored.filename,
        "purpose": stored.purpose,
        "status": "processed",
        "status_details": None,
    }


def store(collection: VectorStore, tally: Tally) -> dict[str, Any]:
    """Return a vector store with its file counts."""
    days = collection.expires_after_days
    busy = tally.of("in_progress") > 0
    has_expired = collection.has_expired(datetime.now(UTC))
    return {
        "id": collection.namespace,
        "object": "vector_store",
        "created_at": seconds(collection.created_at),
        "name": collection.name,
        "description": collection.description,
        "status": "expired" if has_expired else "in_progress" if busy else "completed",
        "usage_bytes": tally.body_bytes,
        "file_counts": counts(tally),
        "last_active_at": seconds(collection.last_active_at),
        "metadata": dict(collection.metadata),
        "expires_after": None if days is None else {"anchor": "last_active_at", "days": days},
        "expires_at": None if collection.expires_at is None else seconds(collection.expires_at),
    }


def store_file(attached: Attached) -> dict[str, Any]:
    """Return a file in a vector store."""
    return {
        "id": attached.document_id,
        "object": "vector_store.file",
        "created_at": seconds(attached.created_at),
        "vector_store_id": attached.namespace,
        "status": attached.status,
        "last_error": _last_error(attached) if attached.status == "failed" else None,
        "usage_bytes": attached.body_bytes if attached.status == "completed" else 0,
        "attributes": shown_attributes(attached.attributes),
        "chunking_strategy": _chunking(attached.chunking),
    }


def batch(job_id: JobId, store_id: str, created_at: datetime, tally: Tally) -> dict[str, Any]:
    """Return a job as a batch of files. It failed only if every file of it did."""
    if tally.of("in_progress"):
        status = "in_progress"
    elif tally.of("cancelled"):
        status = "cancelled"
    else:
        status = "failed" if tally.total and tally.of("failed") == tally.total else "completed"
    return {
        "id": BATCH_PREFIX + uuid.UUID(job_id).hex,
        "object": "vector_store.files_batch",
        "created_at": seconds(created_at),
        "vector_store_id": store_id,
        "status": status,
        "file_counts": counts(tally),
    }


def job_of(batch_id: str) -> JobId | None:
    """Return the job of a batch; None for an invalid id."""
    try:
        return JobId(str(uuid.UUID(hex=batch_id.removeprefix(BATCH_PREFIX)))) if batch_id[:5] == BATCH_PREFIX else None
    except ValueError:
        return None


def counts(tally: Tally) -> dict[str, int]:
    """Return the number of files in each state."""
    return {**{status: tally.of(status) for status in STATUSES}, "total": tally.total}


def page_response(entries: Sequence[dict[str, Any]], *, has_more: bool) -> Response:
    """Return one page of a list."""
    return json_response(
        {
            "object": "list",
            "data": entries,
            "first_id": entries[0]["id"] if entries else None,
            "last_id": entries[-1]["id"] if entries else None,
            "has_more": has_more,
        }
    )


def polled_response(shown: dict[str, Any], *, waiting: int) -> Response:
    """Return an object that changes while files are ``waiting``, with a header for when to poll again."""
    pause_ms = min(_LATEST_MS, _SOONEST_MS + waiting)
    return json_response(shown, headers={"openai-poll-after-ms": str(pause_ms)})


def seconds(moment: datetime) -> int:
    """Return a time in seconds since the epoch."""
    return int(moment.timestamp())


def _chunking(chunking: Chunking | None) -> dict[str, Any]:
    if chunking is None or chunking.strategy != SENTENCES.name:
        return {"type": "other"}
    overlap = round(chunking.overlap * chunking.max_tokens)
    return {"type": "static", "static": {"max_chunk_size_tokens": chunking.max_tokens, "chunk_overlap_tokens": overlap}}


def _last_error(attached: Attached) -> dict[str, str]:
    if attached.error_code == "unsupported_media_type":
        code = "unsupported_file"
    elif attached.failure in (FailureReason.GAVE_UP, FailureReason.BUG):
        code = "server_error"
    else:
        code = "invalid_file"
    return {"code": code, "message": attached.error_detail or attached.error_code or "The file could not be ingested."}


class FileObject(BaseModel):
    """A stored file."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None


class ObjectPage(BaseModel, Generic[T]):
    """The base of pages of a list."""

    object: Literal["list"]
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileList(ObjectPage[FileObject]):
    """One page of files."""


class Deleted(BaseModel):
    """The deleted object."""

    id: str
    object: Literal["file", "vector_store.deleted", "vector_store.file.deleted"]
    deleted: Literal[True]


class FileCounts(BaseModel):
    """The number of files in each state."""

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


class VectorStoreList(ObjectPage[VectorStoreObject]):
    """One page of vector stores."""


class LastError(BaseModel):
    """The reason for a file's failure."""

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


class StoreFileList(ObjectPage[StoreFileObject]):
    """One page of files in a vector store."""


class TextPart(BaseModel):
    """A piece of text."""

    type: Literal["text"]
    text: str


class StoreFileContent(BaseModel):
    """The text of a file, in the pieces that are searched."""

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
    """A passage from the search. ``score`` is comparable between searches and does not increase down the list."""

    file_id: str
    filename: str
    score: float
    attributes: dict[str, str | float | bool]
    content: list[TextPart]


class SearchResultPage(BaseModel):
    """The results, best first. ``search_query``: the query as it was sent or rewritten."""

    object: Literal["vector_store.search_results.page"]
    search_query: list[str]
    data: list[SearchResult]
    has_more: bool
    next_page: str | None
