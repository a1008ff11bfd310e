"""Answers shared by several resources: their shapes, and the conversion of records. Tests compare both."""

from dataclasses import fields
from typing import Any

from starlette.responses import Response

from api_gateway.http.fields import shown
from api_gateway.http.responses import json_response
from api_gateway.resources.ingestion.uploads import chunking_json
from api_gateway.resources.route_parts import Page
from chordwise.contract.chunk import Chunk
from chordwise.contract.document import Document, Source
from chordwise.contract.namespace import Namespace
from pipeline.document_sources import original_type
from pipeline.documents.document_views import DocumentView, encoding_fields
from pipeline.filters.readers import PUBLIC, Principals
from pipeline.ingestion.accept import AcceptedJob
from pipeline.records import DocumentFields
from workers import dispatch


class DocumentPage(Page[Document]):
    """Documents by namespace and id."""


class ChunkPage(Page[Chunk]):
    """Chunks by parent and position in it; parents, and chunks without one, come first."""


class NamespacePage(Page[Namespace]):
    """Namespaces by name."""


def accepted_response(accepted: AcceptedJob, *, path: str = "jobs") -> Response:
    """Return 202 for a job in the ledger, found under ``path``."""
    body: dict[str, Any] = {"job_id": accepted.job_id, "status": "queued", "total": accepted.total}
    if accepted.renamed:
        body["renamed"] = accepted.renamed
    if (reason := dispatch.alarm()) is not None:
        body["delayed"] = reason
    return json_response(body, status=202, headers={"Location": f"/v1/{path}/{accepted.job_id}"})


def document_json(view: DocumentView, *, reads_as: Principals) -> dict[str, Any]:
    """Return a document as it is sent to a caller, who sees those of its readers that are its own principals."""
    readers = view.fields.readers or (PUBLIC,)
    if view.fields.readers and reads_as is not None:
        readers = tuple(reader for reader in readers if reader in reads_as)
    origin = {"kind": view.source_kind, "uri": view.source_uri, "media_type": original_type(view.media_type)}
    return shown(
        Document,
        view,
        **{field.name: getattr(view.fields, field.name) for field in fields(DocumentFields)} | {"readers": readers},
        source=shown(Source, view, **origin, **encoding_fields(view.encoding)),
        chunking=chunking_json(view.chunking),
        chunks=view.chunk_count,
        bytes=view.body_bytes,
    )
