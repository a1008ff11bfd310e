"""The in-process lane through the gateway: wanted by a profile, for who waits, with the bytes of the chord's answer."""

from __future__ import annotations

import time
import uuid
from typing import Any

import httpx
import pytest

from pipeline.query.built_in_profiles import BUILT_IN
from pipeline.tenants.namespace_store import EXAMPLE_TABLES
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, upload
from tests.support.stacks.corner import timeless

FRESH = {"Cache-Control": "no-cache"}
DOCUMENTS = [
    document("pump", "The pump PPR-9087 starts when the valve is open.", type="manual", tags=["a"]),
    document("valve", "The valve is closed before maintenance of the pump.", type="manual", tags=["b"]),
    document("tea", "绿茶用八十度的水冲泡，茶汤清亮。", type="note", tags=["a"]),
    document("水泵", "阀门打开后水泵自动启动，启动前检查油位。", type="manual", tags=["a"]),
    document("faq", "问：水泵多久换一次油？答：每三个月换一次。", type="note"),
]
EXAMPLES = [
    document("e1", "用户：感冒吃什么药？助手：多喝水，必要时就医。"),
    document("e2", "用户：头疼怎么办？助手：注意休息。"),
]


@pytest.fixture(scope="module")
def asker(use) -> Any:
    """A tenant's client, its namespace, and a lane that is ready."""
    _, key = make_tenant(use)
    with gateway(key) as client:
        namespace = f"lane-{uuid.uuid4().hex[:8]}"
        upload(client, namespace, DOCUMENTS)
        for table in EXAMPLE_TABLES[:2]:  # of the other two the answer says that they are missing
            upload(client, table, EXAMPLES)
        for name, base in {"quick": {}, "examples": BUILT_IN["medical_examples"], "plain": {"lane": "chord"}}.items():
            config = {"lane": "in_process", **base}
            assert client.put(f"/v1/profiles/{name}", json={"config": config}).status_code == 201
        ends = time.monotonic() + 60
        while _waiting(client, {"query_text": "pump", "namespaces": [namespace], "profile": "quick"}) != "in_process":
            assert time.monotonic() < ends, client.get("/readyz").text
            time.sleep(0.2)
        yield client, namespace


def _waiting(client: httpx.Client, body: dict[str, Any]) -> str:
    """Return the lane of a query whose caller waits."""
    answer = client.post("/v1/rag/debug", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["trace"]["lane"])


def _by_lane(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    answer = client.post("/v1/queries", json=body, headers={**FRESH, "Prefer": "wait=10"})
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (200, "wait=10"), answer.text
    return answer


def _by_chord(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    accepted = client.post("/v1/queries", json=body, headers=FRESH)
    assert accepted.status_code == 202, accepted.text
    return client.get(accepted.headers["Location"], params={"wait": 10})


def _bytes(answer: httpx.Response) -> str:
    """An answer's bytes but for its own id and its timings."""
    return timeless(answer.content).replace(answer.json()["query_id"], "")


class DescribeTheSameQuestionOnBothLanes:
    @pytest.mark.parametrize(
        "body",
        [
            pytest.param({"query_text": "When does the pump start?"}, id="English", marks=pytest.mark.thorough),
            pytest.param({"query_text": "水泵什么时候启动"}, id="Chinese", marks=pytest.mark.thorough),
            pytest.param(
                {
                    "query_text": "pump 水泵",
                    "filters": {"type": "manual", "tags": ["a"]},
                    "enable_expand": True,
                    "enable_rerank": True,
                    "retrieve": {"fusion": {"strategy": "rrf"}, "selection": {"diversity": 0.3}},
                    "context": {"format": "text", "window": 1},
                },
                id="filtered, expanded, reranked",
            ),
            pytest.param(
                {"query_text": "阀门 valve", "retrieve": {"method": "semantic", "score_threshold": 0.05}},
                id="meaning",
                marks=pytest.mark.thorough,
            ),
            pytest.param({"query_text": "zzzqqqxxx 不知所云"}, id="nonsense", marks=pytest.mark.thorough),
            pytest.param(
                {"query_text": "感冒吃什么药", "profile": "examples", "namespaces": [*EXAMPLE_TABLES]}, id="examples"
            ),
        ],
    )
    def it_has_the_same_bytes(self, asker, body):
        client, namespace = asker
        body = {"profile": "quick", "namespaces": [namespace], **body}
        ends = time.monotonic() + 30
        while True:
            here, there = _by_lane(client, body), _by_chord(client, body)
            # They may be searched in different ways, if an index was built between them.
            if here.json()["stats"]["recall"] == there.json()["stats"]["recall"] or time.monotonic() > ends:
                break
        assert here.json()["status"] == "succeeded"
        assert _bytes(here) == _bytes(there)

    def it_stays_what_it_was_for_who_looks_again(self, asker):
        client, namespace = asker
        body = {"query_text": "pump", "namespaces": [namespace], "profile": "quick"}
        answer = _by_lane(client, body)
        where = f"/v1/queries/{answer.json()['query_id']}"
        assert client.get(where).content == answer.content
        events = client.get(f"{where}/events").text
        assert [f"event: {name}" in events for name in ("queued", "running", "channel", "finished")] == [True] * 4
        assert client.delete(where).status_code == 204
        problem(client.get(where), 404, "query_not_found")

    def it_shares_kept_answers(self, asker):
        client, namespace = asker
        body = {"query_text": f"pump {uuid.uuid4().hex[:6]}", "namespaces": [namespace], "profile": "quick"}
        ends = time.monotonic() + 10
        while True:  # answers within seconds after a change are not cached
            first = client.get(client.post("/v1/queries", json=body).headers["Location"], params={"wait": 10}).json()
            again = client.post("/v1/rag/query", json=body).json()
            if again["stats"]["cached"] or time.monotonic() > ends:
                break
            time.sleep(0.5)
        assert again["stats"]["cached"]
        assert again["chunks"] == first["chunks"]


class DescribeWhoGetsTheLane:
    def it_is_nobody_by_default(self, asker):
        client, namespace = asker
        body = {"query_text": "pump", "namespaces": [namespace]}
        assert _waiting(client, body) == "chord"
        assert _waiting(client, {**body, "profile": "plain"}) == "chord"
        assert client.get("/v1/profiles/default").json()["plan"]["lane"] == "chord"

    def it_is_nobody_who_does_not_wait(self, asker):
        client, namespace = asker
        body = {"query_text": "pump", "namespaces": [namespace], "profile": "quick", "trace": True}
        answer = _by_chord(client, body).json()
        trace = client.get(f"/v1/queries/{answer['query_id']}/trace").json()
        assert (trace["lane"], trace["plan"]["lane"]) == ("chord", "in_process")

    def it_is_every_dialect_that_waits(self, asker):
        client, namespace = asker
        body = {"knowledge_id": namespace, "query": "pump", "retrieval_setting": {"top_k": 2}}
        before = _tasks(client)
        assert client.put("/v1/profiles/default", json={"config": {"lane": "in_process"}}).status_code == 201
        try:
            assert client.post("/dify/retrieval", json=body).json()["records"]
            searched = client.post(
                f"/openai/v1/vector_stores/{namespace}/search", json={"query": f"水泵 {uuid.uuid4()}"}
            )
            assert searched.json()["data"]
            ends = time.monotonic() + 10
            while _tasks(client) < before + 2 and time.monotonic() < ends:
                time.sleep(0.3)
            assert _tasks(client) >= before + 2
        finally:
            client.post("/v1/profiles/default/rollback")

    def it_is_refused_for_an_unknown_lane(self, asker):
        client, _ = asker
        refused = client.put("/v1/profiles/odd", json={"config": {"lane": "express"}})
        body = problem(refused, 422, "invalid_request")
        assert [error["pointer"] for error in body["errors"]] == ["/config/lane"]

    def it_is_named_by_readiness_and_metrics(self, asker):
        client, _ = asker
        check = client.get("/readyz").json()["dependencies"]["query_lane"]
        assert (check["status"], check["required"], check["workers"]) == ("ok", False, 2)
        assert "chordwise_gateway_lane_processes 2.0" in client.get("/v1/metrics").text


def _tasks(client: httpx.Client) -> float:
    """How many queries the lane has answered, as the fleet's metrics have it."""
    line = 'chordwise_tasks_total{state="success",task="lane.answer"} '
    found = [each for each in client.get("/v1/metrics").text.splitlines() if each.startswith(line)]
    return float(found[0].rpartition(" ")[2]) if found else 0.0
