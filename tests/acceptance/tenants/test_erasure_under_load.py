"""Tenants are erased while everything runs for them; then each id is used again, and the new tenant has nothing."""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable

import httpx
import pytest
from sqlalchemy import text

from pipeline.resources import Resources
from pipeline.tenants import erasure_store
from tests.conftest import gateway

ROUNDS = 6  # tenants, at once
_FREE_WITHIN_S = 150  # a busy machine; some 40 s otherwise
LISTS = (
    *("/v1/namespaces", "/v1/jobs", "/v1/audit", "/v1/profiles", "/v1/webhooks", "/v1/api-sources", "/v1/experiments"),
    *("/v1/traces", "/v1/feedback", "/v1/dead-letters", "/openai/v1/files", "/openai/v1/vector_stores"),
)


def key_of(operator: httpx.Client, tenant: str) -> str:
    """Return a key of the tenant with all its scopes."""
    body = {"name": "k", "scopes": ["read", "write", "admin"]}
    return str(operator.post(f"/v1/tenants/{tenant}/keys", json=body).raise_for_status().json()["api_key"])


def actions(client: httpx.Client, chance: random.Random) -> list[Callable[[], httpx.Response]]:
    """Do as users of a tenant do."""
    ask = {"query_text": "pump valve", "namespaces": ["t0"]}

    def number() -> int:
        return chance.randrange(10**6)

    def rate() -> httpx.Response:
        asked = client.post("/v1/queries", json=ask, headers={"Prefer": "wait=5"})
        found = asked.json()
        rated = {"chunk_id": next(iter(found.get("chunks") or [{}])).get("chunk_id", ""), "rating": "relevant"}
        return client.post(f"/v1/queries/{found.get('query_id', uuid.uuid4())}/feedback", json=rated)

    def upload() -> httpx.Response:
        documents = [
            {"document_id": f"d{number()}", "title": "t", "text": f"pump valve {number()} " * 40} for _ in "ab"
        ]
        return client.post("/v1/documents", json={"namespace": "t0", "documents": documents})

    return [
        upload,
        upload,
        rate,
        lambda: client.post("/v1/queries", json=ask | {"query_text": f"pump {number()}", "trace": True}),
        lambda: client.post(
            "/v1/queries", json=ask | {"query_text": f"valve {number()}"}, headers={"Prefer": "wait=5"}
        ),
        lambda: client.post("/v1/files", files=[("file", ("f.md", b"# valve\n\npump"))], data={"namespace": "t1"}),
        lambda: client.put("/v1/dictionary", json={"synonyms": [["pump", f"p{number()}"]]}),
        lambda: client.post("/v1/webhooks", json={"url": "https://example.com/hook"}),
        lambda: client.post("/openai/v1/files", files={"file": ("a.txt", b"valve")}, data={"purpose": "assistants"}),
        lambda: client.delete("/v1/namespaces/t1"),
    ]


def live(key: str, seed: int, stop: threading.Event) -> None:
    """Use the tenant until told to stop, refused or not."""
    chance = random.Random(seed)
    with gateway(key) as client:
        possible = actions(client, chance)
        while not stop.is_set():
            chance.choice(possible)()
            time.sleep(0.02)


def left(use: Resources, tenant: str) -> dict[str, int]:
    """Return the rows and keys of the tenant, and whether its searches wait for the audit."""
    found = erasure_store.left_over(use.mysql, use.postgres, use.redis, tenant)  # type: ignore[arg-type]
    waiting = int(use.redis.sismember("chordwise:audit:waiting", tenant))  # type: ignore[arg-type]
    return found | ({"waiting": waiting} if waiting else {})


@pytest.mark.thorough
@pytest.mark.timeout(600)
class DescribeAnErasureUnderLoad:
    def it_leaves_nothing_to_the_next_tenant_of_the_id(self, operator, use):
        names = [f"load-{uuid.uuid4().hex[:10]}" for _ in range(ROUNDS)]
        stop, chance = threading.Event(), random.Random(7)
        lives = []
        for number, name in enumerate(names):
            operator.post("/v1/tenants", json={"tenant_id": name, "name": name}).raise_for_status()
            key = key_of(operator, name)
            lives += [threading.Thread(target=live, args=(key, 10 * number + n, stop), daemon=True) for n in range(2)]
        for each in lives:
            each.start()
        try:
            time.sleep(4)
            for name in names:
                time.sleep(chance.uniform(0, 1.5))
                operator.delete(f"/v1/tenants/{name}", timeout=120).raise_for_status()
                refused = operator.post("/v1/tenants", json={"tenant_id": name, "name": "again"})
                assert (refused.status_code, refused.json()["code"]) == (409, "erasure_unfinished")
                assert int(refused.headers["Retry-After"]) >= 1
            time.sleep(3)
        finally:
            stop.set()
            for each in lives:
                each.join(60)
        until = time.monotonic() + _FREE_WITHIN_S
        for name in names:
            while operator.post("/v1/tenants", json={"tenant_id": name, "name": "again"}).status_code == 409:
                assert time.monotonic() < until, left(use, name)
                time.sleep(1)
        time.sleep(6)  # another sweep and drain
        for name in names:
            assert set(left(use, name)) <= {"mysql.tenants", "mysql.audit"}
            with use.mysql.connect() as connection:
                rows = connection.execute(text("SELECT action FROM audit WHERE tenant_id = :t"), {"t": name}).scalars()
                assert list(rows) == ["tenant_create"]
            with gateway(key_of(operator, name)) as client:
                for path in LISTS:
                    answer = client.get(path)
                    if answer.status_code == 404:
                        continue
                    rows = answer.raise_for_status().json()["data"]
                    own = [row for row in rows if not row.get("built_in")]  # profiles
                    assert [row for row in own if row.get("action") not in ("tenant_create", "key_issue")] == [], path
                assert client.get("/v1/dictionary").json().get("synonyms", []) == []
                asked = {"query_text": "pump valve", "namespaces": ["t0"]}
                answer = client.post("/v1/queries", json=asked, headers={"Prefer": "wait=5"})
                assert answer.json().get("chunks", []) == []
