"""Rows of the audit as they are sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from api_gateway.wire.shapes import Shape
from pipeline.stores.audit import AuditRow


class AuditActor(Shape):
    """Who it was: the key's id in the audit, its name and scopes, never the key. An empty id is the installation."""

    key_id: str
    key_name: str
    scopes: list[str]


class AuditEntry(Shape):
    """One search or one write. `ids` names the first hundred of `count`: the documents found, or what was written."""

    audit_id: str
    at: datetime
    tenant_id: str
    action: str = Field(description="search, ingest, delete, chunk_edit …: docs/security-and-audit.md lists them.")
    actor: AuditActor
    request_id: str
    namespaces: list[str]
    ids: list[str]
    count: int
    status: str
    query_hash: str | None
    query_text: str | None = Field(description="Only if the installation keeps what was asked.")
    detail: dict[str, Any] = Field(description="Of a search: channels, hits, source_share, degraded, latency_ms …")


class AuditPage(Shape):
    """One page of the audit, newest first."""

    data: list[AuditEntry]
    next_cursor: str | None


def audit_entry(row: AuditRow, tenant_id: str) -> dict[str, Any]:
    """A row as it is sent."""
    return {
        "audit_id": row.audit_id,
        "at": row.at,
        "tenant_id": tenant_id,
        "action": row.action,
        "actor": {
            "key_id": row.actor.key_id,
            "key_name": row.actor.key_name,
            "scopes": list(row.actor.scopes),
        },
        "request_id": row.request_id,
        "namespaces": list(row.namespaces),
        "ids": list(row.ids),
        "count": row.count,
        "status": row.status,
        "query_hash": row.query_hash,
        "query_text": row.query_text,
        "detail": row.detail,
    }
