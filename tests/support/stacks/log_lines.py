"""What a process would write to its log, for tests to read."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from pipeline.telemetry.logs import configure_logging


@contextmanager
def log_lines(level: str) -> Iterator[io.BytesIO]:
    """Every line from now on, with nothing bound to them by what ran before; then logging is as it was."""
    root = logging.getLogger()
    handlers, before = root.handlers[:], root.level
    written = io.BytesIO()
    structlog.contextvars.clear_contextvars()
    configure_logging(level, service="test", write=written.write)
    structlog.configure(cache_logger_on_first_use=False)  # or other tests would get these loggers
    try:
        yield written
    finally:
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(before)
