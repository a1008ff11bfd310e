"""Two knowledge bases, one cut into parents and one into windows, and how tests query and list them."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.corpora.documents import search

PUMPS = "# Pumps\n\n" + "\n\n".join(
    f"Step {n}: open valve {n} of the pump and wait until it is still." for n in range(24)
)
SENTENCES = "The fox hunts at night. The owl sees in the dark. The hare runs over the field. The cat naps all day."
MARKDOWN = {"media_type": "text/markdown", "uri": "https://example.com/pumps.md"}
FAMILY = {"strategy": "parent_child", "max_tokens": 32, "parent_tokens": 128}
WINDOW = {"strategy": "window", "window": 1}


def ask(client: httpx.Client, question: str, namespaces: list[str], **fields: Any) -> dict[str, Any]:
    return search(client, namespaces, question, **{"profile": "knowledge", **fields})


def listed(client: httpx.Client, namespace: str, **more: Any) -> list[dict[str, Any]]:
    answer = client.get("/v1/chunks", params={"namespace": namespace, "limit": 200, **more})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"])
