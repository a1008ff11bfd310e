"""What the gateway answers: shapes for the description of the interface, and their JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from pipeline.flows.intake import Ticket
from pipeline.records import DocumentFields
from pipeline.stores.chunks import StoredChunk
from pipeline.stores.documents import DocumentView
from pipeline.stores.job_views import ItemView, JobView
from pipeline.stores.namespaces import NamespaceView


class Shape(BaseModel):
    """The base of all answers; they are described by these classes and written directly, for speed."""

    model_config = ConfigDict(extra="forbid")


class JobAccepted(Shape):
    """The documents are durable; a worker will take them."""

    job_id: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed"]
    total: int


class JobError(Shape):
    """Why one document of a job was not ingested."""

    document_id: str | None
    code: str
    detail: str | None
    pointer: str | None


class Job(Shape):
    """A job with its counters. `stages`: how many documents have finished each step."""

    job_id: str
    namespace: str
    status: Literal["queued", "running", "succeeded", "partly_failed", "failed", "cancelled"]
    total: int
    succeeded: int
    failed: int
    cancelled: int
    chunks: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    stages: dict[str, int]
    errors: list[JobError]


class Item(Shape):
    """One document of a job."""

    ordinal: int
    document_id: str | None
    status: Literal["queued", "running", "succeeded", "failed", "cancelled"]
    stage: str
    outcome: str | None
    chunks: int
    attempts: int
    code: str | None
    detail: str | None
    pointer: str | None
    updated_at: datetime


class Source(Shape):
    """Where a document came from."""

    uri: str | None
    media_type: str


class Document(Shape):
    """A document without its text. `generation` is null until searches can see it."""

    namespace: str
    document_id: str
    generation: int | None
    title: str | None
    author: str | None
    type: str | None
    tags: list[str]
    published_at: datetime | None
    story_time: int | None
    metadata: dict[str, Any]
    source: Source
    chunks: int
    created_at: datetime
    updated_at: datetime


class Chunk(Shape):
    """A passage of the generation that searches see. Offsets count characters of the parsed text; `end` is exclusive."""

    chunk_id: str
    namespace: str
    document_id: str
    generation: int
    ordinal: int
    text: str
    heading_path: list[str]
    page: int | None
    start: int
    end: int
    token_count: int


class Namespace(Shape):
    """A knowledge base and how much is searchable in it."""

    namespace: str
    documents: int
    chunks: int
    created_at: datetime


class JobPage(Shape):
    """Jobs, newest first."""

    data: list[Job]
    next_cursor: str | None


class ItemPage(Shape):
    """Items in the order they were sent."""

    data: list[Item]
    next_cursor: str | None


class DocumentPage(Shape):
    """Documents by namespace and id."""

    data: list[Document]
    next_cursor: str | None


class ChunkPage(Shape):
    """Chunks in the order of the text."""

    data: list[Chunk]
    next_cursor: str | None


class NamespacePage(Shape):
    """Namespaces by name."""

    data: list[Namespace]
    next_cursor: str | None


class QueryAccepted(Shape):
    """A query that has no answer yet."""

    query_id: str
    status: Literal["queued", "running"]


class ErrorPlace(Shape):
    """A place at fault: a JSON Pointer into the body, or the name of a parameter when `in` says where it stands."""

    model_config = ConfigDict(extra="allow")

    pointer: str
    detail: str


class ProblemBody(Shape):
    """An error (RFC 9457). `code` is stable and meant for programs."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: list[ErrorPlace] | None = None


class DependencyHealth(Shape):
    """One thing the gateway needs."""

    status: Literal["ok", "down", "unknown"]
    latency_ms: float | None = None
    detail: str | None = None


class Readiness(Shape):
    """Whether requests can be served, dependency by dependency. `workers` tells, and decides nothing."""

    status: Literal["ready", "not_ready"]
    version: str
    dependencies: dict[str, DependencyHealth]


class Alive(Shape):
    """The process answers."""

    status: Literal["ok"]


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON; moments are written with a Z."""
    content = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def page_response(entries: Sequence[Any], cursor: str | None) -> Response:
    """One page of a list."""
    return json_response({"data": entries, "next_cursor": cursor})


def accepted_response(ticket: Ticket) -> Response:
    """202 for a job that stands in the ledger."""
    body = {"job_id": ticket.job_id, "status": "queued", "total": ticket.total}
    return json_response(body, status=202, headers={"Location": f"/v1/jobs/{ticket.job_id}"})


def job(view: JobView) -> dict[str, Any]:
    """A job as it is sent."""
    return {
        "job_id": view.job_id,
        "namespace": view.namespace,
        "status": view.status,
        "total": view.total,
        "succeeded": view.succeeded,
        "failed": view.failed,
        "cancelled": view.cancelled,
        "chunks": view.chunks,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
        "finished_at": view.finished_at,
        "stages": view.stages,
        "errors": [
            {"document_id": item.document_id, "code": item.code, "detail": item.detail, "pointer": item.pointer}
            for item in view.errors
        ],
    }


def item(view: ItemView) -> dict[str, Any]:
    """An item as it is sent."""
    return {name: getattr(view, name) for name in Item.model_fields}


def document(view: DocumentView) -> dict[str, Any]:
    """A document as it is sent."""
    return {
        "namespace": view.namespace,
        "document_id": view.document_id,
        "generation": view.generation,
        **_fields(view.fields),
        "source": {"uri": view.source_uri, "media_type": view.media_type.partition(";")[0]},
        "chunks": view.chunk_count,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
    }


def _fields(fields: DocumentFields) -> dict[str, Any]:
    return {
        "title": fields.title,
        "author": fields.author,
        "type": fields.type,
        "tags": fields.tags,
        "published_at": fields.published_at,
        "story_time": fields.story_time,
        "metadata": fields.metadata,
    }


def chunk(stored: StoredChunk) -> dict[str, Any]:
    """A chunk as it is sent."""
    return {name: getattr(stored, name) for name in Chunk.model_fields}


def namespace(view: NamespaceView) -> dict[str, Any]:
    """A namespace as it is sent."""
    return {name: getattr(view, name) for name in Namespace.model_fields}
