"""A thousand clients that wait at once: for jobs, for queries, on streams and on long polls. The gateway they wait at is
one of the stack's fleet that serves nobody else."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from pipeline.resources import Resources
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import VALID, ended, send
from tests.support.clients.gateway_figures import resident_bytes
from tests.support.clients.raw_http import address, head
from tests.support.stacks.patience import Ticks
from tests.support.stacks.processes import free_port, process, wait_for_http

STREAMS, POLLS, QUERIES = 450, 450, 100
MOST_BYTES = 300_000_000
PROMPT_S = 0.1  # of half of its answers
ROBBED, LATE_S = 0.1, 0.5  # where the machine's host takes more than this share of it, half a second
LOOKS = 20
PATIENCE_S = 120.0
DEADLINE_MS = 60_000  # a thousand clients begin at once, and a slow machine reads a query only after some seconds


@dataclass
class Crowd:
    """Outcomes of the clients."""

    key: str
    waiting: int = 0
    streams: int = 0
    polls: int = 0
    answers: list[str] = field(default_factory=list)
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def follow_job(self, job_id: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            reader = await self._ask(f"GET /v1/jobs/{job_id}/events")
            await reader.readuntil(b"event: progress")
            self.waiting += 1
            await reader.readuntil(b"event: finished")
            self.streams += 1

    async def poll_job(self, job_id: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            reader = await self._ask(f"GET /v1/jobs/{job_id}?wait=60")
            self.waiting += 1
            raw = await reader.readuntil(b"}")
            assert b" 200 " in raw.split(b"\r\n")[0]
            self.polls += 1

    async def ask(self, namespace: str, place: int) -> None:
        body = json.dumps(
            {
                "query_text": f"When does the pump start, number {place}?",
                "namespaces": [namespace],
                "deadline_ms": DEADLINE_MS,
            }
        ).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        async with asyncio.timeout(PATIENCE_S):
            self.waiting += 1
            reader = await self._ask("POST /v1/queries", *lines, body=body)
            raw = await reader.readuntil(b"}")
            assert b" 202 " in raw.split(b"\r\n")[0], raw
            query_id = json.loads(raw[raw.index(b"{") :])["query_id"]
            reader = await self._ask(f"GET /v1/queries/{query_id}/events")
            await reader.readuntil(b"event: finished\ndata: ")
            found = json.loads(await reader.readuntil(b"\n"))
            self.answers.append(found["status"])

    async def _ask(self, line: str, *lines: str, body: bytes = b"") -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection(*address(), limit=1 << 22)
        writer.write(head(self.key, line, *lines) + body)
        self._writers.append(writer)
        return reader

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.fixture
def client(use: Resources, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a gateway of its own, which all clients of the test go to."""
    port = free_port()
    monkeypatch.setenv("CHORDWISE_URL", f"http://127.0.0.1:{port}")
    _, key = make_tenant(use)
    with (
        process("api_gateway", log=tmp_path / "gateway.log", CHORDWISE_GATEWAY_PORT=str(port)),
        gateway(key) as found,
    ):
        wait_for_http(f"http://127.0.0.1:{port}/healthz")
        yield found


@pytest.fixture
def held_job(client) -> str:
    """A job that goes on until it is cancelled."""
    documents = [{"document_id": f"d{number}", "text": "A pump. " * 50} for number in range(300)]
    job_id: str = send(client, "held", *documents).json()["job_id"]
    client.post(f"/v1/jobs/{job_id}/pause").raise_for_status()
    return job_id


@pytest.mark.thorough
@pytest.mark.alone
class DescribeAThousandClients:
    async def it_serves_them_all_in_bounded_memory_and_stays_awake(self, namespace, client, held_job):
        key = client.headers["authorization"].split()[1]
        ended(client, send(client, namespace, VALID))
        crowd = Crowd(key)
        latencies = []
        async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers, timeout=60) as other:
            tasks = [asyncio.create_task(crowd.follow_job(held_job)) for _ in range(STREAMS)]
            tasks += [asyncio.create_task(crowd.poll_job(held_job)) for _ in range(POLLS)]
            tasks += [asyncio.create_task(crowd.ask(namespace, place)) for place in range(QUERIES)]
            async with asyncio.timeout(PATIENCE_S):
                while crowd.waiting < STREAMS + POLLS + QUERIES:
                    await asyncio.sleep(0.05)
            before = Ticks.now()
            for _ in range(LOOKS):
                began = time.monotonic()
                assert (await other.get("/healthz")).status_code == 200
                latencies.append(time.monotonic() - began)
                await asyncio.sleep(0.1)
            stolen = before.stolen_since()
            resident = resident_bytes((await other.get("/v1/metrics")).text)
            async with asyncio.timeout(PATIENCE_S):
                while len(crowd.answers) < QUERIES and not any(task.done() and task.exception() for task in tasks):
                    await asyncio.sleep(0.1)
            (await other.post(f"/v1/jobs/{held_job}/cancel")).raise_for_status()
            try:
                await asyncio.gather(*tasks)
            finally:
                crowd.hang_up()
        assert (crowd.streams, crowd.polls, len(crowd.answers)) == (STREAMS, POLLS, QUERIES)
        assert set(crowd.answers) == {"succeeded"}
        assert resident < MOST_BYTES
        assert sorted(latencies)[LOOKS // 2] < (LATE_S if stolen > ROBBED else PROMPT_S), (stolen, sorted(latencies))
