"""What the gateway answers, as JSON: see `shapes` for the description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import orjson
from starlette.responses import Response

from api_gateway.resources.ingestion.chunking_options import chunking_json
from api_gateway.resources.shapes import (
    Document,
    Item,
    Job,
    JobError,
    Namespace,
    Renamed,
    Source,
    SourceInfo,
    Usage,
    shown,
)
from pipeline.document_sources import original_type
from pipeline.documents.document_view_store import DocumentView
from pipeline.documents.source_view_store import SourceView
from pipeline.ingestion.accept import AcceptedJob
from pipeline.jobs.job_view_store import ItemView, JobView
from pipeline.records import DocumentFields, Encoding
from pipeline.tenants.namespace_store import NamespaceView
from pipeline.tenants.usage_store import UsageRow


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON; moments are written with a Z."""
    content = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def page_response(entries: Sequence[Any], cursor: str | None) -> Response:
    """One page of a list."""
    return json_response({"data": entries, "next_cursor": cursor})


def accepted_response(ticket: AcceptedJob) -> Response:
    """202 for a job that stands in the ledger."""
    body: dict[str, Any] = {"job_id": ticket.job_id, "status": "queued", "total": ticket.total}
    if ticket.renamed:
        body["renamed"] = renamed(ticket)
    return json_response(body, status=202, headers={"Location": f"/v1/jobs/{ticket.job_id}"})


def renamed(ticket: AcceptedJob) -> list[dict[str, Any]]:
    """The documents of a job that were stored under other ids, as they are sent."""
    return [shown(Renamed, each) for each in ticket.renamed]


def job(view: JobView) -> dict[str, Any]:
    """A job as it is sent."""
    return shown(Job, view, usage=usage(view.usage), errors=[shown(JobError, item) for item in view.errors])


def usage(row: UsageRow) -> dict[str, Any]:
    """What embedding cost, as it is sent."""
    return shown(Usage, row.counts, cached=row.counts.cached_texts, cost=float(row.cost))


def item(view: ItemView) -> dict[str, Any]:
    """An item as it is sent."""
    return shown(Item, view, **encoding(view.encoding))


def document(view: DocumentView) -> dict[str, Any]:
    """A document as it is sent."""
    place = {"kind": view.source_kind, "uri": view.source_uri, "media_type": original_type(view.media_type)}
    given: dict[str, Any] = {
        **{field.name: getattr(view.fields, field.name) for field in fields(DocumentFields)},
        "source": shown(Source, view, **place, **encoding(view.encoding)),
        "chunking": chunking_json(view.chunking),
        "chunks": view.chunk_count,
    }
    return shown(Document, view, **given)


def source(view: SourceView) -> dict[str, Any]:
    """A source as it is sent."""
    return shown(SourceInfo, view)


def encoding(found: Encoding | None) -> dict[str, Any]:
    """The encoding a document was read in, as it is sent."""
    return {
        "encoding": found.name if found else None,
        "encoding_probability": found.probability if found else None,
        "encoding_warning": found.warning if found else None,
    }


def namespace(view: NamespaceView) -> dict[str, Any]:
    """A namespace as it is sent."""
    return shown(Namespace, view)
