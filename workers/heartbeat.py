"""Send this worker's heartbeat from a thread while its loop consumes (see `pipeline.database.expiring_record_store`), and
answer inspections. A worker cut off or hung does not count as listening."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing, suppress
from typing import Any

import celery
import kombu
import structlog
from celery import bootsteps
from celery.signals import task_received, worker_shutdown
from celery.worker.control import control_command, inspect_command
from celery.worker.state import active_requests

from pipeline.database.engines import redis_client
from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import (
    EVERY_S,
    MOST_RUNNING,
    SIGN_EVERY_S,
    ProcessSign,
    RunningTask,
    WorkerHeartbeat,
    broker_address,
    installed_version,
)
from pipeline.errors import Unavailable
from pipeline.metrics.queue_depth_store import SENT_AT
from pipeline.outages import tolerate_outage
from pipeline.settings import settings
from workers.query_events import events

COMMAND = "chordwise_facts"
log = structlog.get_logger(__name__)

_REDIS_TIMEOUT_S = 0.5
_WORK_IDS = ("job_id", "query_id", "computation_id")
_LOOP_MARKED_EVERY_S = 2.0
_LOOP_HANGS_AFTER_S = 5.0
_STARTED_AT = time.time()
_open_signs: set[ProcessSign] = set()  # that this worker gave and has not withdrawn
_taken: dict[str, float] = {}  # by queue, when the newest message that this worker took was sent


@inspect_command(name=COMMAND)
def chordwise_facts(state: Any) -> dict[str, Any]:
    """Return version, clock (seconds since the epoch), queues, and the times that must fit together."""
    configured = state.app.conf
    transport = configured.broker_transport_options
    return {
        "version": installed_version(),
        "celery": celery.__version__,
        "kombu": kombu.__version__,
        "now": time.time(),
        "queues": sorted(queue.name for queue in state.consumer.task_consumer.queues),
        # None: messages are not redelivered, because taken ones are not recorded.
        "visibility_timeout_s": transport.get("visibility_timeout") if transport.get("ack_emulation", True) else None,
        "task_time_limit_s": configured.task_time_limit,
    }


@control_command(name="query_events", args=[("percent", float)], signature="[PERCENT]")
def show_queries(_state: Any, percent: float | str | None = None, **_: Any) -> dict[str, Any]:
    """Set the percentage, 0 to 100, of unremarkable queries that Flower shows; without one, report it."""
    if percent is not None:
        try:
            wanted = float(percent)
        except ValueError:
            wanted = -1.0
        if not 0 <= wanted <= 100:
            return {"error": f"the share is a number of percent from 0 to 100, not {percent}"}
        events.percent = wanted
    return {"ok": f"{events.percent:g} % of queries are shown"}


@task_received.connect(weak=False)
def _note_sending_time(request: Any, **_: Any) -> None:
    """Remember for the heartbeat how far the queue is worked off: an AMQP broker does not show its messages."""
    sent_at, queue = request.request_dict.get(SENT_AT), (request.delivery_info or {}).get("routing_key")
    if isinstance(sent_at, int | float) and queue:
        _taken[queue] = max(sent_at, _taken.get(queue, 0.0))


@worker_shutdown.connect(weak=False)
def _say_goodbye(sender: Any, **_: Any) -> None:
    """Withdraw the sign of life of a worker that ends in order while its connection to the broker is lost."""
    if not _open_signs or getattr(sender, "exitcode", None):
        return
    client = redis_client(settings(), timeout_s=_REDIS_TIMEOUT_S)
    with closing(client), suppress(Unavailable):  # without Redis it stays, until an operator dismisses it
        for sign in tuple(_open_signs):
            WorkerHeartbeats(client).withdraw_sign(sign)


class HeartbeatStep(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """The Celery step that sends heartbeats while a worker consumes; stops and restarts with its connection."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, _consumer: Any, **_: Any) -> None:
        self._beating: _HeartbeatThread | None = None

    def start(self, consumer: Any) -> None:
        """Start the heartbeat. Celery calls this after every (re)connection, once the queues are consumed."""
        self._beating = _HeartbeatThread(consumer)
        self._beating.start()

    def stop(self, consumer: Any) -> None:
        """Stop the heartbeat. Celery calls this when the connection is lost and when the worker ends."""
        beating, self._beating = self._beating, None
        if beating is not None:
            beating.end(in_order=consumer.blueprint.state != bootsteps.RUN)

    shutdown = stop


class _HeartbeatThread(threading.Thread):
    def __init__(self, consumer: Any) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._consumer = consumer
        self._over = threading.Event()
        self._in_order = False
        self._signed_at = float("-inf")
        self._loop_ran_at = time.monotonic()
        # A solo worker runs tasks in its loop, so the loop makes no progress during a task.
        self._loop_is_free = "solo" not in type(consumer.pool).__module__
        self._mark = consumer.timer.call_repeatedly(_LOOP_MARKED_EVERY_S, self._loop_runs)

    def _loop_runs(self) -> None:
        self._loop_ran_at = time.monotonic()

    def end(self, *, in_order: bool) -> None:
        """Stop the thread and withdraw the heartbeat. ``in_order``: the worker ends, so withdraw its sign of life too."""
        self._in_order = in_order
        self._mark.cancel()
        self._over.set()
        self.join(timeout=3 * _REDIS_TIMEOUT_S)

    def run(self) -> None:
        """Send heartbeats until `end`. Logs a Redis outage once; the next heartbeat tries again."""
        client = redis_client(settings(), timeout_s=_REDIS_TIMEOUT_S)
        heartbeats, is_written = WorkerHeartbeats(client), True
        first = self._describe()
        with closing(client), tolerate_outage(log.warning, "heartbeat_not_withdrawn"):  # the key expires anyway
            while True:
                is_written = self._beat(heartbeats, was_written=is_written)
                if self._over.wait(EVERY_S):
                    break
            heartbeats.withdraw(first.worker_id)
            if self._in_order:
                heartbeats.withdraw_sign(first.sign)
                _open_signs.clear()

    def _beat(self, heartbeats: WorkerHeartbeats, *, was_written: bool) -> bool:
        if self._loop_is_free and time.monotonic() - self._loop_ran_at > _LOOP_HANGS_AFTER_S:
            return was_written
        write = log.warning if was_written else log.debug
        with tolerate_outage(write, "heartbeat_not_written", detail=True):
            heartbeat = self._describe()
            heartbeats.beat(heartbeat)
            if time.monotonic() - self._signed_at >= SIGN_EVERY_S:
                heartbeats.sign(heartbeat.sign)
                _open_signs.add(heartbeat.sign)
                self._signed_at = time.monotonic()
            return True
        return False

    def _describe(self) -> WorkerHeartbeat:
        running = running_tasks()
        queues = getattr(self._consumer.task_consumer, "queues", ())  # task_consumer is None during shutdown
        return WorkerHeartbeat(
            name=self._consumer.hostname,
            host=settings().host,
            pid=os.getpid(),
            queues=tuple(sorted(queue.name for queue in queues)),
            version=installed_version(),
            celery=celery.__version__,
            kombu=kombu.__version__,
            broker=broker_address(settings().broker),
            started_at=_STARTED_AT,
            beat_at=time.time(),
            running=running[:MOST_RUNNING],
            busy=len(running),
            slots=getattr(self._consumer.pool, "num_processes", 0),
            taken=dict(_taken),
        )


def running_tasks() -> tuple[RunningTask, ...]:
    """Return the tasks that this worker runs, the oldest first. A message that waits in it for a free slot is not one."""
    running = []
    for request in _requests():
        if request.time_start:
            arguments = request.kwargs or {}
            work_id = next((arguments[name] for name in _WORK_IDS if name in arguments), "")
            running.append(RunningTask(task=request.name, work_id=str(work_id), started_at=request.time_start))
    return tuple(sorted(running, key=lambda task: (task.started_at, task.work_id)))


def _requests() -> list[Any]:
    """Return the messages that the worker runs; nothing if others keep changing while they are read."""
    for _ in range(5):
        with suppress(RuntimeError):  # the set grew meanwhile
            return list(active_requests)
    return []
