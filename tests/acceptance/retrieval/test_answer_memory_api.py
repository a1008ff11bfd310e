"""The memory of a tenant's answers over HTTP: the same bytes later, and 429 on every interface beyond the limit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from pipeline.tenants.answer_memory_store import account_key
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.clients.mcp_clients import agent
from tests.support.corpora.documents import document, upload

NAMESPACE = "memory"
DOCUMENTS = [
    document("zh", "北站的水泵在压力达到十二巴时启动。" * 30, title="水泵"),
    document("en", "The pump of the north station starts at twelve bar. " * 30, title="Pump"),
]
QUESTIONS = ["水泵何时启动？", "When does the pump start?"]


@pytest.fixture(scope="module")
def known(use: Resources) -> Iterator[tuple[str, str, httpx.Client]]:
    """A tenant with documents: its id, a key, a client."""
    tenant_id, key = make_tenant(use)
    with gateway(key) as client:
        assert upload(client, NAMESPACE, DOCUMENTS)["succeeded"] == len(DOCUMENTS)
        yield tenant_id, key, client


@pytest.fixture
def full(use: Resources, known: tuple[str, str, httpx.Client]) -> Iterator[httpx.Client]:
    """The client of that tenant, whose answers take more than they may."""
    account = account_key(known[0])
    slot = str(int(time.time()) + 40)
    use.redis.hset(account, slot, 10**12)
    use.redis.expire(account, 60)
    yield known[2]
    use.redis.hdel(account, slot)


def asked(client: httpx.Client, path: str = "/v1/rag/query", **fields: Any) -> httpx.Response:
    body = {"query_text": QUESTIONS[0], "namespaces": [NAMESPACE], **fields}
    return client.post(path, json=body)


class DescribeAnAnswer:
    @pytest.mark.parametrize("question", QUESTIONS)
    def it_is_given_later_in_the_same_bytes_and_counted_until_it_is_deleted(self, known, question):
        client = known[2]
        before = client.get("/v1/quotas").json()["answer_bytes"]["used"]
        answer = asked(client, query_text=question)
        assert answer.status_code == 200
        path = f"/v1/queries/{answer.json()['query_id']}"
        assert client.get(path).content == answer.content
        held = client.get("/v1/quotas").json()["answer_bytes"]
        assert before < held["used"] < before + 2 * len(answer.content)
        assert held["limit"] > held["used"]
        assert client.delete(path).status_code == 204
        assert client.get("/v1/quotas").json()["answer_bytes"]["used"] == before
        problem(client.get(path), 404, "query_not_found")


class DescribeATenantOverItsLimit:
    @pytest.mark.parametrize("path", ["/v1/queries", "/v1/rag/query", "/v1/rag/debug", "/internal/recall/test"])
    def it_is_refused_with_the_numbers_and_a_time(self, full, path):
        refused = asked(full, path)
        body = problem(refused, 429, "too_many_answers")
        assert (body["quota"]["name"], body["quota"]["used"] >= 10**12) == ("answer_bytes", True)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert '"answer_bytes";r=0;t=' in refused.headers["ratelimit"]

    def it_is_refused_by_the_dialects(self, known, full):
        store = full.post("/openai/v1/vector_stores", json={"name": "Memory"}).json()["id"]
        searched = full.post(f"/openai/v1/vector_stores/{store}/search", json={"query": QUESTIONS[0]})
        assert (searched.status_code, searched.json()["error"]["code"]) == (429, "too_many_answers")
        retrieval = {
            "knowledge_id": NAMESPACE,
            "query": QUESTIONS[1],
            "retrieval_setting": {"top_k": 3, "score_threshold": 0},
        }
        assert full.post("/dify/retrieval", json=retrieval).status_code == 429

    async def it_is_refused_by_mcp(self, known, full):
        async with agent(known[1]) as client:
            result = await client.call_tool("search", {"query": QUESTIONS[1], "namespaces": [NAMESPACE]})
        assert result.is_error
        assert "ask again" in result.content[0].text

    def it_may_delete_and_read_and_ask_again(self, use, known, full):
        assert full.get("/v1/jobs").status_code == 200
        problem(full.get(f"/v1/queries/{uuid.uuid4()}"), 404, "query_not_found")
        use.redis.delete(account_key(known[0]))
        assert asked(full).status_code == 200

    def it_hinders_no_other(self, full, client):
        upload(client, NAMESPACE, DOCUMENTS)
        assert asked(client).status_code == 200
