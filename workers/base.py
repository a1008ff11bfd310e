"""The base of all tasks: bind log context, and measure time."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import Any

import structlog
from celery import Task
from celery.signals import task_postrun, task_prerun
from celery.worker.request import Request
from opentelemetry.trace import SpanKind

from pipeline.errors import NewerMessage, TenantGone, Unavailable
from pipeline.metrics.queue_depth_store import SENT_AT
from pipeline.telemetry import tracing
from pipeline.telemetry.tracing import TRACEPARENT, TRACESTATE
from workers.names import FORMAT, MESSAGE_FORMAT, TaskName
from workers.resources import full_stores, meter

log = structlog.get_logger(__name__)
_logger = logging.getLogger(__name__)

_STARTED, _SPAN, _REPORTED = "chordwise_started", "chordwise_span", "chordwise_reported"
STATE = "chordwise_state"  # of the query, which the last header leaves to the callback in its process
_OF_REQUEST = ("request_id", SENT_AT, FORMAT, TRACEPARENT, TRACESTATE)
_OF_QUERIES = {TaskName.UNDERSTAND, TaskName.ANSWER, TaskName.FINISH}


class QuietRequest(Request):  # type: ignore[misc]  # Celery has no types
    """A message at a worker that reports only the kind of an error to Flower: its text may hold personal data."""

    def send_event(self, type: str, **fields: Any) -> None:
        """Send the events of this worker to its listeners."""
        if "exception" in fields:
            fields["exception"] = str(fields["exception"]).partition("(")[0][:80]
            fields["traceback"] = ""
        if type == "task-failed" and not self.task.send_events and self._eventer and self._eventer.enabled:
            # The only event of a task that sends no other, so it must carry the task's name.
            fields |= {"name": self.name, "args": "()", "kwargs": repr(self.kwargs), "root_id": self.root_id}
            self._eventer.send(type, uuid=self.id, **fields)
            return
        super().send_event(type, **fields)


class LoggedTask(Task):  # type: ignore[misc]  # Celery has no types
    """Base of every task: results are not stored, and retries are left to ledger and deadline."""

    Request = QuietRequest
    ignore_result = True
    throws = (Unavailable, TenantGone)  # Celery does not report them, on_failure does
    max_retries = 0

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        """Leave a message of a newer version to ledger and deadline. Raises NewerMessage."""
        sent = header_of(self, FORMAT)
        if isinstance(sent, int) and sent > MESSAGE_FORMAT:
            raise NewerMessage(
                f"a message has format {sent}, this worker knows {MESSAGE_FORMAT}: restart it with the newer version"
            )

    def on_failure(self, exc: Exception, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        """Log a warning if a dependency was unavailable and the work is repeated by itself, a line if its tenant has been
        erased meanwhile, else an error."""
        if isinstance(exc, TenantGone):
            log.info("task_dropped", task=self.name, task_id=task_id, code=exc.code, detail=str(exc))
            return
        if isinstance(exc, Unavailable):
            full_stores().note(exc)
            log.warning("task_postponed", task=self.name, task_id=task_id, code=exc.code, detail=str(exc))
            return
        log.error("task_failed", task=self.name, task_id=task_id, error=type(exc).__name__, traceback=str(einfo))


class CallbackTask(LoggedTask):
    """A chord's callback, run in the thread of the worker that counted the last header if it consumes the callback's
    queue. If it dies, the deadline answers."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the task here, or send it to a worker that can."""
        header = self.app.current_worker_task
        if header is None:
            return super().apply_async(args, kwargs, **options)
        of_request = {name: value for name in _OF_REQUEST if (value := header_of(header, name)) is not None}
        options |= {"headers": of_request, "root_id": header.request.root_id}
        if options.get("queue") not in self.app.amqp.queues.consume_from:
            return super().apply_async(args, kwargs, **options)
        of_request[STATE] = getattr(header.request, STATE, None)
        unbind(header, state="SUCCESS")  # it has returned; later work is not its time
        return self.apply(args, kwargs, throw=False, **options)


@task_prerun.connect(weak=False)
def bind(task: Task, kwargs: dict[str, Any] | None = None, **_: Any) -> None:
    """Put the ids of the work into every log line of the task."""
    ids = {name: value for name, value in (kwargs or {}).items() if name.endswith("_id") or name == "channel"}
    headers = {name: header_of(task, name) for name in ("request_id", TRACEPARENT, TRACESTATE)}
    request_id = headers["request_id"]
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=task.name, **ids, **({"request_id": request_id} if request_id else {}))
    attributes = {f"chordwise.{name}": str(value) for name, value in ids.items()}
    open_span = ExitStack()
    span = open_span.enter_context(tracing.entered(task.name, headers, kind=SpanKind.CONSUMER, **attributes))
    setattr(task.request, _SPAN, (open_span, span))
    setattr(task.request, _STARTED, time.perf_counter())


@task_postrun.connect(weak=False)
def unbind(task: Task, state: str | None = None, retval: Any = None, **_: Any) -> None:
    """Log a line for each task not about a query, then clear its context. ``retval`` is a failed task's error; work
    that is retried later is no failure."""
    if getattr(task.request, _REPORTED, False):
        return
    setattr(task.request, _REPORTED, True)
    failed = state == "FAILURE"
    if failed and isinstance(retval, Unavailable):
        state = "POSTPONED"
    started = getattr(task.request, _STARTED, None)
    elapsed_ms = None if started is None else round((time.perf_counter() - started) * 1000, 2)
    meter().count("chordwise_tasks", task=task.name, state=(state or "unknown").lower())
    if elapsed_ms is not None:
        meter().observe("chordwise_task_seconds", elapsed_ms / 1000, task=task.name)
    of_query = "channel" in structlog.contextvars.get_contextvars() or task.name in _OF_QUERIES
    if not of_query or _logger.isEnabledFor(logging.DEBUG):
        (log.debug if of_query else log.info)("task_done", state=state, latency_ms=elapsed_ms)
    open_span, span = getattr(task.request, _SPAN, (ExitStack(), tracing.UNRECORDED))
    if failed:
        tracing.fail(span, type(retval).__name__)
    open_span.close()
    structlog.contextvars.clear_contextvars()


def header_of(task: Task, name: str) -> Any:
    """Return a header of the message, wherever this way of delivery puts it."""
    return (task.request.headers or {}).get(name) or getattr(task.request, name, None)
