"""Ask a question through the interfaces of the gateway, and read what each of them calls an answer, a loss and a refusal.

Each function fails on an answer that its interface does not promise.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

CODES = {"overloaded", "retrieval_unavailable", "store_unavailable"}


class Caller(Protocol):
    """A client with a tenant's key, and the namespace that it asks."""

    @property
    def client(self) -> httpx.Client:
        """Return the client."""

    @property
    def namespace(self) -> str:
        """Return the namespace."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A caller's result. ``documents`` is None for an error; ``lost``: the parts that the answer names as lost."""

    took_s: float
    documents: list[str] | None
    texts: list[str] = field(default_factory=list, repr=False)
    lost: frozenset[str] = frozenset()
    code: str | None = None
    said: str = field(default="", repr=True)


def of_v1(answer: dict[str, Any], took_s: float) -> Seen:
    """Return the result that a finished query of the API itself is."""
    documents = list(dict.fromkeys(chunk["document_id"] for chunk in answer["chunks"]))
    texts = [chunk["text"] for chunk in answer["chunks"]]
    lost = frozenset(each["part"] for each in answer["stats"]["degradations"])
    if answer["status"] == "succeeded":
        assert answer["error"] is None
        assert answer["stats"]["degraded"] is bool(lost)
        return Seen(took_s=took_s, documents=documents, texts=texts, lost=lost)
    assert answer["status"] == "failed"
    assert documents == []
    assert "context" not in answer
    assert answer["error"]["detail"]
    return Seen(took_s=took_s, documents=None, lost=lost, code=answer["error"]["code"], said=answer["error"]["detail"])


def _refused(response: httpx.Response, took_s: float) -> Seen:
    assert response.status_code == 503, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    return Seen(took_s=took_s, documents=None, code=problem["code"], said=problem["detail"])


def waiting(caller: Caller, question: str, **more: object) -> Seen:
    """Ask, and wait in the same request."""
    started = time.monotonic()
    body = {"query_text": question, "namespaces": [caller.namespace], **more}
    response = caller.client.post("/v1/rag/query", json=body)
    took_s = time.monotonic() - started
    if response.status_code == 202:  # the gateway is about to stop
        return _fetched(caller, response, started)
    return of_v1(response.json(), took_s) if response.status_code == 200 else _refused(response, took_s)


def polled(caller: Caller, question: str, **more: object) -> Seen:
    """Ask, then fetch the answer."""
    started = time.monotonic()
    body = {"query_text": question, "namespaces": [caller.namespace], **more}
    accepted = caller.client.post("/v1/queries", json=body)
    if accepted.status_code != 202:
        return _refused(accepted, time.monotonic() - started)
    return _fetched(caller, accepted, started)


def _fetched(caller: Caller, accepted: httpx.Response, started: float) -> Seen:
    while True:
        response = caller.client.get(accepted.headers["Location"], params={"wait": 5})
        took_s = time.monotonic() - started
        if response.status_code != 200:
            return _refused(response, took_s)
        if response.json()["status"] not in {"queued", "running"}:
            return of_v1(response.json(), took_s)


def openai(caller: Caller, question: str) -> Seen:
    """Search as with OpenAI's client."""
    started = time.monotonic()
    response = caller.client.post(f"/openai/v1/vector_stores/{caller.namespace}/search", json={"query": question})
    took_s = time.monotonic() - started
    if response.status_code == 200:
        lost = response.headers.get("X-Chordwise-Degraded", "")
        return Seen(
            took_s=took_s,
            documents=[each["file_id"] for each in response.json()["data"]],
            texts=[part["text"] for each in response.json()["data"] for part in each["content"]],
            lost=frozenset(each.partition(":")[0] for each in lost.split(", ") if each),
        )
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (503, "server_error")
    return Seen(took_s=took_s, documents=None, code=error["code"], said=error["message"])
