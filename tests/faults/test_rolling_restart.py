"""Every process of an installation is restarted, one after another, while queries and uploads go on."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from signal import SIGTERM
from subprocess import Popen

import pytest
import structlog

from chordwise import Chordwise
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant
from tests.support.clients.loop import PATIENCE_S, Loop
from tests.support.stacks.processes import environment_of, on_socket, process, wait_for_http, wait_for_log
from workers.roles import ROLES

pytestmark = pytest.mark.thorough

log = structlog.get_logger(__name__)

LONGEST_JOB_S = 10.0
Start = Callable[[Path], AbstractContextManager["Popen[bytes]"]]


class Installation:
    """One host, as `chordwise-server` starts it: two gateways on one socket, two workers of each role, an indexer and
    two clocks of which one is active."""

    def __init__(self, environment: dict[str, str], listening: socket.socket, logs: Path, whole: ExitStack) -> None:
        schedules = itertools.count()

        def server(*arguments: str) -> Start:
            return lambda log: process("workers.server", *arguments, log=log, **environment)

        def clock(log: Path) -> AbstractContextManager[Popen[bytes]]:
            return server("clock", "--schedule", str(logs / f"schedule-{next(schedules)}"))(log)

        def gateway(log: Path) -> AbstractContextManager[Popen[bytes]]:
            return on_socket("api_gateway", listening, log=log, **environment)

        workers = {f"{role}-{number}": role for role in ROLES for number in (1, 2)}
        self._starts: dict[str, tuple[Start, str]] = {
            **{
                name: (server("worker", "--role", role, "--name", name, "--concurrency", "2"), " ready.")
                for name, role in workers.items()
            },
            "indexer": (server("indexer"), "indexer_ready"),
            "gateway-1": (gateway, "Application startup complete"),
            "gateway-2": (gateway, "Application startup complete"),
            "clock-1": (clock, "beat: Starting"),
            "clock-2": (clock, "beat: Starting"),
        }
        self.names = tuple(self._starts)
        self._logs, self._whole = logs, whole
        self._numbers = itertools.count()
        self._running = {name: self._start(name) for name in self.names}
        for name, log in [(name, log) for name, (_, log) in self._running.items()]:
            wait_for_log(log, self._starts[name][1], seconds=120)

    def restart(self, name: str) -> float:
        """End a process by SIGTERM and start it again; return the seconds that it took to end. As systemd's units do
        (`KillMode=mixed`), only the first process of a worker gets the signal: it ends its others when they are done."""
        running, _ = self._running[name]
        began = time.monotonic()
        running.send_signal(SIGTERM)
        running.wait(timeout=60)
        took_s = time.monotonic() - began
        self._running[name] = self._start(name)
        wait_for_log(self._running[name][1], self._starts[name][1], seconds=120)
        return took_s

    def _start(self, name: str) -> tuple[Popen[bytes], Path]:
        log = self._logs / f"{name}.{next(self._numbers)}.log"
        return self._whole.enter_context(self._starts[name][0](log)), log


@pytest.fixture
def installation(settings: Settings, tmp_path: Path) -> Iterator[tuple[Installation, str, str]]:
    with (
        databases_of_its_own(settings) as use,
        socket.create_server(("127.0.0.1", 0), backlog=64) as listening,
        ExitStack() as whole,
    ):
        port = listening.getsockname()[1]
        _, key = make_tenant(use)
        environment = {
            **environment_of(use.settings, redis_url=use.settings.redis_url.get_secret_value(), port=port),
            "CHORDWISE_SWEEP_INTERVAL_S": "1",
        }
        started = Installation(environment, listening, tmp_path, whole)
        url = f"http://127.0.0.1:{port}"
        wait_for_http(f"{url}/readyz", seconds=60)
        yield started, url, key


@pytest.mark.timeout(900)
class DescribeARollingRestart:
    def it_loses_no_query_and_delays_no_job(self, installation):
        running, url, key = installation
        numbers = itertools.count()
        with Chordwise(url, key) as client:

            def upload() -> None:
                document = {"document_id": f"d{next(numbers)}", "text": "The pump starts at 12 bar."}
                done = client.wait(client.ingest([document], namespace="kb"), timeout=PATIENCE_S)
                assert done.done
                assert not done.errors

            def ask() -> None:
                assert client.query("pump", namespace="kb", timeout=PATIENCE_S, fresh=True).chunks

            upload()
            with Loop(ask) as queries, Loop(upload) as uploads:
                ends = {}
                for name in running.names:
                    queries.goes_on()
                    uploads.goes_on()
                    ends[name] = round(running.restart(name), 1)
                queries.goes_on()
                uploads.goes_on()
        figures = {"queries": queries.done, "jobs": uploads.done, "ends_s": ends}
        log.info("restarted", **figures, query_s=round(queries.slowest_s, 1), job_s=round(uploads.slowest_s, 1))
        assert uploads.slowest_s < LONGEST_JOB_S
