"""The chord of a query as Celery sends it and `workers.chords` ends it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from celery import Celery, states
from celery.app.trace import build_tracer
from kombu import Exchange, Queue

from pipeline.metrics.queue_depth_store import SENT_AT
from workers.producer import producer

CHANNELS = ("keyword", "semantic", "faq")


@pytest.fixture
def app() -> Iterator[Celery]:
    with Celery("test", broker="memory://", backend="workers.chords:ChordBackend", set_as_current=False) as app:
        app.conf.task_queues = [Queue(name, Exchange(name), routing_key=name) for name in ("headers", "callbacks")]
        yield app
        app.control.purge()


def send(app: Celery, *names: str) -> None:
    """Send a chord as `dispatch` sends it."""
    callback = app.signature(
        "answer", kwargs={"tenant_id": "t", "query_id": "q"}, immutable=True, options={"queue": "callbacks"}
    )
    callback.options |= {"task_id": "q", "ignore_result": True}
    for index, name in enumerate(names):
        app.send_task(
            "recall",
            kwargs={"channel": name},
            task_id=f"q-{name}",
            root_id="q",
            group_id="q",
            group_index=index,
            chord=callback,
            queue="headers",
            expires=5.0,
            ignore_result=True,
            headers={"request_id": "r1", SENT_AT: 1.5},
        )


def sent(app: Celery, *names: str) -> list[dict[str, Any]]:
    """Send a chord and return the messages of its headers."""
    send(app, *names)
    with app.connection_for_read() as connection, connection.SimpleQueue(app.amqp.queues["headers"]) as queue:
        messages = [queue.get(block=False) for _ in names]
    return [{**message.headers, "body": json.loads(message.body)} for message in messages]


def waiting(app: Celery, queue: str) -> int:
    """Return how many messages a queue holds."""
    with app.connection_for_read() as connection:
        return connection.SimpleQueue(app.amqp.queues[queue]).qsize()


class DescribeTheMessages:
    @pytest.mark.parametrize("names", [CHANNELS, CHANNELS[:1]])
    def it_keeps_the_ids_the_headers_and_the_time_that_were_signed(self, app, names):
        messages = sent(app, *names)
        assert [message["id"] for message in messages] == [f"q-{name}" for name in names]
        assert {(message["root_id"], message["group"]) for message in messages} == {("q", "q")}
        assert {(message["request_id"], message[SENT_AT]) for message in messages} == {("r1", 1.5)}
        assert all(message["expires"] and message["ignore_result"] for message in messages)

    def it_sends_the_callback_with_each_header(self, app):
        callbacks = [message["body"][2]["chord"] for message in sent(app, *CHANNELS)]
        assert {(callback["task"], callback["options"]["task_id"]) for callback in callbacks} == {("answer", "q")}
        assert all(len(json.dumps(callback)) < 600 for callback in callbacks)


class DescribeTheEnd:
    @pytest.mark.parametrize("names", [CHANNELS, CHANNELS[:1]])
    def it_calls_the_callback_once_after_the_header_that_says_that_all_have_reported(self, app, names):
        @app.task(name="recall", ignore_result=True, shared=False)
        def recall(channel: str) -> bool:
            return channel == names[-1]

        called = []
        for message in sent(app, *names):
            arguments, named, embedded = message.pop("body")
            build_tracer("recall", app.tasks["recall"], app=app)(message["id"], arguments, named, message | embedded)
            called.append(waiting(app, "callbacks"))
        assert called == [0] * (len(names) - 1) + [1]

    @pytest.mark.parametrize(
        ("state", "result"), [(states.SUCCESS, False), (states.FAILURE, RuntimeError()), (states.RETRY, True)]
    )
    def it_waits_for_a_header_that_says_so(self, app, state, result):
        [message] = sent(app, "keyword")
        request = type("Request", (), {"chord": message["body"][2]["chord"], "group_index": 0})
        app.backend.on_chord_part_return(request, state, result)
        assert waiting(app, "callbacks") == 0


class DescribeTheBackend:
    def it_is_one_for_all_threads(self):
        """Celery looks for one among all installed packages, which takes some 50 ms; a gateway has new threads after each
        pause."""
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(lambda: producer.backend).result() is producer.backend
