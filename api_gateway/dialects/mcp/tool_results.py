"""Texts, namespaces and jobs as the MCP tools give them. Everything here blocks."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from api_gateway.dialects.mcp.tool_shapes import FetchIn
from api_gateway.gateway import Gateway
from api_gateway.http import responses as wire
from api_gateway.http.fields import tidy_document_id, tidy_namespace
from api_gateway.http.problems import Problem
from api_gateway.resources.jobs import known_id, view_of
from pipeline.answer.mask_answers import masked_value
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.chunk_edit_store import ChunkEdits, OwnedChunk, Position
from pipeline.documents.document_view_store import DocumentView, DocumentViews
from pipeline.documents.text import joined
from pipeline.privacy.redaction import MaskedKind
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.tenant_store import Principal

_PAGE = 500  # chunks read at a time
NAMESPACES_PER_PAGE = 100
_DOCUMENTS_SHOWN = 50
_JOB_FIELDS = ("job_id", "namespace", "status", "total", "succeeded", "failed", "cancelled", "chunks")
_JOB_ERRORS = 20


def found_id(namespace: str, document_id: str) -> str:
    """The id under which a search names a document: no namespace has a slash."""
    return f"{namespace}/{document_id}"


def link(base_url: str, namespace: str, document_id: str, source_uri: object) -> str:
    """Where people can look at a document: its own address, or its page in the interface."""
    if isinstance(source_uri, str) and source_uri.startswith(("http://", "https://")):
        return source_uri
    return f"{base_url}v1/documents/{quote(document_id, safe='')}?namespace={quote(namespace, safe='')}"


def namespaces(
    tenant_id: TenantId, gateway: Gateway, *, after: str | None = None, limit: int = NAMESPACES_PER_PAGE
) -> dict[str, Any]:
    """One page of namespaces, and the name to go on after."""
    with unit_of_work(gateway.resources.mysql) as work:
        views = Namespaces(work.connection, tenant_id).views(after=after, limit=limit + 1)
    shown = [
        {
            "namespace": view.namespace,
            "documents": view.documents,
            "chunks": view.chunks,
            "created_at": view.created_at,
        }
        for view in views[:limit]
    ]
    return {"namespaces": shown, "next": shown[-1]["namespace"] if len(views) > limit else None}


async def namespace(tenant_id: TenantId, name: str, gateway: Gateway) -> dict[str, Any]:
    """A namespace with its first documents. Raises Problem 404."""
    try:
        known = Namespace(tidy_namespace(name))
    except ValueError:
        raise Problem(404, "namespace_not_found", "There is no such namespace.") from None
    await gateway.namespaces.require(tenant_id, [known])
    views = await gateway.run(_first_documents, tenant_id, known, gateway)
    documents = [
        {"id": found_id(known, view.document_id), "title": view.fields.title, "chunks": view.chunk_count}
        for view in views[:_DOCUMENTS_SHOWN]
    ]
    return {"namespace": known, "documents": documents, "more": len(views) > _DOCUMENTS_SHOWN}


def _first_documents(tenant_id: TenantId, name: Namespace, gateway: Gateway) -> list[DocumentView]:
    with unit_of_work(gateway.resources.mysql) as work:
        return DocumentViews(work.connection, tenant_id).views(namespace=name, after=None, limit=_DOCUMENTS_SHOWN + 1)


def job(tenant_id: TenantId, job_id: str, gateway: Gateway) -> dict[str, Any]:
    """How far a job is. Raises Problem 404."""
    view = wire.job(view_of(tenant_id, known_id(job_id), gateway))
    return {**{name: view[name] for name in _JOB_FIELDS}, "errors": view["errors"][:_JOB_ERRORS]}


def fetched(
    asked: FetchIn, principal: Principal, gateway: Gateway, *, base_url: str, hide: Collection[MaskedKind]
) -> dict[str, Any]:
    """A document or a passage, a stretch of its text; ``hide``: what is masked in it. Raises Problem 404."""
    with unit_of_work(gateway.resources.mysql) as work:
        edits = ChunkEdits(work.connection, principal.tenant_id)
        chunk = _chunk(asked.id, edits)
        scope = _document(asked.id) if chunk is None else _of(chunk)
        view = DocumentViews(work.connection, principal.tenant_id).view(*scope)
        if view is None or view.generation is None:
            raise _not_found()
        chunks = [chunk] if chunk is not None else _chunks(edits, *scope)
    text = joined(each.passage for each in chunks)
    shown: dict[str, Any] = {"title": view.fields.title or view.document_id, "text": text, "metadata": _metadata(view)}
    if hide:
        shown = masked_value(shown, hide)
    stretch = shown["text"][asked.offset : asked.offset + asked.max_chars]
    ends = asked.offset + len(stretch)
    more = {"characters": len(shown["text"]), **({"next_offset": ends} if ends < len(shown["text"]) else {})}
    return {
        "id": asked.id,
        "title": shown["title"],
        "text": stretch,
        "url": link(base_url, *scope, view.source_uri),
        "metadata": {**shown["metadata"], **more, **({"chunk_id": chunk.chunk_id} if chunk else {})},
    }


def _chunk(given: str, edits: ChunkEdits) -> OwnedChunk | None:
    """The passage, if the id is that of one. Raises Problem 404 for the id of none."""
    try:
        chunk_id = ChunkId(str(uuid.UUID(given)))
    except ValueError:
        return None
    found = edits.named([chunk_id]).get(chunk_id)
    if found is None or not found.enabled:
        raise _not_found()
    return found


def _of(chunk: OwnedChunk) -> tuple[Namespace, DocumentId]:
    return chunk.generation.scope.namespace, chunk.generation.document_id


def _document(given: str) -> tuple[Namespace, DocumentId]:
    name, _, document_id = given.partition("/")
    try:
        return Namespace(tidy_namespace(name)), DocumentId(tidy_document_id(document_id))
    except ValueError:
        raise _not_found() from None


def _chunks(edits: ChunkEdits, name: Namespace, document_id: DocumentId) -> list[OwnedChunk]:
    """The document's passages that searches see; their parents say nothing that they do not."""
    found: list[OwnedChunk] = []
    after: Position | None = None
    while page := edits.page(name, document_id=document_id, after=after, limit=_PAGE):
        found += [chunk for chunk in page if chunk.searched and chunk.enabled]
        after = page[-1].place
    return found


def _metadata(view: DocumentView) -> dict[str, Any]:
    told = wire.document(view)
    known = {
        name: told[name]
        for name in ("namespace", "document_id", "author", "type", "tags", "published_at", "generation", "updated_at")
    }
    return {**view.fields.metadata, **{name: value for name, value in known.items() if value not in (None, [], ())}}


def _not_found() -> Problem:
    detail = "There is no such document; use the id of a search result, which is namespace/document_id."
    return Problem(404, "document_not_found", detail)
