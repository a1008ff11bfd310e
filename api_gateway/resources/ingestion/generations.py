"""Generations of a document as they are sent, and the request to go back to one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from api_gateway.http.fields import NamespaceName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.documents.generation_store import History


class RollbackRequest(Wire):
    """Which document is meant, and which of its kept generations; without one, whichever is kept."""

    tenant_id: str | None = None
    namespace: NamespaceName
    generation: Annotated[int, Field(ge=1)] | None = None


class GenerationShape(Shape):
    """One ingestion of a document. `previous` is what was shown before and can be gone back to until `kept_until`;
    `retired` is about to be dropped. `chunks` is null until it has been ingested, `bytes` the size of what was sent."""

    generation: int
    state: Literal["shown", "previous", "pending", "failed", "cancelled", "retired"]
    title: str | None
    created_at: datetime
    kept_until: datetime | None
    chunks: int | None
    content_hash: str
    bytes: int
    job_id: str


class GenerationList(Shape):
    """What is left of a document's generations, the newest first. `etag` is for `If-Match` of a rollback."""

    namespace: str
    document_id: str
    etag: str
    data: list[GenerationShape]


def history(namespace: str, document_id: str, found: History) -> dict[str, Any]:
    """A document's generations as they are sent."""
    data = [
        shown(GenerationShape, each, generation=each.number, chunks=each.chunk_count, bytes=each.body_bytes)
        for each in found.generations
    ]
    return {"namespace": namespace, "document_id": document_id, "etag": found.etag, "data": data}
