"""Headers of a query's chord that raise, get lost, or are delivered more than once: Celery's own chord, a real worker.

Each test suspends the worker while it changes a message in the broker, so every message comes from the gateway.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from tests.support.corpora.documents import found_documents
from tests.support.stacks.fault_lab import in_two_tries
from tests.support.stacks.outage_stack import NAMESPACE, OutageStack, outage_stack
from workers.names import Queue

DEADLINE_S = 4.0
LATE_S = 0.25
QUESTIONS = [("photovoltaic panels", "solar"), ("绿茶用多少度的水", "tea")]

Change = Callable[[dict[str, Any]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def stack(settings, tmp_path_factory) -> Iterator[OutageStack]:
    with outage_stack(settings, tmp_path_factory.mktemp("headers")) as found:
        yield found


def with_arguments(change: Callable[[dict[str, Any]], None]) -> Change:
    """Return a change that edits the message's keyword arguments."""

    def changed(message: dict[str, Any]) -> list[dict[str, Any]]:
        positional, named, embedded = json.loads(base64.b64decode(message["body"]))
        change(named)
        body = base64.b64encode(json.dumps([positional, named, embedded]).encode()).decode()
        return [{**message, "body": body}]

    return changed


WITHOUT_QUERY_ID = with_arguments(lambda named: named.pop("query_id"))
IMPOSSIBLE_CHANNEL = with_arguments(lambda named: named.update(channel="no such channel"))


def lost(message: dict[str, Any]) -> list[dict[str, Any]]:
    return []


def thrice(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [message] * 3


def _asked(stack: OutageStack, question: str, change: Change, **more: Any) -> tuple[dict[str, Any], float]:
    """Send a query, change its message to the semantic channel, and return the answer and the seconds it took."""
    body = {
        "query_text": question,
        "namespaces": [NAMESPACE],
        "deadline_ms": int(DEADLINE_S * 1000),
        "enable_rerank": True,
        **more,
    }
    with stack.worker_held() as broker:
        started = time.monotonic()
        accepted = stack.client.post("/v1/queries", json=body)
        assert accepted.status_code == 202
        _change(broker, change)
    answer = stack.client.get(accepted.headers["Location"], params={"wait": 20}).json()
    return answer, time.monotonic() - started


def _arguments(message: dict[str, Any]) -> dict[str, Any]:
    _, named, _ = json.loads(base64.b64decode(message["body"]))
    return dict(named)


def _change(broker: redis.Redis, change: Change) -> None:
    """Replace the one message to the semantic channel."""
    ends = time.monotonic() + 2
    while True:
        waiting = broker.lrange(Queue.RECALL.value, 0, -1)
        of_semantic = [raw for raw in waiting if _arguments(json.loads(raw)).get("channel") == "semantic"]
        if of_semantic:
            break
        assert time.monotonic() < ends, "the message is not there"
        time.sleep(0.02)
    [raw] = of_semantic
    assert broker.lrem(Queue.RECALL.value, 1, raw) == 1
    for message in change(json.loads(raw)):
        broker.lpush(Queue.RECALL.value, json.dumps(message))


class DescribeHeadersThatRaise:
    @pytest.mark.parametrize(
        ("question", "document", "change"),
        [
            pytest.param(*QUESTIONS[0], WITHOUT_QUERY_ID, id="without_query_id"),
            pytest.param(*QUESTIONS[1], IMPOSSIBLE_CHANNEL, id="impossible"),
        ],
    )
    def it_answers_at_once_from_the_rest(self, stack, question, document, change):
        def run() -> None:
            stack.heal()
            answer, took_s = _asked(stack, question, change)
            assert answer["status"] == "succeeded"
            assert found_documents(answer) == [document]
            assert [(each["part"], each["code"]) for each in answer["stats"]["degradations"]] == [
                ("semantic", "no_answer")
            ]
            assert "rerank" in answer["stats"]["latency_ms"], "the rest of the pipeline runs as usual"
            assert took_s < DEADLINE_S / 2

        in_two_tries(run)

    @pytest.mark.thorough
    def it_fails_at_once_where_no_other_channel_is_asked(self, stack):
        def run() -> None:
            stack.heal()
            answer, took_s = _asked(stack, "光伏板", WITHOUT_QUERY_ID, retrieve={"method": "semantic"})
            assert (answer["status"], answer["chunks"]) == ("failed", [])
            assert answer["error"]["code"] == "retrieval_unavailable"
            assert took_s < DEADLINE_S / 2

        in_two_tries(run)


class DescribeHeadersThatAreLost:
    def it_answers_with_every_channel_after_they_were_sent_again(self, stack):
        def run() -> None:
            stack.heal()
            answer, took_s = _asked(stack, QUESTIONS[1][0], lost)
            assert answer["status"] == "succeeded"
            assert answer["chunks"][0]["document_id"] == QUESTIONS[1][1]
            assert answer["stats"]["degradations"] == []
            assert DEADLINE_S / 2 - 0.1 <= took_s < DEADLINE_S

        in_two_tries(run)

    def it_answers_at_the_deadline_from_the_rest_where_no_time_is_left_for_that(self, stack):
        def run() -> None:
            stack.heal()
            answer, took_s = _asked(stack, QUESTIONS[1][0], lost, deadline_ms=900)
            assert answer["status"] == "succeeded"
            assert found_documents(answer) == [QUESTIONS[1][1]]
            assert {each["part"] for each in answer["stats"]["degradations"]} >= {"semantic"}
            assert 0.8 <= took_s <= 0.9 + LATE_S

        in_two_tries(run)


class DescribeHeadersThatComeThrice:
    @pytest.mark.parametrize(("question", "document"), QUESTIONS[1:], ids=["zh"])
    def it_answers_once_with_every_channel(self, stack, question, document):
        def run() -> None:
            stack.heal()
            answer, took_s = _asked(stack, question, thrice)
            assert answer["status"] == "succeeded"
            assert answer["stats"]["degradations"] == []
            assert set(answer["stats"]["hits"]) == {"keyword", "semantic"}
            assert found_documents(answer)[0] == document
            assert took_s < DEADLINE_S

        in_two_tries(run)
