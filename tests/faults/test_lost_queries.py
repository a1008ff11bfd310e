"""Redis comes back without the queries under way: they have failed, at once and by name, and are not called cancelled."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.clients.operating import eventually
from tests.support.stacks.outage_stack import NAMESPACE, OutageStack, outage_stack

WITHIN_S = 3.0  # a second until the gateway is connected again, and some for a busy machine
DEADLINE_MS = 5_000


@pytest.fixture(scope="module")
def stack(settings, tmp_path_factory) -> Iterator[OutageStack]:
    with outage_stack(settings, tmp_path_factory.mktemp("lost")) as found:
        yield found


def _body(question: str) -> dict[str, Any]:
    return {
        "query_text": f"{question} {uuid.uuid4().hex[:8]}",
        "namespaces": [NAMESPACE],
        "deadline_ms": DEADLINE_MS,
    }


def _failed(stack: OutageStack) -> float:
    return sum(value for (status, _), value in stack.counted().items() if status == "failed")


def it_ends_the_queries_under_way_when_redis_has_lost_them(stack):
    before = _failed(stack)
    with stack.worker_held(), ThreadPoolExecutor(3) as pool:
        where = stack.client.post("/v1/queries", json=_body("photovoltaic panels")).headers["Location"]
        waited = pool.submit(stack.client.post, "/v1/rag/query", json=_body("绿茶用多少度的水"))
        polled = pool.submit(stack.client.get, where, params={"wait": 10})
        followed = pool.submit(stack.client.get, f"{where}/events")
        time.sleep(0.5)
        assert stack.forget_queries() >= 2
        began = time.monotonic()
        for response in (waited.result(), polled.result()):
            assert response.status_code == 200, response.text
            answer = response.json()
            assert (answer["status"], answer["error"]["code"]) == ("failed", "retrieval_unavailable")
            losses = {(lost["part"], lost["code"]) for lost in answer["stats"]["degradations"]}
            assert losses == {("keyword", "query_lost"), ("semantic", "query_lost")}
        assert time.monotonic() - began < WITHIN_S
        events = followed.result().text
        assert "event: finished" in events
        assert "event: cancelled" not in events
        gone = stack.client.get(where)
        assert (gone.status_code, gone.json()["code"]) == (404, "query_not_found")
    eventually(lambda: _failed(stack) == before + 2, within_s=20)
