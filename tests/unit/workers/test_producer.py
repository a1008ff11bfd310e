"""Sending a chord without the canvas: the very messages that the canvas sends."""

import json
from collections.abc import Callable
from typing import Any

from celery import Celery, Signature, chord
from kombu import Exchange, Queue

from pipeline.metrics.queue_depth_store import SENT_AT
from workers.producer import send_chord

CHANNELS = ("keyword", "semantic", "faq")
# Results go nowhere, no group counts the callback, and Flower reads the headers.
LEFT_OUT = {"reply_to", "group_id"}
SAID_TWICE = {"argsrepr", "kwargsrepr", "delivery_tag"}


def sent(send: Callable[[Celery, list[Signature], Signature], object]) -> list[Any]:
    """The messages that ``send`` leaves in the queue of the headers, each id replaced by where it was seen first."""
    app = Celery("test", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.task_queues = [Queue(name, Exchange(name), routing_key=name) for name in ("recall", "answer")]

    def signed(name: str, arguments: dict[str, str], queue: str) -> Signature:
        options = {"ignore_result": True, "expires": 5.0, "argsrepr": "()", "kwargsrepr": repr(arguments)}
        options |= {"headers": {"request_id": "r1", SENT_AT: 1.5}, "queue": queue}
        return app.signature(name, kwargs=arguments, options=options, immutable=False)

    headers = [signed("recall", {"tenant_id": "t", "channel": channel}, "recall") for channel in CHANNELS]
    send(app, headers, signed("answer", {"tenant_id": "t"}, "answer"))
    with app.connection_for_read() as connection, connection.SimpleQueue(app.amqp.queues["recall"]) as queue:
        messages = [queue.get(block=False) for _ in headers]
    told = [
        {
            "headers": {name: value for name, value in message.headers.items() if name != "expires"},
            "properties": {name: value for name, value in message.properties.items() if name not in SAID_TWICE},
            "body": json.loads(message.body),
            "lasts": message.headers["expires"] is not None,
        }
        for message in messages
    ]
    return known_by_place(told, {})


def known_by_place(value: Any, seen: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {name: known_by_place(each, seen) for name, each in sorted(value.items()) if name not in LEFT_OUT}
    if isinstance(value, list):
        return [known_by_place(each, seen) for each in value]
    is_id = isinstance(value, str) and len(value) == 36 and value.count("-") == 4
    return f"id {seen.setdefault(value, len(seen))}" if is_id else value


class DescribeSendChord:
    def it_sends_what_the_canvas_sends(self):
        ours = sent(lambda app, headers, callback: send_chord(headers, callback, app))
        assert len(ours) == len(CHANNELS)
        assert ours == sent(lambda app, headers, callback: chord(headers, app=app)(callback))

    def it_says_how_many_parts_to_wait_for(self):
        counted: list[tuple[str, int]] = []

        def send(app: Celery, headers: list[Signature], callback: Signature) -> None:
            app.backend.set_chord_size = lambda group, size: counted.append((group, size))
            send_chord(headers, callback, app)

        sent(send)
        assert [size for _, size in counted] == [len(CHANNELS)]
