"""How tests of the gateway speak to it, and what every refusal of it has."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.support.repository.described_codes import described_codes

VALID = {"document_id": "good", "text": "The pump starts when the valve is open."}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The body of a refusal, after checking what every refusal has."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    codes = described_codes(response)
    assert codes is None or code in codes, f"{response.request.method} {response.request.url.path}: {status} {code}"
    assert body["status"] == status
    assert all(body[name] for name in ("type", "title", "detail"))
    assert body["instance"] == response.request.url.path
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def pointers(body: dict[str, Any]) -> list[str]:
    return [error["pointer"] for error in body["errors"]]


def send(client: httpx.Client, namespace: str, *documents: Any, **more: Any) -> httpx.Response:
    body = {"namespace": namespace, "documents": list(documents), **more}
    return client.post("/v1/documents", content=json.dumps(body), headers={"Content-Type": "application/json"})


def ended(client: httpx.Client, response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 202, response.text
    job: dict[str, Any] = client.get(response.headers["location"], params={"wait": 30}).json()
    return job
