"""Texts, namespaces and jobs in the form of the MCP tools. Every function blocks."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from typing import Any
from urllib.parse import quote

from api_gateway.dialects.mcp.tool_shapes import FetchIn, NamespaceOut
from api_gateway.gateway import Gateway
from api_gateway.http.fields import shown, tidy_document_id, tidy_namespace
from api_gateway.http.problems import Problem
from api_gateway.resources.jobs import known_id, view_of
from api_gateway.resources.route_parts import existing
from api_gateway.resources.shapes import document_json, job_json
from pipeline.administration import list_documents
from pipeline.administration.list_chunks import read_passages
from pipeline.answer.mask_answers import masked_value
from pipeline.documents.document_views import DocumentView
from pipeline.documents.text import joined
from pipeline.privacy.redaction import MaskedKind
from pipeline.records import ChunkId, DocumentId, Namespace, TenantId
from pipeline.tenants.accounts import Principal

NAMESPACES_PER_PAGE = 100
_DOCUMENTS_SHOWN = 50
_JOB_FIELDS = ("job_id", "namespace", "status", "total", "succeeded", "failed", "cancelled", "chunks")
_JOB_ERRORS = 20


def found_id(namespace: str, document_id: str) -> str:
    """Return the id of a document in search results. Unambiguous, because no namespace contains a slash."""
    return f"{namespace}/{document_id}"


def link(base_url: str, namespace: str, document_id: str, source_uri: object) -> str:
    """Return a link for people: the document's own address, or its page in the interface."""
    if isinstance(source_uri, str) and source_uri.startswith(("http://", "https://")):
        return source_uri
    return f"{base_url}v1/documents/{quote(document_id, safe='')}?namespace={quote(namespace, safe='')}"


def namespaces(
    tenant_id: TenantId, gateway: Gateway, *, after: str | None = None, limit: int = NAMESPACES_PER_PAGE
) -> dict[str, Any]:
    """Return one page of namespaces, and the name to continue after."""
    views = list_documents.list_namespaces(tenant_id, after, limit + 1, gateway.resources)
    rows = [shown(NamespaceOut, view) for view in views[:limit]]
    return {"namespaces": rows, "next": rows[-1]["namespace"] if len(views) > limit else None}


async def namespace(tenant_id: TenantId, name: str, gateway: Gateway) -> dict[str, Any]:
    """Return a namespace with its first documents. Raises Problem 404."""
    try:
        known = Namespace(tidy_namespace(name))
    except ValueError:
        raise Problem(404, "namespace_not_found", "There is no such namespace.") from None
    await gateway.namespaces.require(tenant_id, [known])
    views = await gateway.run(
        list_documents.list_documents, tenant_id, gateway.resources, namespace=known, limit=_DOCUMENTS_SHOWN + 1
    )
    documents = [
        {"id": found_id(known, view.document_id), "title": view.fields.title, "chunks": view.chunk_count}
        for view in views[:_DOCUMENTS_SHOWN]
    ]
    return {"namespace": known, "documents": documents, "more": len(views) > _DOCUMENTS_SHOWN}


def job(tenant_id: TenantId, job_id: str, gateway: Gateway) -> dict[str, Any]:
    """Return a job's progress. Raises Problem(404)."""
    view = job_json(view_of(tenant_id, known_id(job_id), gateway))
    return {**{name: view[name] for name in _JOB_FIELDS}, "errors": view["errors"][:_JOB_ERRORS]}


def fetched(
    asked: FetchIn, principal: Principal, gateway: Gateway, *, base_url: str, hide: Collection[MaskedKind]
) -> dict[str, Any]:
    """Return a section of the text of a document or passage, masked by ``hide``. Raises Problem(404)."""
    chunk_id = _chunk_id(asked.id)
    passages = read_passages(principal.tenant_id, chunk_id or _document(asked.id), gateway.resources)
    view, chunks = existing(passages, _not_found())
    text = joined(chunk.passage for chunk in chunks)
    content: dict[str, Any] = {
        "title": view.fields.title or view.document_id,
        "text": text,
        "metadata": _metadata(view),
    }
    if hide:
        content = masked_value(content, hide)
    section = content["text"][asked.offset : asked.offset + asked.max_chars]
    end, length = asked.offset + len(section), len(content["text"])
    size = {"characters": length, **({"next_offset": end} if end < length else {})}
    return {
        "id": asked.id,
        "title": content["title"],
        "text": section,
        "url": link(base_url, view.namespace, view.document_id, view.source_uri),
        "metadata": {**content["metadata"], **size, **({"chunk_id": chunk_id} if chunk_id else {})},
    }


def _chunk_id(given: str) -> ChunkId | None:
    """Return the id if it is a passage's, None if it is a document's."""
    try:
        return ChunkId(str(uuid.UUID(given)))
    except ValueError:
        return None


def _document(given: str) -> tuple[Namespace, DocumentId]:
    name, _, document_id = given.partition("/")
    try:
        return Namespace(tidy_namespace(name)), DocumentId(tidy_document_id(document_id))
    except ValueError:
        raise _not_found() from None


def _metadata(view: DocumentView) -> dict[str, Any]:
    document = document_json(view)
    names = ("namespace", "document_id", "author", "type", "tags", "published_at", "generation", "updated_at")
    described = {name: document[name] for name in names if document[name] not in (None, [], ())}
    return {**view.fields.metadata, **described}


def _not_found() -> Problem:
    detail = "There is no such document; use the id of a search result, which is namespace/document_id."
    return Problem(404, "document_not_found", detail)
