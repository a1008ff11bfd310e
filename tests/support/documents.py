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


def search(client: httpx.Client, namespace: str | Sequence[str], text: str, **fields: Any) -> dict[str, Any]:
    """The answer to a query."""
    namespaces = [namespace] if isinstance(namespace, str) else list(namespace)
    body = {"query_text": text, "namespaces": namespaces, **fields}
    answer = client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def found_documents(answer: dict[str, Any]) -> list[str]:
    """The documents of an answer, best first, each once."""
    return list(dict.fromkeys(chunk["document_id"] for chunk in answer["chunks"]))
