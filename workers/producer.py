"""The Celery app as a sender: configured, and with no task loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from celery import Celery, Signature
from celery.utils import uuid
from kombu.exceptions import KombuError

log = structlog.get_logger(__name__)

producer = Celery("chordwise", set_as_current=False)


def subscribe_to_nothing(app: Celery) -> None:
    """Turn off the subscriptions of this app's result backend; storing and counting chord parts goes on."""
    app.backend.result_consumer.consume_from = lambda _task_id: None
    app.backend.result_consumer.start = lambda *_args, **_kwargs: None


producer.config_from_object("celery_config")
subscribe_to_nothing(producer)


def send_chord(headers: Sequence[Signature], callback: Signature, app: Celery = producer) -> None:
    """Send what `celery.chord` sends for plain header tasks (docs/decisions/0034), whose signatures may bring
    ``task_id`` and ``root_id``. Parts are counted from the first message on. Raises what publishing raises."""
    group_id = uuid()
    body = {**callback, "options": {"task_id": uuid(), **callback.options}}
    app.backend.set_chord_size(group_id, len(headers))
    with app.producer_or_acquire() as sender:
        for place, header in enumerate(headers):
            options = dict(header.options)
            meant = {name: options.pop(name) for name in ("expires", "ignore_result", "argsrepr", "kwargsrepr")}
            message = app.amqp.create_task_message(
                options.pop("task_id", None) or uuid(),
                header.task,
                (),
                header.kwargs,
                group_id=group_id,
                group_index=place,
                chord=body,
                root_id=options.pop("root_id", None),
                **meant,
            )
            app.amqp.send_task_message(sender, header.task, message, expiration=meant["expires"], **options)


def waiting_messages(queues: Sequence[str], app: Celery = producer) -> Mapping[str, int]:
    """Return the messages of each queue that no worker has taken, as an AMQP broker counts them; nothing while it is
    away. An undeclared queue is empty. Opens a connection."""
    waiting = dict.fromkeys(queues, 0)
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
            for queue in queues:
                with suppress(*connection.channel_errors), connection.channel() as channel:
                    waiting[queue] = channel.queue_declare(queue, passive=True).message_count
    except (KombuError, OSError) as error:
        log.warning("queues_not_counted", error=type(error).__name__)
        return {}
    return waiting
