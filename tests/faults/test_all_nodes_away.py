"""All servers of one kind away as an installation starts, and later once more. A gateway that cannot read its schema ends with
a sentence, for its supervisor to start it again; nothing else has to be started."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url

from compose.localstack.progress import Failure
from pipeline.resources import Resources
from pipeline.settings import load
from tests.conftest import make_tables, make_tenant, scratch_databases
from tests.support.clients.operating import eventually
from tests.support.servers.clusters import two_mariadbs, watched_redis
from tests.support.servers.proxy import Proxy
from tests.support.servers.rabbitmq_nodes import rabbitmq_nodes
from tests.support.servers.standby import postgres_pair
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, worker
from workers.names import Queue
from workers.roles import clock_command

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(400)]

DEADLINE_S, LATE_S = 3.0, 0.5
REFUSALS = {"store_unavailable", "retrieval_unavailable", "overloaded"}
# Whether uploads are accepted and queries of waiting callers answered while all of them are away, once they were there.
KINDS = {"mysql": (False, True), "postgres": (True, True), "redis": (True, True), "rabbitmq": (True, True)}


@contextmanager
def _servers(kind: str, folder: Path) -> Iterator[tuple[str, Sequence[Proxy]]]:
    """Yield the URL of a cluster, and the wires by which everybody reaches its servers."""
    if kind == "postgres":
        with postgres_pair(folder) as pair:
            yield pair.url, [member.wire for member in pair.members if member.wire]
    elif kind == "redis":
        with watched_redis(folder) as watched:
            yield watched.url, [*watched.wires.values(), *watched.sentinel_wires]
    elif kind == "rabbitmq":
        with rabbitmq_nodes(folder) as nodes:
            yield nodes.url, [member.wire for member in nodes.members if member.wire]
    else:
        with two_mariadbs(folder) as pair, ExitStack() as whole:
            urls = [make_url(server.url) for server in (pair.first, pair.second)]
            wires = [whole.enter_context(Proxy("127.0.0.1", url.port or 0)) for url in urls]
            url = pair.url
            for wire, own in zip(wires, urls, strict=True):
                url = url.replace(f":{own.port}", f":{wire.port}")
            yield url, wires


@pytest.mark.parametrize("kind", KINDS)
def it_starts_without_them_and_goes_on_by_itself_each_time_they_return(settings, tmp_path: Path, kind: str):
    uploads, queries = KINDS[kind]
    with ExitStack() as whole:
        scratch = whole.enter_context(scratch_databases(settings))
        try:
            url, wires = whole.enter_context(_servers(kind, tmp_path / kind))
        except Failure as missing:
            pytest.skip(str(missing))
        setting = "broker_url" if kind == "rabbitmq" else f"{kind}_url"
        own = scratch.model_copy(update={setting: getattr(load({setting: url}), setting)})
        with closing(Resources(own)) as use:
            make_tables(use)
            _, key = make_tenant(use)
        environment = environment_of(own, redis_url=own.redis_url.get_secret_value(), port=free_port())
        environment |= {"CHORDWISE_SWEEP_INTERVAL_S": "1", "OPENBLAS_NUM_THREADS": "1"}
        if kind == "rabbitmq":
            environment["CHORDWISE_BROKER_URL"] = url
        for wire in wires:
            wire.cut()
        client = whole.enter_context(_others_started(environment, key, tmp_path, whole))
        log = tmp_path / "gateway.log"
        gateway = whole.enter_context(process("api_gateway", log=log, ending=signal.SIGKILL, **environment))
        if kind in ("mysql", "postgres"):
            assert gateway.wait(timeout=120) == 1
            [sentence] = log.read_text().splitlines()[-1:]
            assert all(f"127.0.0.1:{wire.port}" in sentence for wire in wires), sentence
        else:
            wait_for_http(str(client.base_url.join("/healthz")), seconds=120)
            ready = client.get("/readyz")
            assert ready.status_code == 503
            assert {"rabbitmq": "broker"}.get(kind, kind) in ready.json()["failing"]
            _upload(client, "early")
            _ask(client, "early")

        for wire in wires:
            wire.heal()
        if kind in ("mysql", "postgres"):  # its supervisor starts it again
            log = tmp_path / "gateway-2.log"
            whole.enter_context(process("api_gateway", log=log, ending=signal.SIGKILL, **environment))
            wait_for_http(str(client.base_url.join("/healthz")), seconds=120)
        eventually(lambda: _upload(client, "one"), within_s=60)
        eventually(lambda: _ask(client, "one") == "ok", within_s=60)
        eventually(lambda: client.get("/readyz").status_code == 200, within_s=60)

        for wire in wires:
            wire.cut()
        ends = time.monotonic() + 8
        accepted: list[str] = []
        answered: list[str] = []
        while time.monotonic() < ends:
            name = f"later-{len(accepted)}"
            if _upload(client, name):
                accepted.append(name)
            answered.append(_ask(client, "one"))
            time.sleep(0.3)
        assert bool(accepted) is uploads
        assert set(answered) <= ({"ok", "degraded", "not indexed yet"} if queries else {"refused"}), answered

        for wire in wires:
            wire.heal()
        for name in (*accepted, "one"):
            eventually(lambda name=name: _ask(client, name) == "ok", within_s=60)
        eventually(lambda: client.get("/readyz").status_code == 200, within_s=60)


@contextmanager
def _others_started(environment: dict[str, str], key: str, folder: Path, whole: ExitStack) -> Iterator[httpx.Client]:
    """Start every process but the gateway, whose client is given; none may have ended with the block."""
    options = {"ending": signal.SIGKILL, **environment}
    queries = [Queue.RECALL, Queue.ANSWER, Queue.BATCH]
    rest = [queue for queue in Queue if queue not in queries]
    running = [
        whole.enter_context(each)
        for each in (
            process("workers.indexer", log=folder / "indexer.log", **options),
            worker("queries", ",".join(queries), log=folder / "queries.log", **options),
            worker("rest", ",".join(rest), log=folder / "rest.log", **options),
            process(*clock_command(str(folder / "schedule")), log=folder / "clock.log", **options),
        )
    ]
    url = f"http://127.0.0.1:{environment['CHORDWISE_GATEWAY_PORT']}"
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        yield client
    assert [each.args for each in running if each.poll() is not None] == []


def _upload(client: httpx.Client, name: str) -> bool:
    """Return whether a document was accepted; every other answer is a refusal that says when to send it again."""
    body = {"namespace": "kb", "documents": [{"document_id": name, "text": f"A fox named {name} sleeps."}]}
    answer = client.post("/v1/documents", json=body)
    if answer.status_code == 202:
        return True
    assert (answer.status_code, answer.json()["code"] in REFUSALS) == (503, True), answer.text
    assert "Retry-After" in answer.headers
    return False


def _ask(client: httpx.Client, name: str) -> str:
    """Return how a query went that should find the document of this name: in time, and never empty without a reason."""
    body = {"query_text": f"a fox named {name} {time.monotonic_ns()}", "namespaces": ["kb"]}
    began = time.monotonic()
    answer = client.post("/v1/rag/query", json=body)
    assert time.monotonic() - began <= DEADLINE_S + LATE_S
    if answer.status_code == 404:
        return "no namespace"
    if answer.status_code == 503:
        assert answer.json()["code"] in REFUSALS
        assert "Retry-After" in answer.headers
        return "refused"
    found = answer.json()
    if found["status"] == "failed":
        return f"failed: {found['stats']['degradations']}"
    if name not in [chunk["document_id"] for chunk in found["chunks"]]:
        return "not found"
    if found["stats"]["degraded"]:
        return "degraded"
    return "ok" if found["stats"]["recall"]["keyword"]["method"] == "index" else "not indexed yet"
