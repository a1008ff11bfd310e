"""A gateway and a query worker for one test module, with dependencies that can be stopped, frozen and slowed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import psutil
import pytest
import redis
from sqlalchemy import make_url

from pipeline.query.place_store import Places
from pipeline.query.places import Place, WorkKind
from pipeline.records import TenantId
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant, redis_of_its_own
from tests.support.corpora.uploads import upload
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.proxy import Proxy
from tests.support.stacks.corner import submit, work_off
from tests.support.stacks.processes import end, free_port, process, wait_for_http, wait_for_log, worker

Part = Literal["mysql", "postgres", "redis", "broker", "worker", "model", "dns"]
Fault = Literal["stopped", "frozen", "slow"]

DEADLINE_S = 1.0
ADMIN_KEY = "an operator's key of these tests"
NAMESPACE = "outages"
DOCUMENTS = {
    "solar": "Photovoltaic panels turn sunlight into direct current.",
    "tea": "绿茶用八十度的水冲泡,茶汤清亮。",
    "pump": "The pump PPR-9087 is tightened with 12 Nm.",
}
SLOW_S = 0.1
_DEAD = TenantId("dead")
_THREADS = 4  # as many as a query worker of an installation has
_TAKEN_S = 1.2  # until then Redis may hand a message to the connection of a worker that is held
_DIMENSION = 64
_SECONDS_TO_REST, _AT_REST_PERCENT = 10, 20.0
_MODEL_HOST = "model.test"
_RESOLVER = """
import socket, time
from pathlib import Path

_resolve = socket.getaddrinfo

def getaddrinfo(host, *args, **kwargs):
    if host != {host!r}:
        return _resolve(host, *args, **kwargs)
    while (fault := Path({flag!r})).exists():
        if fault.read_text() == "stopped":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        time.sleep(0.05)
    return _resolve("127.0.0.1", *args, **kwargs)

socket.getaddrinfo = getaddrinfo
"""


class OutageStack:
    """The gateway, its worker, and a proxy in front of each server."""

    namespace = NAMESPACE

    def __init__(
        self, keys: tuple[str, str], url: str, environment: dict[str, str], logs: Path, whole: ExitStack
    ) -> None:
        """``keys``: of the tenant that most tests ask as, and of another one with the same documents."""
        self.key, self.url = keys[0], url
        self.proxies: dict[str, Proxy] = {}
        self.client, self.other = (
            whole.enter_context(httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30))
            for key in keys
        )
        self._environment, self._logs, self._whole = environment, logs, whole
        self.gateway_pid = 0
        self.redis_url = ""  # not through its proxy
        self._worker: Any = None
        self._workers = 0

    def start_worker(self) -> None:
        """Start the worker for queries, and wait until it listens."""
        self._workers += 1
        log = self._logs / f"worker-{self._workers}.log"
        self._worker = self._whole.enter_context(
            worker(
                f"o{self._workers}",
                "recall,answer",
                log=log,
                threads=_THREADS,
                ending=signal.SIGKILL,
                **self._environment,
            )
        )
        wait_for_log(log, " ready.", seconds=90)

    def lane_processes(self) -> frozenset[int]:
        """Return the ids of the gateway's own processes for queries."""
        children = Path(f"/proc/{self.gateway_pid}/task/{self.gateway_pid}/children").read_text().split()
        return frozenset(int(pid) for pid in children if b"workers.lane" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def break_(self, part: Part, fault: Fault) -> None:
        """Apply a fault to one part."""
        if part == "worker":
            if fault == "stopped":
                end(self._worker, signal.SIGKILL)
            else:
                os.killpg(self._worker.pid, signal.SIGSTOP)
            if fault == "slow":
                time.sleep(0.3)
                os.killpg(self._worker.pid, signal.SIGCONT)
            return
        if part == "dns":
            (self._logs / "dns").write_text(fault)
            self.proxies["model"].cut()  # a connection that is there needs no name
            self.proxies["model"].heal()
            return
        proxy = self.proxies[part]
        {"stopped": proxy.cut, "frozen": proxy.freeze, "slow": lambda: proxy.slow(SLOW_S)}[fault]()

    @contextmanager
    def worker_held(self) -> Iterator[redis.Redis]:
        """Hold the worker still, with a client of the broker's database; it goes on with the block's end."""
        os.killpg(self._worker.pid, signal.SIGSTOP)
        time.sleep(_TAKEN_S)
        broker = redis.Redis.from_url(self._environment["CHORDWISE_BROKER_URL"])
        try:
            yield broker
        finally:
            broker.close()
            os.killpg(self._worker.pid, signal.SIGCONT)

    def heal(self, *, indexed: bool = False) -> None:
        """End all faults, and wait until queries are complete again; with ``indexed`` until the host's index answers."""
        for proxy in self.proxies.values():
            proxy.heal()
        (self._logs / "dns").unlink(missing_ok=True)
        if self._worker.poll() is not None:
            self.start_worker()
        os.killpg(self._worker.pid, signal.SIGCONT)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            response = self.client.post("/v1/rag/query", json={"query_text": "panels", "namespaces": [NAMESPACE]})
            stats = response.json()["stats"] if response.status_code == 200 else {"degraded": True}
            if not stats["degraded"] and not (indexed and stats["recall"]["keyword"]["method"] != "index"):
                return
            time.sleep(0.1)
        raise AssertionError(f"everything is back and queries still lose something: {response.text}")

    @contextmanager
    def all_places_held(self) -> Iterator[None]:
        """Hold every place for queries, as a gateway does that has just died."""
        with redis.Redis.from_url(self.redis_url) as client:
            places = Places(client)
            held = [f"held{number}" for number in range(100)]
            for work_id in held:
                places.take(_DEAD, work_id, Place(pool=WorkKind.QUERY, most=0, left_s=60.0))
            try:
                yield
            finally:
                for work_id in held:
                    places.give_back(_DEAD, work_id, WorkKind.QUERY)

    def forget_queries(self) -> int:
        """Let Redis vanish, and come back without queries. Return how many there were."""
        with redis.Redis.from_url(self.redis_url) as client:
            self.proxies["redis"].cut()
            keys = list(client.scan_iter("*:query:*"))
            client.delete(*keys)
            self.proxies["redis"].heal()
        return len(keys)

    def counted(self) -> dict[tuple[str, str], float]:
        """Return the fleet's counters of queries, by status and degradation."""
        page = self.client.get("/v1/metrics").text
        found = {}
        for line in page.splitlines():
            if line.startswith("chordwise_queries_total{"):
                labels, _, value = line.partition("} ")
                named = dict(label.split("=") for label in labels.partition("{")[2].split(","))
                found[named["status"].strip('"'), named["degraded"].strip('"')] = float(value)
        return found


@contextmanager
def outage_stack(settings: Settings, logs: Path, **changed: str) -> Iterator[OutageStack]:
    """The stack, with three documents embedded by a model service. Its databases are its own. ``changed``: variables of
    its environment."""
    with ExitStack() as whole:
        model = whole.enter_context(OpenAIServer(dimension=_DIMENSION))
        patched = whole.enter_context(pytest.MonkeyPatch.context())
        patched.setenv("OPENAI_BASE_URL", model.url)
        patched.setenv("OPENAI_API_KEY", "not-a-real-key")
        embedded = {"embedding_provider": "openai", "embedding_model": "hashed", "embedding_dim": _DIMENSION}
        use = whole.enter_context(databases_of_its_own(settings.model_copy(update=embedded)))
        (tenant_id, key), (other_id, other_key) = make_tenant(use), make_tenant(use)
        _fill(tenant_id, use)
        _fill(other_id, use)
        mysql = make_url(use.settings.mysql_url.get_secret_value())
        postgres = make_url(use.settings.postgres_url.get_secret_value())
        answers = make_url(use.settings.redis_url.get_secret_value())
        messages = make_url(whole.enter_context(redis_of_its_own(settings)))
        targets = {
            "mysql": (mysql.host, mysql.port or 3306),
            "postgres": (postgres.host, postgres.port or 5432),
            "redis": (answers.host, answers.port or 6379),
            "broker": (messages.host, messages.port or 6379),
            "model": ("127.0.0.1", make_url(model.url).port),
        }
        proxies = {
            name: whole.enter_context(Proxy(host or "127.0.0.1", int(port or 0)))
            for name, (host, port) in targets.items()
        }

        def through(url: Any, part: str) -> str:
            moved = url.set(host="127.0.0.1", port=proxies[part].port)
            return str(moved.render_as_string(hide_password=False))

        port = free_port()
        environment = {
            "CHORDWISE_MYSQL_URL": through(mysql, "mysql"),
            "CHORDWISE_POSTGRES_URL": through(postgres, "postgres"),
            "CHORDWISE_REDIS_URL": through(answers, "redis"),
            "CHORDWISE_BROKER_URL": through(messages, "broker"),
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_ADMIN_KEY": ADMIN_KEY,
            "CHORDWISE_QUERY_DEADLINE_MS": str(int(DEADLINE_S * 1000)),
            "CHORDWISE_RESULT_CACHE_TTL_S": "0",
            "CHORDWISE_EMBEDDING_CACHE_BYTES": "0",  # every query needs the model service
            "CHORDWISE_BREAKER_FAILURES": "1000",
            "CHORDWISE_EMBEDDING_PROVIDER": "openai",
            "CHORDWISE_EMBEDDING_MODEL": "hashed",
            "CHORDWISE_EMBEDDING_DIM": str(_DIMENSION),
            "OPENAI_BASE_URL": f"http://{_MODEL_HOST}:{proxies['model'].port}/v1",
            "PYTHONPATH": str(_own_resolver(logs)),
            "OPENAI_API_KEY": "not-a-real-key",
            **changed,
        }
        gateway = process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment)
        running = whole.enter_context(gateway)
        stack = OutageStack((key, other_key), f"http://127.0.0.1:{port}", environment, logs, whole)
        stack.gateway_pid = running.pid
        stack.proxies.update(proxies)
        stack.redis_url = use.settings.redis_url.get_secret_value()
        indexer = process("workers.indexer", log=logs / "indexer.log", ending=signal.SIGKILL, **environment)
        whole.enter_context(indexer)
        stack.start_worker()
        wait_for_http(f"{stack.url}/healthz", seconds=90)
        stack.heal(indexed=True)
        yield stack
        _assert_at_rest(running.pid)


def _assert_at_rest(gateway_pid: int) -> None:
    """Fail if an idle gateway uses a processor: an outage may leave a thread in an endless loop."""
    gateway = psutil.Process(gateway_pid)
    seconds = (gateway.cpu_percent(interval=1.0) for _ in range(_SECONDS_TO_REST))
    assert any(percent < _AT_REST_PERCENT for percent in seconds), "the gateway uses a processor while it is idle"


def _own_resolver(logs: Path) -> Path:
    """Return a folder for PYTHONPATH whose processes resolve the model's name as the file ``dns`` in ``logs`` says."""
    folder = logs / "resolver"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_RESOLVER.format(host=_MODEL_HOST, flag=str(logs / "dns")))
    return folder


def _fill(tenant_id: TenantId, use: Any) -> None:
    entries = [upload(name, body) for name, body in DOCUMENTS.items()]
    work_off(use, submit(use, tenant_id, entries, NAMESPACE))
