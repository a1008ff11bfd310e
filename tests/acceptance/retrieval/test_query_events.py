"""Following a query: each step once, in order, and nothing twice for one who comes back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, problem, send

Event = tuple[str, str, dict[str, Any]]
FRESH = {"Cache-Control": "no-cache"}


def events(client: httpx.Client, query_id: str, last: str = "") -> list[Event]:
    """Every event of the stream: id, name, data."""
    headers = {"Last-Event-ID": last} if last else {}
    with client.stream("GET", f"/v1/queries/{query_id}/events", headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        text = response.read().decode()
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


@pytest.fixture(scope="module")
def client(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has one document in the namespace `kb`."""
    with gateway(make_tenant(use)[1]) as found:
        ended(found, send(found, "kb", VALID))
        yield found


@pytest.fixture
def asked(client) -> str:
    body = {"query_text": "When does the pump start?", "namespaces": ["kb"]}
    query_id: str = client.post("/v1/queries", json=body, headers=FRESH).json()["query_id"]
    return query_id


class DescribeFollowingAQuery:
    def it_sends_every_step_and_then_the_result(self, client, asked):
        found = events(client, asked)
        names = [name for _, name, _ in found]
        assert names[:2] == ["queued", "running"]
        assert names[-1] == "finished"
        channels = {data["channel"]: data for _, name, data in found if name == "channel"}
        assert set(channels) == {"keyword", "semantic"}
        assert channels["keyword"]["status"] == "ok"
        assert channels["keyword"]["hits"] == 1
        assert channels["keyword"]["elapsed_ms"] > 0
        assert found[-1][2] == client.get(f"/v1/queries/{asked}").json()
        assert found[-1][2]["status"] == "succeeded"

    def it_resumes_after_the_last_event_id(self, client, asked):
        whole = events(client, asked)
        for place, (last, _, _) in enumerate(whole[:-1]):
            assert [name for _, name, _ in events(client, asked, last)] == [name for _, name, _ in whole[place + 1 :]]

    def it_answers_204_after_the_last_event(self, client, asked):
        last = events(client, asked)[-1][0]
        assert client.get(f"/v1/queries/{asked}/events", headers={"Last-Event-ID": last}).status_code == 204

    @pytest.mark.parametrize("last", ["nonsense", "finished+x", "-1"])
    def it_begins_anew_for_an_unknown_event_id(self, client, asked, last):
        assert events(client, asked, last)[0][1] == "queued"

    def it_answers_404_to_other_tenants(self, client, use, asked):
        problem(client.get(f"/v1/queries/{uuid.uuid4()}/events"), 404, "query_not_found")
        _, key = make_tenant(use)
        with gateway(key) as stranger:
            problem(stranger.get(f"/v1/queries/{asked}/events"), 404, "query_not_found")
