"""The price of a query in counts, which no busy machine changes: commands and bytes of Redis, messages, SQL statements of the
workers, bytes of the answer."""

from __future__ import annotations

import base64
import json
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

MOST_COMMANDS = 34  # inside of scripts too, of which the gateway and the workers send less than a third
MOST_SENT = 10
MOST_BYTES = 14_000
MOST_STATEMENTS = 3  # the nearest vectors, the vectors of other hits, the texts
BODY = re.compile(r'"body": "([A-Za-z0-9+/=]+)"')
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
    # The least of three: a heartbeat names the query, and the audit may be drained meanwhile.
    seen = min((commands_of(asker, settings, question) for _ in range(3)), key=len)
    sent = [command for command in seen if command["client_type"] != "lua"]
    counts = Counter(command["command"].split(" ")[0] for command in sent)
    assert counts["LPUSH"] == 2, "one message for each channel"
    assert [channel_of(command) for command in sent if command["command"].startswith("LPUSH")] == [
        "semantic",
        "keyword",
    ]
    assert not counts["EVAL"], "scripts are named by their digests"
    assert len(sent) <= MOST_SENT, counts
    assert len(seen) <= MOST_COMMANDS, Counter(command["command"].split(" ")[0] for command in seen)
    assert sum(len(ESCAPED.sub(".", command["command"])) for command in sent) <= MOST_BYTES


def channel_of(command: dict[str, Any]) -> str:
    """Return the channel whose message a command puts into a queue."""
    body = BODY.search(command["command"])
    assert body is not None
    return str(json.loads(base64.b64decode(body[1]))[1]["channel"])


def it_takes_few_sql_statements(asker):
    client, _ = asker
    counts = [Counter(statements_of(client, f"pump {number} and its valve")) for number in range(5)]
    least = min(counts, key=Counter.total)  # some also read again what is kept for seconds
    assert least.total() <= MOST_STATEMENTS, counts


def statements_of(client: httpx.Client, question: str) -> list[str]:
    """Ask a question and return the statements that its workers sent, by the server and the part."""
    query_id = ask(client, question, trace=True).json()["query_id"]
    timeline = client.get(f"/v1/queries/{query_id}/trace").raise_for_status().json()["timeline"]
    return [f"{span['part']} {span['name']}" for span in timeline if span["name"].startswith(("mysql", "postgresql"))]


@pytest.mark.parametrize("question", ["when does pump 7 start?", "七号水泵什么时候启动？"])
def it_sends_the_answer_as_it_is_stored_to_a_client_that_takes_it(asker, question):
    client, _ = asker
    body = {"query_text": question, "namespaces": ["pumps"], "top_k": 10}
    headers = {"Prefer": "wait=10", "Cache-Control": "no-cache"}
    received = {}
    for encodings in ("gzip, deflate", "gzip, deflate;q=0", "identity"):
        with client.stream(
            "POST", "/v1/queries", json=body, headers=headers | {"Accept-Encoding": encodings}
        ) as answer:
            answer.read()
        assert len(answer.json()["chunks"]) == 10
        received[encodings] = answer.headers.get("content-encoding"), answer.num_bytes_downloaded
    assert {encodings: encoding for encodings, (encoding, _) in received.items()} == {
        "gzip, deflate": "deflate",
        "gzip, deflate;q=0": None,
        "identity": None,
    }
    assert received["gzip, deflate"][1] < 0.5 * received["identity"][1]
    again = client.post("/v1/queries", json=body, headers=headers | {"Idempotency-Key": uuid.uuid4().hex})
    assert "content-encoding" not in again.headers, "it may be repeated to a client that takes another encoding"


def it_answers_with_what_was_asked_for_alone(asker):
    client, _ = asker
    plain, whole = ask(client, "valve"), ask(client, "valve", context={}, highlight=True)
    hits = plain.json()["chunks"]
    texts = sum(len(hit["text"].encode()) for hit in hits)
    assert len(hits) == 10
    assert len(plain.content) - texts < 9_000, "what stands beside the texts of ten hits"
    assert len(plain.content) < 0.7 * len(whole.content)
