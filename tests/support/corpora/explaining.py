"""Documents to ask about, and the ways to ask why an answer is as it is."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tests.support.corpora.documents import document, search

NO_RERANK = {"enabled": False}
WORDS = {"method": "full_text"}
TEA = [
    document("green", "Green tea is brewed at eighty degrees.", published_at="2026-01-10T00:00:00Z"),
    document("black", "Black tea takes boiling water.", published_at="2025-01-10T00:00:00Z"),
    document("cups", "Cups for tea are warmed first, green or not.", published_at="2024-01-10T00:00:00Z"),
    document("ships", "Ships leave the harbour when the tide is high."),
]


def ask(client: httpx.Client, namespace: Any, text: str, **fields: Any) -> dict[str, Any]:
    return search(client, namespace, text, **{"trace": True, **fields})


def untraced(client: httpx.Client, namespace: Any, text: str, **fields: Any) -> dict[str, Any]:
    """An answer without a trace; one that was slow or sampled has one, so ask again then."""
    for _ in range(5):
        answer = ask(client, namespace, text, **{"trace": False, **fields})
        time.sleep(0.2)  # a trace is kept after the answer was sent
        if client.get(f"/v1/queries/{answer['query_id']}/trace").status_code == 404:
            break
    return answer


def traced(client: httpx.Client, answer: dict[str, Any]) -> dict[str, Any]:
    found = client.get(f"/v1/queries/{answer['query_id']}/trace")
    assert found.status_code == 200, found.text
    return dict(found.json())


def why(client: httpx.Client, answer: dict[str, Any], chunk_id: str) -> dict[str, Any]:
    found = client.post(f"/v1/queries/{answer['query_id']}/why-not", json={"chunk_id": chunk_id})
    assert found.status_code == 200, found.text
    return dict(found.json())


def verdict(finding: dict[str, Any]) -> tuple[str, str]:
    return finding["stage"], finding["reason"]


def chunk_of(client: httpx.Client, namespace: str, document_id: str) -> str:
    """The first chunk of a document."""
    listed = client.get("/v1/chunks", params={"namespace": namespace, "document_id": document_id}).json()["data"]
    return str(listed[0]["chunk_id"])


def missing(client: httpx.Client, namespace: str, document_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """The finding for a document that a query was expected to return."""
    answer = ask(client, namespace, text, **fields)
    assert document_id not in {chunk["document_id"] for chunk in answer["chunks"]}
    return why(client, answer, chunk_of(client, namespace, document_id))
