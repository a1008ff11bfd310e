"""A gateway's own query process: `python -m workers.lane FD NUMBER`, started by `api_gateway.live.lane`. It reads ids
from socket FD, writes answers to Redis with the workers' code, and ends with the socket. While Redis is away it reads
queries and returns answers. A query worker does the same for the gateways of its host that connect to it meanwhile."""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

import structlog
from opentelemetry.trace import SpanKind

from pipeline.errors import Misconfigured, Unavailable
from pipeline.garbage import keep_for_good
from pipeline.query.query_store import read_query
from pipeline.retrieval import answer_query
from pipeline.retrieval.answer_query import answer_before_storing, answer_in_process
from pipeline.settings import Settings, settings
from pipeline.telemetry import tracing
from pipeline.telemetry.logs import configure_logging
from pipeline.threads import start_call
from workers import resources
from workers.lane_messages import PATIENT_THREADS, THREADS, LaneReply, LaneRequest, worker_sockets
from workers.names import LANE_TASK
from workers.query_events import events

log = structlog.get_logger(__name__)

_FINISHING_THREADS: Final = 2  # a query at its deadline must not queue behind others
_LAST_S: Final = 5.0  # for the running queries when the gateway ends
_ACCEPTS_AGAIN_S: Final = 1.0


class LaneProcess:
    """Answers the queries of a socket and reports the end of each. ``name``: this process in Flower and results."""

    def __init__(self, gateway: socket.socket, *, name: str) -> None:
        self._gateway = gateway
        self._name = name
        self._sending = threading.Lock()
        self._usual = ThreadPoolExecutor(THREADS, thread_name_prefix="lane")
        self._patient = ThreadPoolExecutor(PATIENT_THREADS, thread_name_prefix="lane-patient")
        self._finishing = ThreadPoolExecutor(_FINISHING_THREADS, thread_name_prefix="lane-finish")
        self._open = 0
        self._ended = threading.Condition()

    def serve(self) -> None:
        """Serve until the gateway closes its end; then wait a few seconds for the running queries."""
        self._send(LaneReply())
        with suppress(ConnectionError), self._gateway.makefile("rb") as lines:
            for line in lines:
                request = LaneRequest.read(line)
                with self._ended:
                    self._open += 1
                self._pool(request).submit(self._answer, request)
        with self._ended:
            self._ended.wait_for(lambda: not self._open, timeout=_LAST_S)
        for pool in (self._usual, self._patient, self._finishing):
            pool.shutdown(wait=False)
        self._gateway.close()

    def _pool(self, request: LaneRequest) -> ThreadPoolExecutor:
        if request.step == "finish":
            return self._finishing
        # Threads for usual queries wait until they can store their answers.
        return self._patient if request.patient or request.step == "answer_unstored" else self._usual

    def _answer(self, request: LaneRequest) -> None:
        replies = [LaneReply(query_id=request.query_id, step=request.step)]

        def reply(answer: bytes | None = None) -> None:
            if replies:
                self._send(replace(replies.pop(), answer="" if answer is None else answer.decode()))

        try:
            with _bound(request):
                use = resources.for_queries()
                channels = resources.channels()
                if request.step == "finish":
                    answer_query.answer(request.tenant_id, request.query_id, use, channels)
                elif request.step == "answer_unstored":
                    answer_before_storing(read_query(request.query.encode()), use, channels, reply)
                else:
                    answer_in_process(request.tenant_id, request.query_id, use, channels, worker=self._name)
        finally:
            reply()
            with self._ended:
                self._open -= 1
                self._ended.notify_all()

    def _send(self, reply: LaneReply) -> None:
        with self._sending, suppress(OSError):  # the gateway is gone, and this process will end
            self._gateway.sendall(reply.line())


@contextmanager
def _bound(request: LaneRequest) -> Iterator[None]:
    """Bind the ids of a query to its log lines and its trace, and count and time it as a task. Log every error."""
    ids = {"tenant_id": request.tenant_id, "query_id": request.query_id}
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(task=LANE_TASK, lane="in_process", request_id=request.request_id, **ids)
    began, state = time.perf_counter(), "success"
    named = {f"chordwise.{name}": value for name, value in ids.items()}
    with tracing.entered(LANE_TASK, dict(request.headers), kind=SpanKind.CONSUMER, **named) as span:
        try:
            yield
        except Unavailable as error:
            state = "postponed"
            log.warning("task_postponed", code=error.code, detail=str(error))
        except Exception as error:
            state = "failure"
            tracing.fail(span, type(error).__name__)
            log.exception("task_failed", error=type(error).__name__)
    resources.meter().count("chordwise_tasks", task=LANE_TASK, state=state)
    resources.meter().observe("chordwise_task_seconds", time.perf_counter() - began, task=LANE_TASK)


def listen(use: Settings, *, name: str) -> None:
    """Answer queries of the gateways of this host, which connect while Redis or the broker is away, beside the caller until the
    process ends. ``name``: this process in Flower and results."""
    folder, prefix = worker_sockets(use)
    listening = socket.socket(socket.AF_UNIX)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob(f"{prefix}*"):
            if not _is_heard(str(path)):
                path.unlink(missing_ok=True)
        path = folder / f"{prefix}{uuid.uuid4().hex[:8]}"
        made = path.with_name(f".{path.name}")
        listening.bind(str(made))
        made.chmod(0o600)
        listening.listen()
        made.rename(path)  # once it is heard
    except OSError as error:  # as for a path of over a hundred bytes
        log.warning("gateways_not_heard", folder=str(folder), error=str(error))
        return
    start_call(_hear, listening, name)


def _is_heard(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path) != errno.ECONNREFUSED


def _hear(listening: socket.socket, name: str) -> None:
    while True:
        try:
            gateway, _ = listening.accept()
        except OSError as error:  # as without a file descriptor to spare
            log.warning("gateway_not_accepted", error=type(error).__name__)
            time.sleep(_ACCEPTS_AGAIN_S)
        else:
            start_call(LaneProcess(gateway, name=name).serve)


def main(arguments: list[str]) -> int:
    """Initialise as a worker does, then serve. Exit code 1 with one sentence when it cannot start."""
    descriptor, number = arguments
    try:
        configure_logging(settings().log_level, service="lane")
        tracing.check(settings())
    except Misconfigured as error:
        print(f"lane: {error}", file=sys.stderr)  # noqa: T201 - beside the gateway's own message
        return 1
    events.worker = f"lane{number}@{socket.gethostname()}"
    use = resources.for_queries()
    resources.resize(use, THREADS)
    resources.warm_up(use)
    resources.channels()
    tracing.warm_up()
    keep_for_good()
    LaneProcess(socket.socket(fileno=int(descriptor)), name=events.worker).serve()
    resources.hand_over()
    tracing.close()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # a hanging call in a thread would delay an orderly end indefinitely
