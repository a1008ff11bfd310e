"""Doorways to retrieval: the header tasks of a query's chord and its callback."""

from __future__ import annotations

from typing import Any

from celery import shared_task

from pipeline.flows import recall
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.stores.queries import envelope_from_wire, envelope_to_wire
from workers.base import LoggedTask
from workers.names import TaskName
from workers.resources import channels, for_queries


@shared_task(name=TaskName.RECALL.value, base=LoggedTask)
def recall_channel(tenant_id: str, query_id: str, channel: str) -> dict[str, Any] | None:
    """Ask one channel. Always returns: a header that raises would leave its chord without a callback."""
    found = recall.recall(TenantId(tenant_id), QueryId(query_id), channels()[ChannelName(channel)], for_queries())
    return None if found is None else envelope_to_wire(found)


@shared_task(name=TaskName.ANSWER.value, base=LoggedTask)
def answer(envelopes: Any, tenant_id: str, query_id: str) -> None:
    """Put the answer together. ``envelopes``: those of all headers, or the one of a single channel."""
    listed = envelopes if isinstance(envelopes, list) else [envelopes]
    arrived = [envelope_from_wire(envelope) for envelope in listed if envelope is not None]
    recall.answer(TenantId(tenant_id), QueryId(query_id), arrived, for_queries(), channels())
