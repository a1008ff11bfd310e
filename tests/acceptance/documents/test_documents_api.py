"""Documents through the gateway: handed in, followed, listed, asked for, replaced, taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import eventually

FOX = {
    "document_id": "fox",
    "title": "Foxes",
    "text": "# Foxes\n\nThe red fox hunts at night.\n\n# Dens\n\nA den has several exits.",
    "author": "A. Miller",
    "type": "manual",
    "tags": ["animals", "night"],
    "published_at": "2026-01-02T03:04:05+02:00",
    "story_time": 1200,
    "metadata": {"shelf": {"row": 3}},
    "source": {"uri": "file:foxes.md", "media_type": "text/markdown"},
}


def ingest(client: httpx.Client, namespace: str, *documents: dict[str, Any], **more: Any) -> dict[str, Any]:
    response = client.post("/v1/documents", json={"namespace": namespace, "documents": list(documents), **more})
    assert response.status_code == 202, response.text
    job: dict[str, Any] = client.get(response.headers["location"], params={"wait": 30}).json()
    return job


def texts(client: httpx.Client, namespace: str, query: str, **more: Any) -> list[str]:
    response = client.post("/v1/rag/query", json={"query_text": query, "namespaces": [namespace], **more})
    assert response.status_code == 200, response.text
    return [chunk["text"] for chunk in response.json()["chunks"]]


def every_page(client: httpx.Client, path: str, **parameters: Any) -> list[list[dict[str, Any]]]:
    pages = []
    cursor: dict[str, str] = {}
    while True:
        body = client.get(path, params={**parameters, **cursor}).json()
        pages.append(body["data"])
        if body["next_cursor"] is None:
            return pages
        cursor = {"cursor": body["next_cursor"]}


class DescribeSubmission:
    def it_answers_202_with_the_job_and_its_location(self, client, namespace):
        response = client.post("/v1/documents", json={"namespace": namespace, "documents": [FOX]})
        body = response.json()
        assert response.status_code == 202
        assert body == {"job_id": body["job_id"], "status": "queued", "total": 1}
        assert response.headers["location"] == f"/v1/jobs/{body['job_id']}"

    def it_counts_documents_and_chunks_in_the_job(self, client, namespace):
        job = ingest(client, namespace, FOX, {"document_id": "owl", "text": "The owl sees well."})
        assert (job["status"], job["total"], job["succeeded"], job["failed"]) == ("succeeded", 2, 2, 0)
        assert job["chunks"] >= 2
        assert job["finished_at"].endswith("Z")
        assert job["stages"]["publish"] == 2
        assert job["errors"] == []

    def it_gives_an_id_to_a_document_without_one(self, client, namespace):
        ingest(client, namespace, {"text": "The owl sees well."})
        [document] = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert len(document["document_id"]) == 36

    def it_settles_a_conflict_as_asked(self, client, namespace):
        ingest(client, namespace, {"document_id": "d", "text": "The old kettle."})
        for on_conflict, status, found in (
            ("skip", "succeeded", "old"),
            ("error", "failed", "old"),
            ("replace", "succeeded", "new"),
        ):
            job = ingest(client, namespace, {"document_id": "d", "text": "The new kettle."}, on_conflict=on_conflict)
            assert job["status"] == status
            assert texts(client, namespace, "kettle") == [f"The {found} kettle."]


@pytest.fixture(scope="module")
def reader(use: Resources) -> Iterator[httpx.Client]:
    """A client whose tenant has one document in the namespace `kb`; no test changes it."""
    with gateway(make_tenant(use)[1]) as client:
        ingest(client, "kb", FOX)
        yield client


class DescribeADocument:
    def it_is_shown_as_it_was_sent(self, reader):
        shown = reader.get("/v1/documents/fox", params={"namespace": "kb"}).json()
        expected = {name: value for name, value in FOX.items() if name != "text"}
        encoding = {"encoding": "utf-8", "encoding_probability": 1.0, "encoding_warning": None, "pages_warning": None}
        arrived = {"kind": "text", "uri": "file:foxes.md", "media_type": "text/markdown"}
        pages = {"page_start": None, "page_end": None}
        expected["source"] = {"source_id": shown["source"]["source_id"], **arrived, **encoding, **pages}
        assert expected | {"published_at": "2026-01-02T01:04:05Z"} == {name: shown[name] for name in expected}
        assert shown["generation"] == 1
        assert shown["chunks"] >= 1

    def it_shows_its_chunks_in_order(self, reader):
        pages = every_page(reader, "/v1/documents/fox/chunks", namespace="kb", limit=1)
        chunks = [chunk for page in pages for chunk in page]
        assert [chunk["ordinal"] for chunk in chunks] == list(range(len(chunks)))
        assert "red fox" in chunks[0]["text"]

    def it_may_have_an_odd_id(self, client, namespace):
        ids = ["a/b", "a/chunks", "50%", "狐狸", "a b", "a?b#c", "a+b"]
        ingest(client, namespace, *({"document_id": each, "text": "The owl sees well."} for each in ids))
        for document_id in ids:
            path = "/v1/documents/" + "".join(f"%{byte:02X}" for byte in document_id.encode())
            assert client.get(path, params={"namespace": namespace}).json()["document_id"] == document_id
            [chunk] = client.get(f"{path}/chunks", params={"namespace": namespace}).json()["data"]
            assert chunk["document_id"] == document_id
            assert client.delete(path, params={"namespace": namespace}).status_code == 204


class DescribeLists:
    def it_pages_through_documents(self, client, namespace):
        ingest(client, namespace, *({"document_id": f"d{number}", "text": "An owl."} for number in range(5)))
        pages = every_page(client, "/v1/documents", namespace=namespace, limit=2)
        assert [[document["document_id"] for document in page] for page in pages] == [
            ["d0", "d1"],
            ["d2", "d3"],
            ["d4"],
        ]

    def it_has_nothing_in_a_namespace_that_does_not_exist(self, client, namespace):
        assert client.get("/v1/documents", params={"namespace": namespace}).json() == {"data": [], "next_cursor": None}

    def it_pages_through_items_of_a_state(self, client, namespace):
        job = ingest(client, namespace, {"text": "An owl."}, {"text": ""}, {"text": "A fox."}, {"text": 1})
        path = f"/v1/jobs/{job['job_id']}/items"
        assert [len(page) for page in every_page(client, path, limit=3)] == [3, 1]
        failed = every_page(client, path, status="failed", limit=1)
        assert [item["ordinal"] for page in failed for item in page] == [1, 3]

    def it_lists_the_newest_job_first(self, client, namespace):
        jobs = [ingest(client, namespace, {"text": text})["job_id"] for text in ("An owl.", "A fox.")]
        listed = [job["job_id"] for page in every_page(client, "/v1/jobs", limit=200) for job in page]
        assert listed.index(jobs[1]) < listed.index(jobs[0])

    def it_lists_namespaces_with_what_is_in_them(self, client, namespace):
        ingest(client, namespace, {"text": "An owl."}, {"text": "A fox."})
        found = [entry for page in every_page(client, "/v1/namespaces", limit=200) for entry in page]
        [mine] = [entry for entry in found if entry["namespace"] == namespace]
        assert (mine["documents"], mine["chunks"]) == (2, 2)


class DescribeFiles:
    def it_takes_text_markdown_html_and_json_lines(self, client, namespace):
        files = [
            ("file", ("note.txt", b"The pump starts.", "text/plain")),
            ("file", ("guide/start.md", b"# Start\n\nTurn the red key.", "application/octet-stream")),
            ("file", ("page.html", "<h1>Seite</h1><p>Der grüne Knopf.</p>".encode(), "text/html")),
            ("file", ("lines.jsonl", b'{"doc_id": "l1", "text": "Blue."}\n\n{"text": "White.", "page": 7}\n', None)),
        ]
        data = {"namespace": namespace, "tags": '["upload"]', "type": "manual", "metadata": '{"batch": 1}'}
        response = client.post("/v1/files", files=files, data=data)
        assert response.json()["total"] == 5
        job = client.get(response.headers["location"], params={"wait": 30}).json()
        assert job["status"] == "succeeded", job
        listed = client.get("/v1/documents", params={"namespace": namespace}).json()["data"]
        assert [document["document_id"] for document in listed] == [
            "guide/start.md",
            "l1",
            "lines.jsonl#3",
            "note.txt",
            "page.html",
        ]
        assert {tuple(document["tags"]) for document in listed} == {("upload",)}
        assert listed[2]["metadata"] == {"batch": 1, "page": 7}
        assert "Turn the red key." in texts(client, namespace, "red key")[0]


class DescribeWaiting:
    def it_answers_a_query_at_once_if_asked_to_wait(self, reader):
        body = {"query_text": "red fox", "namespaces": ["kb"]}
        response = reader.post("/v1/queries", json=body, headers={"Prefer": "wait=5"})
        assert (response.status_code, response.headers["preference-applied"]) == (200, "wait=5")
        again = reader.get(f"/v1/queries/{response.json()['query_id']}")
        assert again.content == response.content

    @pytest.mark.parametrize("prefer", [None, "respond-async", "handling=lenient", "wait=0"])
    def it_answers_202_unless_asked_to_wait(self, reader, prefer):
        headers = {"Cache-Control": "no-store"} | ({} if prefer is None else {"Prefer": prefer})
        body = {"query_text": "red fox", "namespaces": ["kb"]}
        response = reader.post("/v1/queries", json=body, headers=headers)
        assert (response.status_code, response.json()["status"]) == (202, "queued")
        assert response.headers["retry-after"] == "1"
        answer = reader.get(response.headers["location"], params={"wait": 10}).json()
        assert answer["status"] == "succeeded"
        assert "red fox" in answer["chunks"][0]["text"]

    def it_forgets_a_query_that_is_deleted(self, reader):
        asked = reader.post("/v1/queries", json={"query_text": "red fox", "namespaces": ["kb"]})
        assert reader.delete(asked.headers["location"]).status_code == 204
        assert reader.get(asked.headers["location"]).status_code == 404


class DescribeVerify:
    def it_shows_both_stores_aligned(self, reader):
        report = reader.post("/v1/verify", json={"namespaces": ["kb"]}).json()
        assert (report["missing"], report["orphaned"], report["stale"], report["repaired"]) == (0, 0, 0, 0)
        assert report["namespaces"][0]["chunks"] == report["namespaces"][0]["vectors"] >= 1

    def it_names_a_namespace_that_does_not_exist(self, client, namespace):
        response = client.post("/v1/verify", json={"namespaces": [namespace]})
        assert (response.status_code, response.json()["code"]) == (404, "namespace_not_found")


class DescribeTheOperatorsRoutes:
    def it_is_alive_and_ready(self, client):
        alive = client.get("/healthz").json()
        assert (alive["status"], len(alive["installation_id"])) == ("ok", 36)
        # Workers under load may be late with an optional figure for a moment; what stays away is a failure.
        ready: dict[str, Any] = {}
        # Of this machine; of workers that other tests have killed; of channels whose services other tests have broken.
        elsewhere = {"disk_space", "workers_silent", "circuits"}

        def look() -> bool:
            ready.update(client.get("/readyz").json())
            return not set(ready["failing"]) - elsewhere

        with suppress(AssertionError):
            eventually(look, within_s=20)
        assert {name: ready["dependencies"][name] for name in set(ready["failing"]) - elsewhere} == {}
        assert ready["status"] == "ready", ready
        stores = {"mysql", "postgres", "redis", "broker", "schema", "installation"}
        workers = {
            "queue:ingest",
            "queue:recall",
            "queue:answer",
            "queue:rerank",
            "queue:upkeep",
            "queue:compute",
            "queue:long",
            "queue:batch",
        }
        others = {"worker_versions", "worker_brokers", "clocks", "hosts", "last_sweep", "store_space", "keyword_index"}
        assert stores | workers | others | elsewhere == set(ready["dependencies"]) - {
            "query_lane"
        }  # there once a profile asked for it
        required = {name for name, check in ready["dependencies"].items() if check["required"]}
        assert required == stores | {"queue:ingest", "queue:recall", "queue:answer"}
        assert all(check["age_s"] < (31 if name == "schema" else 2) for name, check in ready["dependencies"].items())
        assert ready["dependencies"]["last_sweep"]["sweep_age_s"] < 45

    def it_counts_requests_by_route(self, client):
        client.get("/v1/jobs")
        response = client.get("/v1/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        assert 'chordwise_gateway_requests_total{method="GET",route="/v1/jobs",status="200"}' in response.text

    def it_describes_itself_without_loading_anything(self, client):
        assert client.get("/openapi.json").json()["openapi"].startswith("3.")
        page = client.get("/docs")
        assert page.headers["content-type"].startswith("text/html")
        assert not re.findall(r"<script(?![^>]*\ssrc=\"console/)|(?:src|href)=\"(?:https?:)?//", page.text)
        assert "/v1/rag/query" in page.text
