"""Work of every kind that goes on while a server is frozen: how long each call takes, and what it says."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from pipeline.settings import Settings
from tests.support.corpora.documents import begun
from tests.support.servers import tools_for_tests
from tests.support.servers.brokers import OwnServer
from tests.support.stacks.processes import server_command

NAMES = {"mysql": "MySQL", "postgres": "PostgreSQL", "redis": "Redis"}
# The longest that a call may take; a command in addition to twice what it takes here while every server answers, most of
# which is the start of a process. Commands, and what a worker computes for a caller, wait for a server until it has greeted
# nobody for ten seconds.
BOUNDS_S = {"metrics": 6.0, "doctor": 12.0, "upload": 5.0, "verify": 30.0, "backup": 30.0, "migrate": 30.0}
COMMANDS = ("backup", "migrate")
TASK_BOUND_S = 40.0  # of a worker's task, which may meet the server with several connections
_NAMESPACE = "frozen"
_TASK = re.compile(r"task_done.*")
_TOOK_MS = re.compile(r"latency_ms\W+([\d.]+)")


@dataclass
class Cell:
    """The calls of one kind: their seconds, those of a call while every server answers, and the different sentences of those
    that did not end well."""

    usual_s: float = 0.0
    took_s: list[float] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{len(self.took_s)} calls, at most {max(self.took_s, default=0.0):.1f} s; said: {sorted(self.said)}"


class FrozenWork:
    """An installation whose ``server`` stops in the middle of an ingestion. ``logs``: of its workers."""

    def __init__(
        self, client: httpx.Client, operator_key: str, settings: Settings, logs: Sequence[Path], folder: Path
    ) -> None:
        self._client = client
        self._operator = {"Authorization": f"Bearer {operator_key}"}
        self._settings = settings
        self._logs = logs
        self._folder = folder
        self._programs = tools_for_tests.backup_environment() or {}
        self._numbers = itertools.count()
        self.jobs: list[str] = []

    def watch(self, server: OwnServer, part: str, *, seconds: float, documents: int) -> dict[str, Cell]:
        """Freeze a server in the middle of a job, repeat each kind of work for ``seconds``, and thaw it."""
        self._upload_many(documents)
        cells = {name: Cell() for name in BOUNDS_S}
        for name in COMMANDS:
            began = time.monotonic()
            getattr(self, f"_{name}")(part)
            cells[name].usual_s = time.monotonic() - began
        offsets = {log: log.stat().st_size for log in self._logs}
        server.freeze()
        try:
            ends = time.monotonic() + seconds
            with ThreadPoolExecutor(len(cells)) as pool:
                running = [pool.submit(self._repeat, name, cell, part, ends) for name, cell in cells.items()]
                for each in running:
                    each.result()
        finally:
            server.thaw()
        time.sleep(2.0)  # in which the tasks that were held end
        cells["tasks"] = Cell(took_s=[took_s for log, at in offsets.items() for took_s in _tasks(log, at)])
        return cells

    def _upload_many(self, documents: int) -> None:
        self.jobs.append(begun(self._client, _NAMESPACE, documents))
        ends = time.monotonic() + 60
        while self._client.get(f"/v1/jobs/{self.jobs[-1]}").json()["succeeded"] == 0:
            assert time.monotonic() < ends, "the job does not begin"
            time.sleep(0.05)

    def _repeat(self, name: str, cell: Cell, part: str, ends: float) -> None:
        call: Callable[[str], str] = getattr(self, f"_{name}")
        while time.monotonic() < ends:
            began = time.monotonic()
            sentence = call(part)
            cell.took_s.append(time.monotonic() - began)
            if sentence:
                cell.said.add(sentence)
            time.sleep(0.5)

    def _metrics(self, part: str) -> str:
        page = self._client.get("/v1/metrics")
        assert page.status_code == 200, page.text
        assert f'chordwise_store_up{{store="{part}"}} 0.0' in page.text
        return ""

    def _doctor(self, part: str) -> str:
        answer = self._client.get("/v1/doctor", headers=self._operator)
        assert answer.status_code == 200, answer.text
        [finding] = [each for each in answer.json()["findings"] if each["check"] == part]
        assert finding["severity"] == "failed"
        return f"{part}: {finding['detail']}"

    def _upload(self, part: str) -> str:
        document = {"document_id": f"d-{uuid.uuid4().hex[:8]}", "text": "A red fox sleeps in its den."}
        answer = self._client.post("/v1/documents", json={"namespace": _NAMESPACE, "documents": [document]})
        body = answer.json()
        if answer.status_code == 202:
            self.jobs.append(str(body["job_id"]))
            return ""
        assert answer.status_code == 503, answer.text
        return f"{body['code']}: {body['detail']}"

    def _verify(self, part: str) -> str:
        answer = self._client.post("/v1/verify", json={})
        if answer.status_code == 200:
            return ""
        assert answer.status_code == 503, answer.text
        return f"{answer.json()['code']}: {answer.json()['detail']}"

    def _backup(self, part: str) -> str:
        folder = self._folder / f"backup-{next(self._numbers)}"
        try:
            return _sentence(server_command(self._settings, "backup", str(folder), **self._programs))
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _migrate(self, part: str) -> str:
        return _sentence(server_command(self._settings, "migrate", "upgrade"))


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == 0:
        return ""
    assert done.returncode == 1, done.stderr
    [sentence] = done.stderr.strip().splitlines()
    return sentence


def _tasks(log: Path, offset: int) -> Iterator[float]:
    """Yield the seconds of each task that a worker's log names after ``offset``."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        lines.seek(offset)
        for line in lines:
            if _TASK.search(line) and (found := _TOOK_MS.search(line)):
                yield float(found[1]) / 1000


def shown(part: str, cells: dict[str, Cell]) -> str:
    """Return a line for each kind of work."""
    return "\n".join(f"{part} frozen, {name}: {cell}" for name, cell in cells.items())


def check(cells: dict[str, Cell], part: str) -> None:
    """Check that every call ended within its bound, and that each sentence names the frozen server."""
    figures = shown(part, cells)
    for name, cell in cells.items():
        assert max(cell.took_s, default=0.0) < BOUNDS_S.get(name, TASK_BOUND_S) + 2 * cell.usual_s, figures
        assert all(NAMES[part] in sentence or sentence.startswith(f"{part}:") for sentence in cell.said), figures
