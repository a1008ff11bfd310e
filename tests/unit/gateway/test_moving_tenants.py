"""Requests that read more than once, while their tenant moves to another pair of stores, where the old rows are deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import orjson

from api_gateway.dialects.openai import vector_store_files
from api_gateway.gateway import SharedReads
from api_gateway.http.caller import Caller
from api_gateway.live.wakes import Wakes, stays_connected
from api_gateway.resources import webhooks
from pipeline.records import TenantId
from pipeline.webhooks.endpoint import Delivery, DeliveryState, Event

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Gateway:
    """A gateway whose tenant is on the first of these pairs, and has moved to the next after each read."""

    def __init__(self, *pairs: str) -> None:
        self._pairs = list(pairs)
        self.shared_reads, self.wakes = SharedReads(), Wakes()

    @property
    def resources(self) -> str:
        return self._pairs[0]

    def leave(self) -> None:
        self._pairs = self._pairs[1:] or self._pairs

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


def caller_of(gateway: Gateway) -> Caller:
    request: Any = SimpleNamespace(receive=stays_connected)
    principal: Any = SimpleNamespace(tenant_id=TenantId("t"))
    at: Any = gateway
    return Caller(request, principal, at)


def delivery(state: DeliveryState, *, ended_at: datetime | None) -> Delivery:
    return Delivery(
        delivery_id="d",
        webhook_id="w",
        event=Event.FAILED,
        job_id=None,
        state=state,
        attempts=1,
        created_at=NOW,
        last_attempt_at=None,
        next_attempt_at=None,
        ended_at=ended_at,
        last_status=None,
        last_error=None,
    )


class DescribeAMoveDuringARequest:
    async def it_is_followed_by_one_that_waits_for_a_delivery(self, monkeypatch):
        gateway = Gateway("old", "new")
        on_pair = {
            "old": delivery(DeliveryState.PENDING, ended_at=None),
            "new": delivery(DeliveryState.DELIVERED, ended_at=NOW),
        }

        def find(tenant_id: str, use: str, webhook_id: str, delivery_id: str) -> Delivery | None:
            stored = on_pair.pop(use, None)  # the rows of a pair are deleted once the tenant has left it
            gateway.leave()
            return stored

        monkeypatch.setattr(webhooks.flow, "find_delivery", find)
        monkeypatch.setattr(webhooks.flow, "body_of", lambda *_: {})
        answer = await webhooks.look_at_delivery(caller_of(gateway), "w", "d", wait=5)
        assert orjson.loads(answer.body)["state"] == "delivered"

    def it_is_followed_by_one_that_reads_a_file_in_parts(self, monkeypatch):
        gateway = Gateway("old", "new")
        on_pair = {"old": {None: "a"}, "new": {0: "b"}}  # by the position before, while the tenant is there

        def read(tenant_id: str, namespace: str, use: str, *, after: int | None, **_: Any) -> list[tuple[Any, None]]:
            text = on_pair[use].get(after)
            gateway.leave()
            passage = SimpleNamespace(text=text)
            chunk = SimpleNamespace(passage=passage, searched=True, position=0 if after is None else after + 1)
            return [] if text is None else [(chunk, None)]

        monkeypatch.setattr(vector_store_files, "_CHUNKS_AT_ONCE", 1)
        monkeypatch.setattr(vector_store_files, "list_chunks", read)
        monkeypatch.setattr(vector_store_files, "file_of", lambda *_: None)
        content = vector_store_files._content(caller_of(gateway), "vs_1", "file-1")
        assert [part["text"] for part in content["data"]] == ["a", "b"]
