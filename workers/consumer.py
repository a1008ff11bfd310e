"""The part of a worker that takes messages. One that is no message of ours is rejected with a log line: unguarded, Celery
and kombu end the worker for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import redis
import structlog
from celery.worker.consumer import Consumer
from kombu.exceptions import KombuError

log = structlog.get_logger(__name__)
_logger = logging.getLogger(__name__)

# The errors that code raises on data of another shape; those of connections and of the system are not among them.
DATA_ERRORS: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, KombuError)


class TaskConsumer(Consumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, which hands on only messages that are tasks in format 2, and goes on when Redis refuses a command: a
    full one is no reason to end the worker, whose restart it would refuse as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connection_errors: tuple[type[BaseException], ...] = (*self.connection_errors, redis.ResponseError)

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
        """Return Celery's handler of a message, guarded."""
        handle = super().create_task_handler(*args, **kwargs)

        def guarded(message: Any) -> None:
            try:
                if wrong := flaw_of(message):
                    self._reject(message, wrong)
                else:
                    handle(message)
            except self.connection_errors:
                raise
            except DATA_ERRORS as error:
                self._reject(message, type(error).__name__)

        return guarded

    def _reject(self, message: Any, reason: str) -> None:
        """Take the message from its queue for good. Its content is not logged: it may be anything."""
        queue = message.delivery_info.get("routing_key") if isinstance(message.delivery_info, dict) else None
        log.error("message_rejected", reason=reason, queue=str(queue)[:64], bytes=len(message.body or ""))
        if not message.acknowledged:
            message.reject_log_error(_logger, self.connection_errors)


def flaw_of(message: Any) -> str | None:
    """Return why a message is no task, or None. Raises one of `DATA_ERRORS` for a body that cannot be decoded."""
    headers = message.headers
    if not isinstance(headers, dict):
        return "headers are missing"
    for name in ("task", "id"):
        value = headers.get(name)
        if not isinstance(value, str) or not 0 < len(value) <= 255:
            return f"the header {name} is missing or no name"
    body = message.payload
    if not isinstance(body, list | tuple) or len(body) != 3:
        return "the body is not a list of three"
    arguments, named, embedded = body
    if not isinstance(arguments, list | tuple) or not isinstance(named, dict) or not isinstance(embedded, dict | None):
        return "the body does not hold arguments"
    return None
