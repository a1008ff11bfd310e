"""The channels on which workers announce progress to gateways, and the names announced there."""

from typing import Literal

from pipeline.records import JobId, QueryId, TenantId

WAKE_CHANNEL = "chordwise:wake"  # of all gateways

_END_OF_NAME = b"\n"  # in a message that brings an answer


def wake_name(
    kind: Literal["query", "query-step", "job", "progress"], tenant_id: TenantId, name: QueryId | JobId
) -> str:
    """Return the message on the wake channel that announces the end of a query or a job, or meanwhile a channel's result
    (``query-step``) or a job's ``progress``."""
    return f"{tenant_id}:{kind}:{name}"


def own_channel(process_id: str) -> str:
    """Return the channel of one gateway, on which the answers come that its clients wait for."""
    return f"{WAKE_CHANNEL}:{process_id}"


def read_message(message: bytes) -> tuple[str, bytes | None]:
    """Return the name that a message announces, and the answer that it brings, if any, as it is stored."""
    name, brings, answer = message.partition(_END_OF_NAME)
    return name.decode(), answer if brings else None
