"""The price of a query in counts, which no busy machine changes: commands and bytes of Redis, messages, bytes of the answer."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest
import redis

from tests.conftest import gateway, make_tenant
from tests.support.corpora.documents import document, until_indexed, upload

MOST_COMMANDS = 48  # inside of scripts too, of which the gateway and the workers send fewer than a third
MOST_SENT = 16
MOST_BYTES = 22_000
ESCAPED = re.compile(r"\\x[0-9a-f]{2}|\\.")  # a byte as MONITOR shows it
TEXTS = [
    f"The pump {number} starts when valve {number} is open. 阀门打开后水泵自动启动，{number} 号泵先检查油位。"
    for number in range(30)
]


@pytest.fixture(scope="module")
def asker(use) -> Iterator[tuple[httpx.Client, str]]:
    """A tenant's client and the tenant; its namespace is `pumps`."""
    tenant_id, key = make_tenant(use)
    with gateway(key) as client:
        upload(client, "pumps", [document(f"d{number}", text) for number, text in enumerate(TEXTS)])
        until_indexed(client, "pumps")
        ask(client, "pump")  # reads what is kept between queries
        yield client, tenant_id


def ask(client: httpx.Client, question: str, **fields: Any) -> httpx.Response:
    body = {"query_text": question, "namespaces": ["pumps"], "top_k": 10, **fields}
    answer = client.post("/v1/queries", json=body, headers={"Prefer": "wait=10", "Cache-Control": "no-cache"})
    assert answer.status_code == 200, answer.text
    assert not answer.json()["stats"]["degraded"], answer.text
    return answer


def commands_of(asker: tuple[httpx.Client, str], settings: Any, question: str) -> list[dict[str, Any]]:
    """Ask a question and return the commands that Redis carries out for it."""
    client, tenant_id = asker
    end = f"end-{uuid.uuid4()}"
    with closing(redis.Redis.from_url(settings.redis_url.get_secret_value())) as other, other.monitor() as monitor:
        query_id = ask(client, question).json()["query_id"]
        other.echo(end)
        seen = []
        for command in monitor.listen():
            if end in command["command"]:
                break
            if query_id in command["command"] or f"{tenant_id}:" in command["command"]:
                seen.append(command)
    return seen


@pytest.mark.parametrize("question", ["when does pump 7 start?", "七号水泵什么时候启动？"])
def it_takes_few_commands_and_bytes_of_redis(asker, settings, question):
    seen = commands_of(asker, settings, question)
    sent = [command for command in seen if command["client_type"] != "lua"]
    counts = Counter(command["command"].split(" ")[0] for command in sent)
    assert counts["LPUSH"] == 2, "one message for each channel"
    assert not counts["EVAL"], "scripts are named by their digests"
    assert len(sent) <= MOST_SENT, counts
    assert len(seen) <= MOST_COMMANDS, Counter(command["command"].split(" ")[0] for command in seen)
    assert sum(len(ESCAPED.sub(".", command["command"])) for command in sent) <= MOST_BYTES


def it_answers_with_what_was_asked_for_alone(asker):
    client, _ = asker
    plain, whole = ask(client, "valve"), ask(client, "valve", context={}, highlight=True)
    hits = plain.json()["chunks"]
    texts = sum(len(hit["text"].encode()) for hit in hits)
    assert len(hits) == 10
    assert len(plain.content) - texts < 9_000, "what stands beside the texts of ten hits"
    assert len(plain.content) < 0.7 * len(whole.content)
