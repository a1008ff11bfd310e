"""Texts in a queue that are no messages: each is dropped with a log line, and the worker goes on."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from pipeline.settings import Settings
from tests.conftest import redis_of_its_own
from tests.support.stacks.processes import environment_of, worker
from workers.names import Queue


def _message(**changes: Any) -> dict[str, Any]:
    """A message as kombu writes it, of a task that nobody knows, with these changes."""
    properties = {
        "delivery_tag": "1",
        "delivery_info": {"exchange": "", "routing_key": "recall"},
        "body_encoding": "base64",
    }
    headers = {"task": "queries.recall", "id": "11111111-1111-4111-8111-111111111111", "lang": "py"}
    message = {
        "body": _body([[], {}, {}]),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties,
    }
    return message | changes


def _body(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


PROPERTIES = _message()["properties"]
HEADERS = _message()["headers"]
DROPPED: list[bytes] = [  # by the transport
    b"not json",
    b"\xff\xfe\x00",
    b"{}",
    b"[]",
    b"7",
    b"null",
    b"[" * 100_000,
    *(
        json.dumps(message).encode()
        for message in (
            {"body": "e30=", "headers": {}, "properties": {}, "content-type": "application/json"},
            _message(properties=PROPERTIES | {"delivery_tag": {"a": 1}}),
            _message(properties=PROPERTIES | {"delivery_info": None}),
            _message(properties=PROPERTIES | {"delivery_info": {"exchange": 1, "routing_key": []}}),
            _message(properties=PROPERTIES | {"body_encoding": "rot13"}),
            _message(body=None),
            _message(body="é"),
            _message(headers=None),
            _message(headers=[]),
            _message(**{"content-type": ["json"]}),
        )
    ),
]
REJECTED: list[bytes] = [  # by the consumer
    json.dumps(message).encode()
    for message in (
        _message(body="!!", **{"content-type": "application/x-python-serialize"}),
        _message(**{"content-type": "text/of-nobody"}),
        _message(**{"content-encoding": "of-nobody"}),
        _message(body=base64.b64encode(b"\xff\xfe").decode()),
        _message(body=_body({"a": 1})),
        _message(body=_body([])),
        _message(body=_body([7, 8, 9])),
        _message(headers={}),
        _message(headers=HEADERS | {"task": None}),
        _message(headers=HEADERS | {"task": ["a"]}),
        _message(headers=HEADERS | {"id": {"a": 1}}),
        _message(headers=HEADERS | {"timelimit": "soon"}),
        _message(headers=HEADERS | {"expires": "never"}),
        _message(headers=HEADERS | {"eta": {"a": 1}}),
        _message(headers=HEADERS | {"retries": "many"}),
        _message(headers=HEADERS | {"task": "nobody.knows"}),
        _message(headers=HEADERS | {"compression": "of-nobody"}),
    )
]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.thorough)])
def it_goes_on_after_texts_that_are_no_messages(settings: Settings, tmp_path: Path, pool: str):
    log = tmp_path / "worker.log"
    with redis_of_its_own(settings) as url, redis.Redis.from_url(url) as client:
        environment = environment_of(settings, redis_url=url, port=0)
        with worker("garbage", ",".join(Queue), log=log, pool=pool, **environment) as running:
            _until(lambda: "ready." in log.read_text(), within_s=60)
            for _ in range(2):  # it still takes messages after the first round
                for queue in Queue:
                    client.rpush(queue.value, *DROPPED, *REJECTED)
                _until(lambda: not any(client.llen(queue.value) for queue in Queue), within_s=30)
            assert running.poll() is None
            text = log.read_text()
    assert "Unrecoverable error" not in text
    assert text.count("message_dropped") == 2 * len(DROPPED) * len(Queue)


def _until(condition: Callable[[], bool], *, within_s: float) -> None:
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)
