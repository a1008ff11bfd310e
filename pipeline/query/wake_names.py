"""The channel on which workers announce progress to gateways, and the names announced there."""

from __future__ import annotations

from pipeline.records import JobId, QueryId, TenantId

WAKE_CHANNEL = "chordwise:wake"


def wake_name(kind: str, tenant_id: TenantId, name: QueryId | JobId) -> str:
    """Return the message on the wake channel that announces the end of a query or job."""
    return f"{tenant_id}:{kind}:{name}"


def step_name(tenant_id: TenantId, query_id: QueryId) -> str:
    """Return the message on the wake channel that announces a channel's result, for callers that follow a query."""
    return f"{tenant_id}:query-step:{query_id}"


def progress_name(tenant_id: TenantId, job_id: JobId) -> str:
    """Return the message on the wake channel that announces progress of an unfinished job."""
    return wake_name("progress", tenant_id, job_id)
