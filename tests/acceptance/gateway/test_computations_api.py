"""Computations by a worker for a caller of the gateway: the same answers as before, no delay for other requests, and an
error code for a missing worker."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import make_url

from chordwise import Chordwise, ProblemError
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import gateway, make_tenant
from tests.support.clients.gateway_client import problem
from tests.support.corpora.documents import document, search, upload
from tests.support.corpora.formats import xlsx
from tests.support.stacks.patience import SPARE_S, Ticks
from tests.support.stacks.processes import free_port, process, wait_for_http, wait_for_log

WAIT_S = 1.0
_REDIS_DATABASE = "11"  # where no worker of the stack listens
HEADER = ["user_input", "agent_response"]
BOOK = {"qa_examples": [{"user_input": "头晕怎么办？", "agent_response": "请先坐下休息。"}]}

LOOKS, QUESTIONS = 30, 12
PROMPT_S = 0.1  # for an answer of /healthz
HELD_S = 1.0  # for a query on two busy cores; behind one of these bodies it took three and more
ROBBED, LATE_S = 0.1, 0.5  # half a second if the machine's host takes more than this share of the processor


@contextmanager
def own_gateway(logs: Path, **environment: str) -> Iterator[str]:
    """Run a gateway for this test alone and yield its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with process("api_gateway", log=logs / "gateway.log", CHORDWISE_GATEWAY_PORT=str(port), **environment):
        wait_for_http(f"{url}/healthz", seconds=60)
        yield url


class DescribeAnAnswer:
    def it_holds_the_rows_of_a_large_workbook(self, client, namespace):
        """A book too large for Redis."""
        rows = [{"user_input": f"第{number}个问题？", "agent_response": "答" * 4000} for number in range(300)]
        body = orjson.dumps({"namespace": namespace, "examples": {"qa_examples": rows}})
        assert len(body) > 3_000_000
        headers = {"Content-Type": "application/json"}
        answer = client.post("/v1/examples", params={"dry_run": "true"}, content=body, headers=headers).json()
        assert (answer["status"], answer["statistics"]["qa"]["accepted"]) == ("validated", 300)

    def it_names_the_same_job_for_a_repeated_idempotency_key(self, client, namespace):
        headers = {"Idempotency-Key": f"book-{namespace}"}
        body = {"namespace": namespace, "examples": BOOK}
        first, again = (client.post("/v1/examples", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, first.json()) == (202, again.json())


@pytest.fixture(scope="module")
def alone(use: Resources, settings: Settings, tmp_path_factory: Any) -> Iterator[tuple[str, str]]:
    """Yield the address and a key of a gateway whose messages no worker consumes."""
    redis_url = make_url(settings.redis_url.get_secret_value()).set(database=_REDIS_DATABASE)
    lonely = redis_url.render_as_string(False)
    with own_gateway(
        tmp_path_factory.mktemp("lonely"),
        CHORDWISE_REDIS_URL=lonely,
        CHORDWISE_BROKER_URL=lonely,
        CHORDWISE_QUERY_DEADLINE_MS=str(int(WAIT_S * 200)),
    ) as url:
        yield url, make_tenant(use)[1]


class DescribeAGatewayWithoutWorkers:
    @pytest.mark.parametrize(
        ("method", "path", "request_"),
        [
            ("POST", "/v1/chunks/preview", {"json": {"document": {"text": "茶"}}}),
            ("POST", "/v1/chunks/preview", {"files": {"file": ("a.md", b"# Tea")}}),
            ("POST", "/v1/examples?dry_run=true", {"json": {"namespace": "kb", "examples": BOOK}}),
            (
                "POST",
                "/v1/examples",
                {"data": {"namespace": "kb"}, "files": {"file": ("b.xlsx", xlsx({"qa": [HEADER, ["a", "b"]]}))}},
            ),
            ("POST", "/v1/verify", {"json": {}}),
            (
                "PUT",
                "/v1/chunks",
                {"json": {"chunks": [{"chunk_id": "7e1f6f7e-5a52-5b6c-9d5e-5f0f3c1d2b4a", "text": "x"}]}},
            ),
        ],
        ids=["preview", "preview of a file", "dry run", "workbook", "verify", "edit"],
    )
    def it_answers_503_before_the_deadline(self, alone, method, path, request_):
        url, key = alone
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            began = time.monotonic()
            answer = client.request(method, path, **request_)
            took_s = time.monotonic() - began
        body = problem(answer, 503, "worker_unavailable")
        assert body["detail"] == "No worker began this within 1 s."
        assert int(answer.headers["retry-after"]) >= 1
        assert WAIT_S <= took_s < WAIT_S + SPARE_S

    def it_raises_in_the_python_client(self, alone):
        url, key = alone
        with Chordwise(url, key, retries=0) as client, pytest.raises(ProblemError) as raised:
            client.verify()
        assert (raised.value.status, raised.value.code) == (503, "worker_unavailable")


async def latencies(client: httpx.AsyncClient, count: int, pause_s: float, method: str, path: str, **more: Any) -> Any:
    """Send ``count`` requests and return their latencies, sorted."""
    took = []
    for _ in range(count):
        began = time.monotonic()
        answer = await client.request(method, path, **more)
        took.append(time.monotonic() - began)
        assert answer.status_code == 200, answer.text
        await asyncio.sleep(pause_s)
    return sorted(took)


@pytest.mark.thorough
@pytest.mark.alone
class DescribeATenantThatSendsTheWorst:
    async def it_holds_up_nobody_else(self, use, namespace, tmp_path):
        (_, hostile), (_, key) = make_tenant(use), make_tenant(use)
        with gateway(key) as client:
            upload(
                client, namespace, [document("tea", "Green tea is brewed at eighty degrees. 绿茶用八十度的水冲泡。")]
            )
            search(client, namespace, "green tea")
        headers = {"Authorization": f"Bearer {key}", "Cache-Control": "no-cache", "Prefer": "wait=10"}
        question = {"query_text": "green tea 绿茶", "namespaces": [namespace]}
        with own_gateway(tmp_path) as url:
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as other:
                asking = ("POST", "/v1/queries")
                await latencies(other, 5, 0.05, *asking, json=question)
                quiet = await latencies(other, QUESTIONS, 0.05, *asking, json=question)
                idle = await latencies(other, LOOKS, 0.05, "GET", "/healthz")
                log = tmp_path / "flood.log"
                with process("tests.support.clients.flood", url, hostile, log=log, ending=signal.SIGKILL):
                    wait_for_log(log, "200")
                    before = Ticks.now()
                    alive = await latencies(other, LOOKS, 0.05, "GET", "/healthz")
                    asked = await latencies(other, QUESTIONS, 0.05, *asking, json=question)
                    stolen = before.stolen_since()
        assert set(log.read_text().split()) <= {"200", "409", "429"}  # 409: the dictionary is being written already
        prompt_s = max(LATE_S if stolen > ROBBED else PROMPT_S, 3 * idle[int(LOOKS * 0.95)])
        assert alive[int(LOOKS * 0.95)] < prompt_s, (stolen, idle, alive)
        assert asked[-2] < max(3 * quiet[-2], HELD_S), (stolen, quiet, asked)
