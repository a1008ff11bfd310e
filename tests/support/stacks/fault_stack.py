"""A gateway and workers of a test's own, which ask a model, a rerank service and a business API in the test's hands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx

from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.servers.business_api import BusinessApi, business_api
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.rerank_server import RerankServer, rerank_service
from tests.support.stacks.fault_edges import Fault, expanding, judging, serving_hits
from tests.support.stacks.fault_lab import NAMESPACES, fill
from tests.support.stacks.processes import end, free_port, process, wait_for_http, wait_for_log, worker

DEADLINE_S = 1.5
RECALL, REST = "recall", "answer,rerank"  # the queues of the two workers

_REDIS_DATABASE = "9"  # so that no other worker takes its queries
_EXPAND = "查询扩展员"  # of the prompt


class FaultStack:
    """Two workers, one that asks channels and one that does everything else, and what they ask."""

    def __init__(self, environment: dict[str, str], logs: Path, whole: ExitStack) -> None:
        self._environment, self._logs, self._whole = environment, logs, whole
        self._workers: dict[str, Any] = {}
        self._started = 0
        self._killed: list[str] = []
        self.client: httpx.Client
        self.model: OpenAIServer
        self.judge: RerankServer
        self.api: BusinessApi

    def start(self, *queues: str) -> None:
        """Start the workers of these queues, and wait until they listen."""
        logs = []
        for some in queues:
            self._started += 1
            logs.append(self._logs / f"worker-{self._started}.log")
            running = worker(f"m{self._started}", some, log=logs[-1], ending=signal.SIGKILL, **self._environment)
            self._workers[some] = self._whole.enter_context(running)
        for log in logs:
            wait_for_log(log, " ready.", seconds=90)

    def kill(self, queues: str) -> None:
        """``kill -9`` of a worker and its children."""
        end(self._workers[queues], signal.SIGKILL)
        self._killed.append(queues)

    def start_again(self) -> None:
        """Start the workers that were killed."""
        killed, self._killed = self._killed, []
        self.start(*killed)

    def let(self, part: str | None = None, fault: Fault | None = None) -> None:
        """Have one service fail, and the others answer."""
        faults = {part: fault}
        self.model.by_prompt = {_EXPAND: expanding(faults.get("expand"))}
        self.judge.always = judging(faults.get("rerank"))
        for namespace in NAMESPACES:
            self.api.answers[f"/{namespace}"] = serving_hits(faults.get("api"), namespace)

    def under_way(self, part: str) -> int:
        """How many requests a service has seen."""
        seen = {"expand": self.model.requests, "rerank": self.judge.bodies, "api": self.api.asked}[part]
        return len(seen)


@contextmanager
def fault_stack(settings: Settings, logs: Path) -> Iterator[FaultStack]:
    """The stack, with documents and API sources in three namespaces. ``settings`` point to databases of its own."""
    settings = settings.model_copy(update={"api_allow_networks": (ip_network("127.0.0.0/8"),)})
    use = Resources(settings)
    redis_url = settings.redis_url.get_secret_value()  # of its own as well: no other worker takes its queries
    tenant_id, key = make_tenant(use)
    port = free_port()
    with ExitStack() as whole:
        whole.callback(use.close)
        model = whole.enter_context(OpenAIServer())
        judge = whole.enter_context(rerank_service("cohere"))
        api = whole.enter_context(business_api())
        environment = {
            "CHORDWISE_MYSQL_URL": settings.mysql_url.get_secret_value(),
            "CHORDWISE_POSTGRES_URL": settings.postgres_url.get_secret_value(),
            "CHORDWISE_REDIS_URL": redis_url,
            "CHORDWISE_BROKER_URL": redis_url,
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_QUERY_DEADLINE_MS": str(int(DEADLINE_S * 1000)),
            "CHORDWISE_BREAKER_FAILURES": "1000",
            "CHORDWISE_RESULT_CACHE_TTL_S": "0",
            "CHORDWISE_API_ALLOW_NETWORKS": "127.0.0.0/8",
            "CHORDWISE_LLM_MODEL": "a-language-model",
            "CHORDWISE_RERANK_URL": judge.url,
            "CHORDWISE_RERANK_MODEL": "judge",
            "CHORDWISE_RERANK_API_KEY": "not-a-real-key",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": "not-a-real-key",
        }
        stack = FaultStack(environment, logs, whole)
        stack.model, stack.judge, stack.api = model, judge, api
        stack.let()
        whole.enter_context(process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment))
        stack.client = whole.enter_context(
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30)
        )
        stack.start(RECALL, REST)
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        for namespace in NAMESPACES:
            fill(tenant_id, namespace, use, api)
        yield stack
