"""Kept traces over HTTP: listed with their questions, for the tenant's admin alone, and replayed after the answer."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import search, upload
from tests.support.corpora.explaining import NO_RERANK, TEA, WORDS, ask, chunk_of, traced, verdict, why


@pytest.fixture
def tea(client: httpx.Client, namespace: str) -> str:
    upload(client, namespace, TEA)
    return namespace


def listed(client: httpx.Client, answer: dict[str, Any], **chosen: Any) -> dict[str, Any]:
    """The entry of a query, which is listed a moment after its answer."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found = client.get("/v1/traces", params=chosen)
        assert found.status_code == 200, found.text
        for entry in found.json()["data"]:
            if entry["query_id"] == answer["query_id"]:
                return dict(entry)
        time.sleep(0.05)
    raise AssertionError(f"{answer['query_id']} is not listed")


class DescribeKeptTraces:
    def it_keeps_an_empty_answers_trace_that_nobody_requested(self, client, tea):
        answer = search(client, tea, "zzyzx quux", retrieve=WORDS)
        entry = listed(client, answer, mark="empty", namespace=tea)
        assert (entry["text"], entry["namespaces"], entry["chunks"]) == ("zzyzx quux", [tea], 0)
        assert entry["total_ms"] == answer["stats"]["latency_ms"]["total"]
        trace = traced(client, answer)
        assert trace["query"]["text"] == "zzyzx quux"
        assert trace["remarks"] == answer["stats"]["remarks"]

    def it_lists_requested_ones_with_the_moments_of_their_parts(self, client, tea):
        answer = ask(client, tea, "green tea", rerank=NO_RERANK)
        assert "requested" in listed(client, answer)["marks"]
        timeline = traced(client, answer)["timeline"]
        kinds = {each["kind"] for each in timeline}
        assert {"gateway", "queue", "channel", "callback", "step", "store"} <= kinds
        channels = {each["name"]: each for each in timeline if each["kind"] == "channel"}
        assert set(channels) == {"keyword", "semantic"}
        assert all(each["worker"] for each in channels.values())
        callback = next(each for each in timeline if each["kind"] == "callback")
        assert callback["start_ms"] >= max(each["start_ms"] for each in channels.values())
        assert any(each["name"].startswith("mysql") for each in timeline)
        assert all(each["ms"] >= 0 for each in timeline)

    def it_filters_and_pages(self, client, tea):
        asked = [search(client, tea, f"zzyzx {number}", retrieve=WORDS) for number in range(3)]
        for answer in asked:
            listed(client, answer)
        first = client.get("/v1/traces", params={"namespace": tea, "mark": "empty", "limit": 2}).json()
        rest = client.get(
            "/v1/traces", params={"namespace": tea, "mark": "empty", "cursor": first["next_cursor"]}
        ).json()
        shown = [each["query_id"] for each in first["data"] + rest["data"]]
        assert shown == [answer["query_id"] for answer in reversed(asked)]
        assert rest["next_cursor"] is None
        for nothing in ({"mark": "failed"}, {"profile": "none"}, {"until": "2020-01-01T00:00:00Z"}):
            assert client.get("/v1/traces", params={"namespace": tea, **nothing}).json()["data"] == []
        problem(client.get("/v1/traces", params={"mark": "odd"}), 422, "invalid_request")
        problem(client.get("/v1/traces", params={"cursor": "odd"}), 422, "invalid_cursor")

    def it_replays_and_explains_after_the_answer_has_expired(self, client, tea, use: Resources):
        answer = ask(client, tea, "green tea water", rerank=NO_RERANK)
        listed(client, answer)
        tenant_id = client.get("/v1/keys/current").json()["tenant_id"]
        use.redis.delete(f"{tenant_id}:query:{answer['query_id']}")
        problem(client.get(f"/v1/queries/{answer['query_id']}"), 404, "query_not_found")
        body = client.post(f"/v1/queries/{answer['query_id']}/replay", json={"plan": {"top_k": 1}}).json()
        assert [each["chunk_id"] for each in body["difference"]["removed"]] == [
            each["chunk_id"] for each in answer["chunks"][1:]
        ]
        assert body["difference"]["plan"] == [{"pointer": "/top_k", "before": 10, "after": 1}]
        finding = why(client, answer, chunk_of(client, tea, "ships"))
        assert verdict(finding) != ("returned", "")
        assert client.delete(f"/v1/queries/{answer['query_id']}").status_code == 204
        problem(client.get(f"/v1/queries/{answer['query_id']}/trace"), 404, "query_not_found")

    def it_shows_questions_to_the_tenants_admin_alone(self, client, tea, use: Resources):
        answer = search(client, tea, "zzyzx quux", retrieve=WORDS)
        listed(client, answer)
        reading = client.post("/v1/keys", json={"name": "reads", "scopes": ["read", "write"]}).json()["api_key"]
        with gateway(reading) as reader, gateway(make_tenant(use)[1]) as stranger:
            problem(reader.get("/v1/traces"), 403, "insufficient_scope")
            assert stranger.get("/v1/traces").json()["data"] == []
            problem(stranger.get(f"/v1/queries/{answer['query_id']}/trace"), 404, "query_not_found")
