"""Logs as JSON lines: constant events with fields. Ids and numbers only, never document text or secrets."""

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import structlog

Write = Callable[[bytes], object]

_NOISY = ("httpx", "httpcore", "openai", "alembic", "kombu", "amqp", "celery.worker.strategy", "celery.app.trace")


def configure_logging(level: str, *, service: str, write: Write | None = None) -> None:
    """Write our events and those of libraries to ``write``, by default standard error, as one JSON object a line.

    Each has the fields bound in ``structlog.contextvars``. Ours bypass `logging`, to save processor time of queries."""
    write = write or _to_standard_error
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _named(service),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(_as_json)],
        logger_factory=lambda *names: _Lines(write, *names),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(_as_text),
        ],
    )
    handler = _Handler(write)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel("WARNING")
    logging.getLogger("opentelemetry.trace").setLevel("ERROR")  # its warnings quote callers' malformed headers


class _Lines:
    """Writes structlog's finished lines."""

    def __init__(self, write: Write, name: str = "") -> None:
        self._write = write
        self.name = name

    def msg(self, line: bytes) -> None:
        self._write(line + b"\n")

    log = debug = info = warning = error = critical = fatal = exception = msg


class _Handler(logging.Handler):
    """Writes the lines of libraries."""

    def __init__(self, write: Write) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:  # noqa: BLE001 - as every handler does: a line that cannot be written must not stop its caller
            self.handleError(record)


def _to_standard_error(line: bytes) -> None:
    """Write past Python's own buffer, whose lock a forked child might find taken."""
    with suppress(OSError, ValueError):  # nobody reads it any more, and there is no other place to report that
        descriptor = sys.stderr.fileno()
        while line:
            line = line[os.write(descriptor, line) :]


def _as_json(event: dict[str, Any], **how: Any) -> bytes:
    try:
        return orjson.dumps(event, default=how["default"], option=orjson.OPT_NON_STR_KEYS)
    except TypeError:  # numbers beyond 64 bits, and surrogates, which UTF-8 cannot encode
        return json.dumps(event, **how).encode()


def _as_text(event: dict[str, Any], **how: Any) -> str:
    return _as_json(event, **how).decode()


def _named(service: str) -> structlog.typing.Processor:
    def add(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"] = service
        return event

    return add
