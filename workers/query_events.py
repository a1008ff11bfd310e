"""Show queries in Flower, under load a sample: their events are sent after the answer, or dropped while the broker is slow."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import structlog
from celery import current_task
from celery.events.event import get_exchange
from celery.utils.time import utcoffset
from kombu.connection import Connection
from kombu.exceptions import KombuError
from kombu.messaging import Producer
from redis.exceptions import RedisError

from pipeline.answer.ended_query import NOT_TAKEN, SLOW_MS, UNDERSTAND, EndedQuery, TaskRun, is_shown, task_id_of
from pipeline.tenants.request_buckets import LocalBuckets, Rate
from workers.names import TaskName
from workers.producer import producer

log = structlog.get_logger(__name__)

_PERCENT: Final = 10.0  # of unremarkable queries; a command to the workers changes it until the next start
_GATHERED_S: Final = 0.25  # so that many queries share a message
_PAUSE_S: Final = 5.0  # after the broker refused a message
# Queries that are shown beside the sample, by each process.
_OF_A_TENANT: Final = Rate(per_minute=300, burst=5)
_OF_ALL: Final = Rate(per_minute=600, burst=10)
_MOST_TENANTS: Final = 1000
_MOST_WAITING: Final = 200  # queries; the oldest are dropped for newer ones
_MOST_IN_A_MESSAGE: Final = 50  # queries, of about 3 KB each


class QueryEvents:
    """Sends this process's events; thread-safe, never raises or waits. ``worker``: the process's name in Flower.
    ``percent``: the share shown, 0 to 100, of unremarkable queries; may change at any time. With any share, up to
    `_OF_A_TENANT` and `_OF_ALL` are shown as well, so that a tenant with few queries finds each, whatever others ask."""

    def __init__(
        self,
        *,
        percent: float,
        slow_ms: float,
        connect: Callable[[], Connection] = producer.connection_for_write,
        pause_s: float = _PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.percent = percent
        self._connect = connect
        self._pause_s = pause_s
        self.worker = f"gateway@{socket.gethostname()}"
        self._slow_ms = slow_ms
        self._few = LocalBuckets(most=_MOST_TENANTS, clock=clock)
        self._counting = threading.Lock()
        self._waiting: deque[tuple[EndedQuery, bool, str]] = deque(maxlen=_MOST_WAITING)
        self._filled = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def show(self, query: EndedQuery) -> None:
        """Queue the query's events if it is to be shown. Called by the composing task or the gateway."""
        if not self.wants(query):
            return
        is_overdue = bool(current_task) and current_task.name == TaskName.FINISH.value
        self._waiting.append((query, is_overdue, self.worker))
        if self._thread is None:
            self._start()
        self._filled.set()

    def wants(self, query: EndedQuery) -> bool:
        """Return whether to show a query: one of the sample, or of its tenant's few. Those of the sample do not count."""
        if is_shown(query, percent=self.percent, slow_ms=self._slow_ms):
            return True
        if self.percent <= 0:
            return False
        with self._counting:
            return all(
                self._few.take(name, rate).admitted for name, rate in ((query.tenant_id, _OF_A_TENANT), ("", _OF_ALL))
            )

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_for_ever, name="query-events", daemon=True)
                self._thread.start()

    def _send_for_ever(self) -> None:
        connection: Connection | None = None
        was_taken = True
        while True:
            self._filled.wait()
            time.sleep(_GATHERED_S)
            self._filled.clear()
            queries = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                connection = connection or self._connect()
                for at in range(0, len(queries), _MOST_IN_A_MESSAGE):
                    _publish(queries[at : at + _MOST_IN_A_MESSAGE], connection)
                was_taken = True
                continue
            except (KombuError, RedisError, OSError) as error:
                if was_taken:
                    log.warning("query_events_not_sent", queries=len(queries), error=type(error).__name__)
                was_taken = False
            except Exception as error:  # the thread must go on, whatever the broker's client raises
                log.exception("query_events_bug", error=type(error).__name__)
            if connection is not None:
                connection.release()  # type: ignore[no-untyped-call]  # ignores a broken connection
            connection = None
            time.sleep(self._pause_s)


def _publish(queries: Sequence[tuple[EndedQuery, bool, str]], connection: Connection) -> None:
    """Send the events of several queries as one message, as Celery's own buffered events are sent."""
    sent = [
        event for query, is_overdue, worker in queries for event in task_events(query, worker, is_overdue=is_overdue)
    ]
    exchange = get_exchange(connection, name=producer.conf.event_exchange)
    # The connection's own channel: one over Redis logs in anew.
    sender = Producer(connection.default_channel, exchange=exchange, serializer="json", auto_declare=False)  # type: ignore[no-untyped-call]
    sender.publish(  # type: ignore[no-untyped-call]
        sent,
        routing_key="task.multi",
        declare=[exchange],
        headers={"hostname": events.worker},
        delivery_mode=1,
        retry=False,
    )


def task_events(query: EndedQuery, worker: str, *, is_overdue: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the events of a query's tasks. ``worker``: of the composing task, the parent and root of the rest, which bears
    the name of the callback also where another task stood in for it: ``is_overdue``."""
    ids = {"tenant_id": query.tenant_id, "query_id": query.query_id}
    for run in query.runs:
        understands = run.part == UNDERSTAND
        yield from _events_of(
            run,
            uuid=task_id_of(query.query_id, run.part),
            name=TaskName.UNDERSTAND.value if understands else TaskName.RECALL.value,
            kwargs=ids if understands else {**ids, "channel": run.part},
            root_id=query.query_id,
            parent_id=query.query_id,
        )
    composed = TaskRun(
        part="answer",
        worker=worker,
        started_at=query.composed_at,
        runtime_s=query.composing_s,
        error=query.error,
        result=f"{query.result} by {TaskName.FINISH.value}" if is_overdue else query.result,
    )
    yield from _events_of(
        composed, uuid=query.query_id, name=TaskName.ANSWER.value, kwargs=ids, root_id=query.query_id, parent_id=None
    )


def _events_of(
    run: TaskRun, *, uuid: str, name: str, kwargs: dict[str, Any], root_id: str, parent_id: str | None
) -> Iterator[dict[str, Any]]:
    def event(kind: str, timestamp: float, **fields: Any) -> dict[str, Any]:
        return {
            "type": kind,
            "uuid": uuid,
            "hostname": run.worker or events.worker,
            "timestamp": timestamp,
            "utcoffset": utcoffset(),
            "pid": os.getpid(),
            "clock": producer.clock.forward(),
            **fields,
        }

    named = {"name": name, "args": "()", "kwargs": repr(kwargs), "root_id": root_id, "parent_id": parent_id}
    if run.error == NOT_TAKEN:  # no worker began it, so it is booked on none
        yield event("task-sent", run.started_at, **named, retries=0, eta=None, expires=None)
        return
    yield event("task-received", run.started_at, **named, retries=0, eta=None, expires=None)
    yield event("task-started", run.started_at)
    ended_at = run.started_at + run.runtime_s
    if run.error:
        yield event("task-failed", ended_at, exception=run.error, traceback="", runtime=run.runtime_s)
    else:
        yield event("task-succeeded", ended_at, result=run.result, runtime=run.runtime_s)


events = QueryEvents(percent=_PERCENT, slow_ms=SLOW_MS)
