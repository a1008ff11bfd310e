"""An installation each of whose servers may be lost: clusters of stores and of the broker, two gateways behind HAProxy, and
two hosts of workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from compose.localstack.processes import identify
from compose.localstack.progress import say
from pipeline.resources import Resources
from pipeline.settings import load
from tests.conftest import make_tables, make_tenant
from tests.ha.load import Tenant, client
from tests.support.clients.operating import eventually
from tests.support.servers.clusters import WatchedRedis, watched_redis
from tests.support.servers.galera import galera
from tests.support.servers.haproxy import haproxy, of_gateways
from tests.support.servers.members import Cluster, Fault, Member
from tests.support.servers.proxy import Proxy
from tests.support.servers.rabbitmq_nodes import rabbitmq_nodes
from tests.support.servers.standby import postgres_pair
from tests.support.stacks.processes import (
    free_port,
    leaving_no_process,
    process,
    wait_for_http,
    wait_for_log,
    worker,
)
from workers.names import Queue
from workers.roles import ROLES, clock_command

_QUERIES = ",".join(ROLES["queries"].queues)
_REST = ",".join(queue for queue in Queue if queue not in ROLES["queries"].queues)
_HOSTS = ("host-a", "host-b")
# A previous generation goes while the run lasts, and the sweep looks often.
_SETTINGS = {
    "CHORDWISE_PREVIOUS_GENERATION_KEPT_S": "15",
    "CHORDWISE_SWEEP_INTERVAL_S": "1",
    "CHORDWISE_RESULT_CACHE_TTL_S": "0",
    "OPENBLAS_NUM_THREADS": "1",
}


class _Processes:
    """Processes of ours that run on one host: commands by name, with the words that each says when it is ready."""

    def __init__(self, folder: Path, commands: Mapping[str, tuple[Any, str]]) -> None:
        self._folder, self._commands = folder, commands
        self._running = ExitStack()
        self._pids: list[int] = []

    def start(self) -> None:
        """Start them, and wait until all are ready."""
        for name, (make, _) in self._commands.items():
            self._pids.append(self._running.enter_context(make(self._log(name))).pid)
        for name, (_, says) in self._commands.items():
            wait_for_log(self._log(name), says, seconds=240)

    def kill(self) -> None:
        """``kill -9`` of all."""
        self._signal(signal.SIGKILL)
        self._running.close()
        self._pids = []

    def stop(self) -> None:
        """SIGTERM, and wait until all have ended."""
        self._signal(signal.SIGTERM)
        ends = time.monotonic() + 30
        while any(identify(pid) for pid in self._pids) and time.monotonic() < ends:
            time.sleep(0.1)
        self.kill()

    def freeze(self) -> None:
        """SIGSTOP of all."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(pid, number)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


@dataclass(kw_only=True)
class _Sentinels(Cluster):
    """The two servers of a Redis, as sentinels see them."""

    redis: WatchedRedis
    kind: str = "redis"

    def primary(self) -> Member:
        """Return the one that the sentinels name."""
        return next(each for each in self.members if each.wire and each.wire.port == self.redis.primary())

    def strike(self, lost: Member, fault: Fault) -> None:
        """Take a member away; one that hands over goes on as a replica."""
        if fault == "handed over":
            self.redis.hand_over()
        else:
            lost.strike(fault)

    def is_whole(self) -> bool:
        """Return whether the other one follows."""
        return self.redis.is_followed()


@dataclass(kw_only=True)
class Stage:
    """``clusters`` by kind. ``use``: connections of this process, as a process of the installation has them. ``logs``: of the
    gateways."""

    clusters: Mapping[str, Cluster]
    tenants: Sequence[Tenant]
    use: Resources
    logs: Sequence[Path]


class _Host:
    """A host's workers and its gateway. Killed with the stage."""

    def __init__(self, folder: Path, shared: Mapping[str, str], whole: ExitStack) -> None:
        folder.mkdir(parents=True)
        port = free_port()
        environment = {
            **shared,
            "CHORDWISE_HOST_NAME": folder.name,
            "CHORDWISE_KEYWORD_INDEX_DIR": str(folder / "keyword-index"),
            "CHORDWISE_GATEWAY_PORT": str(port),
        }
        options: dict[str, Any] = {"ending": signal.SIGKILL, **environment}
        workers = {
            "indexer": (lambda log: process("workers.indexer", log=log, **options), "indexer_ready"),
            "queries": (lambda log: worker(f"{folder.name}-queries", _QUERIES, log=log, **options), " ready."),
            "rest": (lambda log: worker(f"{folder.name}-rest", _REST, log=log, **options), " ready."),
            "clock": (
                lambda log: process(*clock_command(str(folder / "schedule")), log=log, **options),
                "beat: Starting",
            ),
        }
        gateway = {"gateway": (lambda log: process("api_gateway", log=log, **options), "startup complete")}
        running = [_Processes(folder, commands) for commands in (workers, gateway)]
        for each in running:
            whole.callback(each.kill)
        self.workers = Member(name=folder.name, server=running[0])
        wire = whole.enter_context(Proxy("127.0.0.1", port))
        self.gateway = Member(name=f"gateway-{folder.name[-1]}", server=running[1], wire=wire)


@contextmanager
def stage(folder: Path, *, writers: int = 1, rabbitmq: bool = True) -> Iterator[Stage]:
    """Run everything until the block ends, with logs in ``folder``; no process of it is left then, however it ends."""
    with leaving_no_process(), ExitStack() as whole:
        mysql = whole.enter_context(galera(folder / "mysql", writers=writers))
        say(f"  MariaDB: {len(mysql.members)} nodes with Galera")
        postgres = whole.enter_context(postgres_pair(folder / "postgres"))
        say("  PostgreSQL: a primary and a standby")
        watched = whole.enter_context(watched_redis(folder / "redis"))
        servers = [
            Member(name=name, server=server, wire=watched.wires[port])
            for name, (port, server) in zip(("first", "second"), watched.servers.items(), strict=True)
        ]
        say(f"  Redis: two servers and {len(watched.sentinels)} sentinels")
        clusters: dict[str, Cluster] = {
            "mysql": mysql,
            "postgres": postgres,
            "redis": _Sentinels(members=servers, redis=watched),
            "sentinel": Cluster(
                kind="sentinel",
                members=[Member(name="sentinel", server=watched.sentinels[0], wire=watched.sentinel_wires[0])],
            ),
        }
        broker = watched.url
        if rabbitmq:
            nodes = whole.enter_context(rabbitmq_nodes(folder / "rabbitmq"))
            clusters["rabbitmq"], broker = nodes, nodes.url
            say(f"  RabbitMQ: {len(nodes.members)} nodes with quorum queues")
        urls = {"mysql_url": mysql.url, "postgres_url": postgres.url, "redis_url": watched.url, "broker_url": broker}
        environment = {f"CHORDWISE_{name.upper()}": url for name, url in urls.items()} | _SETTINGS
        hosts = [_Host(folder / name, environment, whole) for name in _HOSTS]
        clusters["gateway"] = Cluster(kind="gateway", members=[host.gateway for host in hosts])
        clusters["workers"] = Cluster(
            kind="workers", members=[host.workers for host in hosts], faults=("killed", "frozen")
        )
        public = free_port()
        whole.enter_context(haproxy(folder, mysql.section, of_gateways(public, clusters["gateway"].members)))
        use = whole.enter_context(closing(Resources(load(urls))))
        make_tables(use)
        for host in hosts:
            host.workers.server.start()
            host.gateway.server.start()
        say("  two hosts, each with workers, an indexer, a clock and a gateway")
        url = f"http://127.0.0.1:{public}"
        wait_for_http(f"{url}/readyz", seconds=120)
        say(f"  standbys: {httpx.get(f'{url}/readyz').json()['dependencies']['standbys']['detail']}")
        made = [make_tenant(use) for _ in hosts]
        tenants = [Tenant(tenant_id=tenant_id, client=whole.enter_context(client(url, key))) for tenant_id, key in made]
        for tenant in tenants:
            first = {"document_id": "first", "text": "A fox sleeps behind the barn."}
            sent = tenant.client.post("/v1/documents", json={"namespace": tenant.namespace, "documents": [first]})
            eventually(partial(_is_done, tenant, sent.json()["job_id"]), within_s=120)
            tenant.expected["first"] = first["text"]
        logs = [folder / name / "gateway.log" for name in _HOSTS]
        yield Stage(clusters=clusters, tenants=tenants, use=use, logs=logs)


def _is_done(tenant: Tenant, job_id: str) -> bool:
    return bool(tenant.client.get(f"/v1/jobs/{job_id}", params={"wait": 5}).json()["status"] == "succeeded")
