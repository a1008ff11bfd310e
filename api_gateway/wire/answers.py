"""What the gateway answers, as JSON: see `shapes` for the description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from starlette.responses import Response

from api_gateway.wire.chunking import chunking_json
from api_gateway.wire.shapes import Item, Namespace, SourceInfo
from pipeline.core.packing import original_type
from pipeline.flows.intake import Ticket
from pipeline.records import DocumentFields, Encoding
from pipeline.stores.document_views import DocumentView
from pipeline.stores.job_views import ItemView, JobView
from pipeline.stores.namespaces import NamespaceView
from pipeline.stores.source_views import SourceView
from pipeline.stores.usage import UsageRow


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """``value`` as JSON; moments are written with a Z."""
    content = orjson.dumps(value, option=orjson.OPT_UTC_Z)
    return Response(content, status_code=status, headers=headers, media_type="application/json")


def page_response(entries: Sequence[Any], cursor: str | None) -> Response:
    """One page of a list."""
    return json_response({"data": entries, "next_cursor": cursor})


def accepted_response(ticket: Ticket) -> Response:
    """202 for a job that stands in the ledger."""
    body: dict[str, Any] = {"job_id": ticket.job_id, "status": "queued", "total": ticket.total}
    if ticket.renamed:
        body["renamed"] = renamed(ticket)
    return json_response(body, status=202, headers={"Location": f"/v1/jobs/{ticket.job_id}"})


def renamed(ticket: Ticket) -> list[dict[str, Any]]:
    """The documents of a job that were stored under other ids, as they are sent."""
    return [
        {"ordinal": each.ordinal, "requested_id": each.requested_id, "document_id": each.document_id}
        for each in ticket.renamed
    ]


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
        "reused": view.reused,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
        "finished_at": view.finished_at,
        "paused_at": view.paused_at,
        "priority": view.priority,
        "waiting_reason": view.waiting_reason,
        "stages": view.stages,
        "outcomes": view.outcomes,
        "usage": usage(view.usage),
        "errors": [
            {"document_id": item.document_id, "code": item.code, "detail": item.detail, "pointer": item.pointer}
            for item in view.errors
        ],
    }


def usage(row: UsageRow) -> dict[str, Any]:
    """What embedding cost, as it is sent."""
    counts = row.counts
    return {
        "tokens": counts.tokens,
        "requests": counts.requests,
        "texts": counts.texts,
        "cached": counts.cached_texts,
        "saved_tokens": counts.saved_tokens,
        "cost": float(row.cost),
    }


def item(view: ItemView) -> dict[str, Any]:
    """An item as it is sent."""
    said = encoding(view.encoding)
    return {name: said[name] if name in said else getattr(view, name) for name in Item.model_fields}


def document(view: DocumentView) -> dict[str, Any]:
    """A document as it is sent."""
    return {
        "namespace": view.namespace,
        "document_id": view.document_id,
        "status": view.status,
        "generation": view.generation,
        **_fields(view.fields),
        "source": {
            "source_id": view.source_id,
            "kind": view.source_kind,
            "uri": view.source_uri,
            "media_type": original_type(view.media_type),
            **encoding(view.encoding),
            "page_start": view.page_start,
            "page_end": view.page_end,
        },
        "chunking": chunking_json(view.chunking),
        "duplicate_of": view.duplicate_of,
        "chunks": view.chunk_count,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
    }


def source(view: SourceView) -> dict[str, Any]:
    """A source as it is sent."""
    return {name: getattr(view, name) for name in SourceInfo.model_fields}


def encoding(found: Encoding | None) -> dict[str, Any]:
    """The encoding a document was read in, as it is sent."""
    return {
        "encoding": found.name if found else None,
        "encoding_probability": found.probability if found else None,
        "encoding_warning": found.warning if found else None,
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


def namespace(view: NamespaceView) -> dict[str, Any]:
    """A namespace as it is sent."""
    return {name: getattr(view, name) for name in Namespace.model_fields}
