"""A tenant that sends the worst bodies, many at once: `python -m tests.support.clients.flood URL KEY`, until it is ended.

It is a separate process, so that the cost of sending is not mistaken for the cost of receiving. It prints the status of
each answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx

# Each of these took seconds of the gateway's interpreter.
LINE_ENDS = "a" + " " * 20_000 + "b"
FULL_STOPS = "." * 8_000 + "x"
ROW = {"user_input": LINE_ENDS, "agent_response": LINE_ENDS}
WORDS = ["".join(f"word{number} " for number in range(20))[:127]] * 32


def _requests() -> list[dict[str, Any]]:
    """Method, path and body of each request that is sent again and again."""
    preview = _json("POST", "/v1/chunks/preview", {"document": {"text": FULL_STOPS}})
    book = _json("POST", "/v1/examples?dry_run=true", {"namespace": "kb", "examples": {"qa_examples": [ROW] * 4}})
    verify = _json("POST", "/v1/verify", {})
    dictionary = _json("PUT", "/v1/dictionary", {"synonyms": [WORDS] * 500})
    return [*[preview] * 12, *[book] * 12, *[verify] * 7, dictionary]


def _json(method: str, url: str, body: Any) -> dict[str, Any]:
    return {
        "method": method,
        "url": url,
        "content": json.dumps(body).encode(),
        "headers": {"Content-Type": "application/json"},
    }


async def _send(client: httpx.AsyncClient, request: dict[str, Any]) -> None:
    while True:
        answer = await client.request(**request)
        print(answer.status_code, flush=True)
        if answer.status_code != 200:
            await asyncio.sleep(0.2)


async def flood(url: str, key: str) -> None:
    """Send for ever."""
    requests = _requests()
    limits = httpx.Limits(max_connections=len(requests))
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120, limits=limits) as client:
        await asyncio.gather(*(_send(client, request) for request in requests))


if __name__ == "__main__":
    asyncio.run(flood(*sys.argv[1:]))
