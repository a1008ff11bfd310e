"""A span around every statement of a database. Only where spans are collected; see `pipeline.tracing`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from sqlalchemy import Engine, event

from pipeline.tracing import edge

_OPEN = "chordwise_span"


def traced(engine: Engine, system: str) -> Engine:
    """The same engine; each of its statements is a span that says which kind of statement it was, never its text."""

    def begin(_connection: Any, _cursor: Any, statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        kind = statement.lstrip("( \n").partition(" ")[0].upper()[:16]
        lasting = ExitStack()
        lasting.enter_context(edge(f"{system} {kind}", **{"db.system.name": system, "db.operation.name": kind}))
        setattr(context, _OPEN, lasting)

    def end(_connection: Any, _cursor: Any, _statement: str, _parameters: Any, context: Any, _many: bool) -> None:
        getattr(context, _OPEN).close()

    def fail(context: Any) -> None:
        lasting = getattr(context.execution_context, _OPEN, None)
        if lasting is not None:
            error = context.original_exception
            lasting.__exit__(type(error), error, error.__traceback__)

    event.listen(engine, "before_cursor_execute", begin)
    event.listen(engine, "after_cursor_execute", end)
    event.listen(engine, "handle_error", fail)
    return engine
