"""The Celery app as a sender: configured, without loading any task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog
from celery import Celery
from kombu.exceptions import KombuError

log = structlog.get_logger(__name__)

producer = Celery("chordwise", set_as_current=False)


def wait_for_no_result(app: Celery) -> None:
    """Keep this app's result backend from holding the results of a chord's headers and from subscribing to them.

    No code here waits for them, so nothing would ever release them. The counting of parts is unaffected.
    """
    app.backend.add_pending_result = lambda result, *_args, **_kwargs: result


producer.config_from_object("celery_config")
wait_for_no_result(producer)


def broker_version(app: Celery = producer) -> dict[str, str]:
    """Return the name and version of an AMQP broker; nothing for a Redis. Opens a connection. Raises the broker's errors."""
    with app.connection_for_write() as connection:
        if not connection.transport_cls.startswith(("amqp", "pyamqp")):
            return {}
        connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
        facts = connection.connection.server_properties
        return {str(facts["product"]): str(facts["version"])}


def waiting_messages(queues: Sequence[str], app: Celery = producer) -> Mapping[str, int]:
    """Return the number of messages of each queue by AMQP; nothing while it is unavailable. Opens a connection."""
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
