"""Batches of queries through the gateway: accepted as one job, answered as single queries are, read while they run."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
import pytest

from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, until_indexed, upload

DOCUMENTS = [
    document("pump", "The pump PPR-9087 starts when the valve is open.", type="manual", tags=["a"]),
    document("valve", "The valve is closed before maintenance of the pump.", type="manual", tags=["b"]),
    document("tea", "绿茶用八十度的水冲泡，茶汤清亮。", type="note", tags=["a"]),
    document("水泵", "阀门打开后水泵自动启动，启动前检查油位。", type="manual", tags=["a"]),
    document("faq", "问：水泵多久换一次油？答：每三个月换一次。", type="note"),
]
QUESTIONS = (
    "When does the pump start?",
    "PPR-9087",
    "水泵什么时候启动？",
    "绿茶用多热的水？",
    "unicorn",
    "Is the valve closed before maintenance?",
)
LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def asker(use) -> Any:
    """A tenant's client and its namespace with documents in both languages."""
    with gateway(make_tenant(use)[1]) as client:
        namespace = f"batch-{uuid.uuid4().hex[:8]}"
        upload(client, namespace, DOCUMENTS)
        until_indexed(client, namespace)  # before that the rows that a search compares differ from query to query
        yield client, namespace


def submitted(client: httpx.Client, queries: list[dict[str, Any]], **defaults: Any) -> str:
    """The path of an accepted batch."""
    answer = client.post("/v1/query-batches", json={"queries": queries, "defaults": defaults})
    assert answer.status_code == 202, answer.text
    assert answer.json()["total"] == len(queries)
    return str(answer.headers["location"])


def results(client: httpx.Client, path: str, total: int) -> list[dict[str, Any]]:
    """The results of all queries of a batch, read while it runs."""
    found: list[dict[str, Any]] = []
    while len(found) < total:
        after = found[-1]["index"] if found else -1
        answer = client.get(f"{path}/results", params={"after": after, "wait": 30})
        assert answer.headers["content-type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert lines, client.get(path).text
        found += lines
    return found


def comparable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without its id and its timings."""
    stats = {name: value for name, value in answer["stats"].items() if name != "latency_ms"}
    return {**answer, "query_id": None, "stats": stats}


class DescribeBatches:
    def it_answers_each_query_as_a_single_one(self, asker):
        client, namespace = asker
        patient = {"channels": {name: {"timeout_ms": 2000} for name in ("keyword", "semantic")}}
        settings = {
            "namespaces": [namespace],
            "context": {},
            "highlight": True,
            "retrieve": patient,
            "deadline_ms": 20_000,
        }
        queries = [{"id": f"q{n}", "query_text": text, "top_k": n + 1} for n, text in enumerate(QUESTIONS)]
        path = submitted(client, queries, **settings)
        found = results(client, path, len(queries))
        assert [(line["index"], line["id"], line["status"]) for line in found] == [
            (n, f"q{n}", "succeeded") for n in range(len(queries))
        ]
        for line, query in zip(found, queries, strict=True):
            body = {**settings, **query}
            del body["id"]
            single = client.post("/v1/rag/query", json=body, headers={"Cache-Control": "no-cache"}).json()
            assert comparable(line["answer"]) == comparable(single)
        assert [line["answer"]["chunks"][0]["document_id"] for line in found[2:4]] == ["水泵", "tea"]

    def it_is_a_job_with_counts(self, asker):
        client, namespace = asker
        path = submitted(client, [{"query_text": text} for text in QUESTIONS], namespaces=[namespace])
        batch = client.get(path, params={"wait": 30}).json()
        assert (batch["status"], batch["succeeded"], batch["total"]) == ("succeeded", len(QUESTIONS), len(QUESTIONS))
        assert batch["outcomes"] == {"answered": len(QUESTIONS)}
        assert client.get(path.replace("query-batches", "jobs")).json() == batch
        assert batch["job_id"] in [job["job_id"] for job in client.get("/v1/jobs").json()["data"]]

    def it_reads_json_lines_and_goes_on_where_a_reader_stopped(self, asker):
        client, namespace = asker
        body = "\n".join(json.dumps({"query_text": text}, ensure_ascii=False) for text in QUESTIONS)
        defaults = json.dumps({"namespaces": [namespace]})
        answer = client.post("/v1/query-batches", content=body.encode(), headers=LINES, params={"defaults": defaults})
        assert answer.status_code == 202, answer.text
        path = answer.headers["location"]
        client.get(path, params={"wait": 30})
        first = client.get(f"{path}/results", params={"limit": 2}).text.splitlines()
        rest = client.get(f"{path}/results", params={"after": 1}).text.splitlines()
        assert [json.loads(line)["index"] for line in first + rest] == list(range(len(QUESTIONS)))
        assert client.get(f"{path}/results", params={"after": len(QUESTIONS) - 1}).text == ""

    def it_answers_equal_queries_once(self, asker):
        client, namespace = asker
        queries = [
            {"id": name, "query_text": text} for name, text in zip("abcd", ["pump", "泵", "pump", "泵"], strict=True)
        ]
        found = results(client, submitted(client, queries, namespaces=[namespace]), 4)
        assert [line["id"] for line in found] == list("abcd")
        ids = [line["answer"]["query_id"] for line in found]
        assert (ids[0], ids[1]) == (ids[2], ids[3])
        assert ids[0] != ids[1]

    def it_refuses_single_queries_and_answers_the_others(self, asker):
        client, namespace = asker
        queries = [
            {"id": "good", "query_text": "pump"},
            {"id": "field", "query_text": "pump", "top_k": 0},
            {"id": "profile", "query_text": "pump", "profile": "nobody"},
            {"id": "namespace", "query_text": "pump", "namespaces": ["nowhere"]},
            {"id": "trace", "query_text": "pump", "trace": True},
            "no object",
        ]
        found = results(client, submitted(client, queries, namespaces=[namespace]), len(queries))
        assert [line["status"] for line in found] == ["succeeded", *["failed"] * 5]
        errors = [line["error"] for line in found[1:]]
        assert [error["code"] for error in errors] == [
            *("invalid_query", "profile_not_found", "namespace_not_found", "invalid_query", "invalid_query")
        ]
        assert [error.get("pointer") for error in errors] == [
            *("/queries/1/top_k", "/queries/2/profile", None, "/queries/4/trace", "/queries/5")
        ]
        assert [line["id"] for line in found] == ["good", "field", "profile", "namespace", "trace", None]

    def it_names_the_line_at_fault(self, asker):
        client, namespace = asker
        good = json.dumps({"query_text": "pump", "namespaces": [namespace]})
        answer = client.post("/v1/query-batches", content=f'{good}\n\n{{"query_text": \n{good}', headers=LINES)
        found = results(client, answer.headers["location"], 3)
        assert [line["status"] for line in found] == ["succeeded", "failed", "succeeded"]
        assert found[1]["error"]["code"] == "invalid_json"
        assert found[1]["error"]["detail"].startswith("line 3: ")

    @pytest.mark.parametrize(
        ("queries", "code"),
        [
            ([], "invalid_request"),
            ([{"query_text": "pump"}] * 10_001, "too_many_queries"),
            ([{"query_text": ""}, {"query_text": "pump", "top_k": 0}], "no_valid_query"),
            ([{"id": "a", "query_text": "pump"}, {"id": "a", "query_text": "valve"}], "invalid_request"),
        ],
    )
    def it_refuses_a_batch_as_a_whole(self, asker, queries, code):
        client, namespace = asker
        body = {"queries": queries, "defaults": {"namespaces": [namespace]}}
        problem(client.post("/v1/query-batches", json=body), 422, code)

    def it_refuses_other_bodies(self, asker):
        client, _ = asker
        problem(
            client.post("/v1/query-batches", content="{", headers={"Content-Type": "application/json"}),
            400,
            "invalid_json",
        )
        problem(
            client.post("/v1/query-batches", content="a", headers={"Content-Type": "text/plain"}),
            415,
            "unsupported_media_type",
        )
        wrong = {"params": {"defaults": "[]"}, "content": '{"query_text": "pump"}', "headers": LINES}
        problem(client.post("/v1/query-batches", **wrong), 422, "invalid_request")

    def it_cancels(self, asker, use):
        client, namespace = asker
        queries = [{"query_text": f"pump {n}"} for n in range(2_000)]
        path = submitted(client, queries, namespaces=[namespace])
        cancelled = client.post(f"{path}/cancel").json()
        assert cancelled["finished_at"]
        assert cancelled["cancelled"] + cancelled["succeeded"] == len(queries)
        assert cancelled["cancelled"] > 0
        found = results(client, path, len(queries))
        assert sum(line["status"] == "cancelled" for line in found) == client.get(path).json()["cancelled"]

    def it_shows_strangers_nothing(self, asker, use):
        client, namespace = asker
        path = submitted(client, [{"query_text": "pump"}], namespaces=[namespace])
        with gateway(make_tenant(use)[1]) as stranger:
            problem(stranger.get(path), 404, "batch_not_found")
            problem(stranger.get(f"{path}/results"), 404, "batch_not_found")
            problem(stranger.post(f"{path}/cancel"), 404, "batch_not_found")
        job_id = client.get("/v1/jobs").json()["data"][-1]["job_id"]  # of documents
        problem(client.get(f"/v1/query-batches/{job_id}"), 404, "batch_not_found")
        problem(client.get("/v1/query-batches/nonsense"), 404, "batch_not_found")

    def it_repeats_no_batch_under_one_key(self, asker):
        client, namespace = asker
        body = {"queries": [{"query_text": "pump"}], "defaults": {"namespaces": [namespace]}}
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        first, second = (client.post("/v1/query-batches", json=body, headers=headers) for _ in range(2))
        assert first.json()["job_id"] == second.json()["job_id"]
