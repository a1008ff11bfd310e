"""Documents for tests, and the way through the gateway that most of them take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx


def document(document_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """A document as `POST /v1/documents` takes it."""
    return {"document_id": document_id, "text": text, **fields}


def upload(
    client: httpx.Client, namespace: str, documents: Sequence[dict[str, Any]], *, wait_s: float = 60, **envelope: Any
) -> dict[str, Any]:
    """Send documents and wait until their job is over; gives the job."""
    accepted = client.post("/v1/documents", json={"namespace": namespace, "documents": list(documents), **envelope})
    assert accepted.status_code == 202, accepted.text
    return finished(client, accepted.json()["job_id"], wait_s=wait_s)


def finished(client: httpx.Client, job_id: str, *, wait_s: float = 60) -> dict[str, Any]:
    """The job once it is over. Fails when it does not end in time."""
    ends = time.monotonic() + wait_s
    while time.monotonic() < ends:
        job = client.get(f"/v1/jobs/{job_id}", params={"wait": 10}).raise_for_status().json()
        if job["finished_at"] is not None:
            return dict(job)
    raise AssertionError(f"job {job_id} did not end within {wait_s} s: {job}")


def search(
    client: httpx.Client, namespace: str | Sequence[str], text: str, *, fresh: bool = False, **fields: Any
) -> dict[str, Any]:
    """The answer to a query; ``fresh``: never one that was kept."""
    namespaces = [namespace] if isinstance(namespace, str) else list(namespace)
    body = {"query_text": text, "namespaces": namespaces, **fields}
    headers = {"Prefer": "wait=10", **({"Cache-Control": "no-cache"} if fresh else {})}
    answer = client.post("/v1/queries", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def until_indexed(client: httpx.Client, namespace: str, *, wait_s: float = 30) -> None:
    """Wait until the host's keyword index answers for what was uploaded."""
    ends = time.monotonic() + wait_s
    while time.monotonic() < ends:
        answer = search(client, namespace, "indexed", fresh=True, retrieve={"method": "full_text"})
        if answer["stats"]["recall"]["keyword"]["method"] == "index":
            return
        time.sleep(0.05)
    raise AssertionError(f"the keyword index does not answer within {wait_s} s")


def found_documents(answer: dict[str, Any]) -> list[str]:
    """The documents of an answer, best first, each once."""
    return list(dict.fromkeys(chunk["document_id"] for chunk in answer["chunks"]))


def half_done(client: httpx.Client, namespace: str, documents: int) -> str:
    """Send so many documents in one job and return in the middle of its work. Gives the job's id."""
    job_id = begun(client, namespace, documents)
    ends, done = time.monotonic() + 60, 0
    while done < 64 and time.monotonic() < ends:
        time.sleep(0.05)
        done = client.get(f"/v1/jobs/{job_id}").json()["succeeded"]
    assert 64 <= done < documents, "the job has to be in its middle"
    return job_id


def begun(client: httpx.Client, namespace: str, documents: int) -> str:
    """Send so many documents in one job and return at once, when workers have hardly begun. Gives the job's id."""
    sent = [
        document(f"d{n}", " ".join(f"Sentence {m} of document {n} speaks of subject {n * m % 97}." for m in range(40)))
        for n in range(documents)
    ]
    accepted = client.post("/v1/documents", json={"namespace": namespace, "documents": sent})
    assert accepted.status_code == 202
    return str(accepted.json()["job_id"])


def assert_whole(client: httpx.Client, namespace: str, *, documents: int, chunks: int) -> None:
    """Both stores hold exactly so many documents and chunks, and agree."""
    report = client.post("/v1/verify", json={"namespaces": [namespace]}).json()
    assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0)
    assert report["namespaces"][0]["documents"] == documents
    assert report["namespaces"][0]["chunks"] == chunks
