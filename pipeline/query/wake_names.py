"""The channel on which workers announce progress to gateways, and the names announced there."""

from typing import Literal

from pipeline.records import JobId, QueryId, TenantId

WAKE_CHANNEL = "chordwise:wake"


def wake_name(
    kind: Literal["query", "query-step", "job", "progress"], tenant_id: TenantId, name: QueryId | JobId
) -> str:
    """Return the message on the wake channel that announces the end of a query or a job, or meanwhile a channel's result
    (``query-step``) or a job's ``progress``."""
    return f"{tenant_id}:{kind}:{name}"
