"""An operator moves a running installation from the local model to a service, with the command line, under load."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from chordwise.cli import run
from pipeline.maintenance.migrate_schema import upgrade
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import make_tenant, scratch_databases
from tests.support.clients.gateway_client import pointers, problem
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.servers.openai_answers import refused
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.processes import environment_of, free_port, process, wait_for_http, wait_for_log, worker

DIMENSION = 96
ADMIN_KEY = "an-admin-key-of-the-test"
MIGRATIONS = "/v1/admin/embedding-migrations"


class Moving(NamedTuple):
    """A running installation: its tenant's client, its operator's, and the service that has the new model."""

    client: httpx.Client
    operator: httpx.Client
    service: OpenAIServer
    tenant: str


@pytest.fixture(scope="module")
def moving(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    """Databases, a gateway, workers and a beat of the module's own: a move concerns the whole installation."""
    with scratch_databases(settings) as fresh, pytest.MonkeyPatch.context() as monkeypatch:
        yield from _moving(fresh, tmp_path_factory.mktemp("moving"), monkeypatch)


def _moving(fresh: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moving]:
    redis_url = fresh.redis_url.get_secret_value()
    own = Resources(fresh)
    upgrade(own.mysql, own.postgres, fresh)
    tenant, key = make_tenant(own)
    own.close()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with OpenAIServer(dimension=DIMENSION) as service:
        environment = {
            **environment_of(fresh, redis_url=redis_url, port=port),
            "CHORDWISE_ADMIN_KEY": ADMIN_KEY,
            "CHORDWISE_EMBEDDING_NEXT_BASE_URL": service.url,
            "CHORDWISE_EMBEDDING_NEXT_API_KEY": "not-a-real-key",
            "CHORDWISE_SWEEP_INTERVAL_S": "0.5",
            "CHORDWISE_QUERY_DEADLINE_MS": "1000",  # the old vectors stay for five of them
        }
        monkeypatch.setenv("CHORDWISE_URL", url)
        monkeypatch.setenv("CHORDWISE_API_KEY", key)
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", ADMIN_KEY)
        schedule = ("-s", str(tmp_path / "beat"), "--pidfile", str(tmp_path / "beat.pid"))
        with (
            process("api_gateway", log=tmp_path / "gateway.log", **environment),
            worker("moving-ingest", "ingest,upkeep,compute", log=tmp_path / "ingest.log", **environment),
            worker("moving", "recall,answer,rerank", log=tmp_path / "queries.log", **environment),
            process("celery", "-A", "workers.app", "beat", *schedule, log=tmp_path / "beat.log", **environment),
            _client(url, key) as client,
            _client(url, ADMIN_KEY) as operator,
        ):
            wait_for_http(f"{url}/healthz")
            for name in ("ingest", "queries"):
                wait_for_log(tmp_path / f"{name}.log", " ready.")
            yield Moving(client, operator, service, tenant)


def _client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=60)


class Asking(threading.Thread):
    """Asks by meaning alone, over and over, and keeps everything that was not a whole answer."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__(daemon=True)
        self._client = client
        self.ended = threading.Event()
        self.answers = 0
        self.problems: list[Any] = []
        self.turn = threading.Lock()  # its holder blocks all queries

    def run(self) -> None:
        while not self.ended.wait(0.1):  # others want a turn, and the processors are theirs too
            with self.turn:
                self._ask()

    def _ask(self) -> None:
        body = {"query_text": f"pump number {self.answers % 40}", "namespaces": ["kb"], "enable_rerank": False}
        body["retrieve"] = {"method": "semantic"}
        answer = self._client.post("/v1/queries", json=body, headers={"Prefer": "wait=10"})
        said = answer.json()
        if answer.status_code != 200 or said["stats"]["degraded"] or not said["chunks"]:
            self.problems.append(said)
        self.answers += 1

    def stop(self) -> None:
        self.ended.set()
        self.join()


@pytest.fixture
def call(capsys):
    """Run a command; gives its exit status, the JSON it printed, and its complaint."""

    def calling(*arguments: object) -> tuple[int, Any, str]:
        status = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return status, json.loads(printed.out) if printed.out.startswith("{") else printed.out, printed.err

    return calling


def wait_for(operator: httpx.Client, number: int, state: str, *, seconds: float = 60) -> dict[str, Any]:
    ends = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = operator.get(f"{MIGRATIONS}/{number}").json()
        if found["state"] == state and not found["behind"]:
            return found
        assert time.monotonic() < ends, found
        time.sleep(0.2)


def verified(client: httpx.Client) -> None:
    found = client.post("/v1/verify", json={}).json()
    assert (found["missing"], found["orphaned"], found["stale"]) == (0, 0, 0), found


def is_for_operators_and_says_what_is_wrong(moving: Moving, call: Callable[..., Any]) -> None:
    """The interface in an installation without any model migration."""
    client, operator, service, _ = moving
    good = {"provider": "openai", "model": "better", "dimension": DIMENSION, "service": "next"}
    problem(client.get(MIGRATIONS), 403, "insufficient_scope")
    problem(client.post(MIGRATIONS, json=good), 403, "insufficient_scope")
    assert operator.get(MIGRATIONS).json() == {"data": []}
    problem(operator.get(f"{MIGRATIONS}/2"), 404, "migration_not_found")
    problem(operator.post(f"{MIGRATIONS}/2/switch", json={}), 404, "migration_not_found")
    problem(operator.post(f"{MIGRATIONS}/2/rollback"), 404, "migration_not_found")
    wrong = operator.post(MIGRATIONS, json={**good, "dimension": 0, "key": "x"})
    assert pointers(problem(wrong, 422, "invalid_request")) == ["/dimension", "/key"]
    misfit = operator.post(MIGRATIONS, json={"provider": "local", "model": "wordllama-l2-supercat", "dimension": 96})
    problem(misfit, 422, "invalid_request")
    same = {"provider": "local", "model": "wordllama-l2-supercat", "dimension": 256}
    problem(operator.post(MIGRATIONS, json=same), 409, "same_model")
    service.always["embeddings"] = refused(401)
    assert pointers(problem(operator.post(MIGRATIONS, json=good), 422, "invalid_request")) == ["/model"]
    del service.always["embeddings"]
    begun = operator.post(MIGRATIONS, json=good)
    assert (begun.status_code, begun.headers["location"]) == (202, f"{MIGRATIONS}/2")
    problem(operator.post(f"{MIGRATIONS}/2/finish"), 409, "migration_refused")
    status, given_up, _ = call("models", "abort", "--json")
    assert (status, given_up["state"]) == (0, "aborting")
    assert wait_for(operator, 2, "aborted")["ended_at"]


@pytest.mark.thorough
class DescribeAMoveUnderLoad:
    @pytest.mark.timeout(240)
    def it_is_the_operators_and_fails_no_query_from_beginning_to_end(self, moving, call, tmp_path):
        is_for_operators_and_says_what_is_wrong(moving, call)
        client, operator, service, tenant = moving
        texts = [
            document(f"d{n}", f"The pump number {n} starts when valve {n} opens. " * (1 + n % 4)) for n in range(60)
        ]
        upload(client, "kb", texts)
        asking = Asking(client)
        asking.start()
        status, begun, _ = call(
            "models", "migrate", "--provider", "openai", "--model", "better", "--dimension", DIMENSION,
            "--service", "next", "--json",
        )  # fmt: skip
        assert (status, begun["state"], begun["active"]) == (0, "backfilling", False)
        number = begun["number"]
        upload(client, "kb", [document("d1", "Replaced while it moves."), document("new", "Pump number new.")])
        client.delete("/v1/documents/d2", params={"namespace": "kb"})
        [chunk] = client.get("/v1/documents/d4/chunks", params={"namespace": "kb"}).json()["data"]
        client.put("/v1/chunks", json={"chunks": [{"chunk_id": chunk["chunk_id"], "text": "Edited while it moves."}]})
        ready = wait_for(operator, number, "ready")
        assert ready["missing"] == 0
        assert {body["model"] for body in service.seen("embeddings")} == {"better"}
        status, _, complaint = call("models", "switch")
        assert (status, "not_compared" in complaint) == (1, True)

        golden = tmp_path / "golden.jsonl"
        question = {"tenant_id": tenant, "namespaces": ["kb"], "query_text": "valve 7 opens", "relevant": {"d7": 1}}
        golden.write_text(json.dumps(question))
        status, compared, _ = call("models", "compare", "--queries", golden, "--max-ndcg-loss", "1", "--json")
        assert (status, compared["comparison"]["passed"], compared["comparison"]["judged"]) == (0, True, 1)
        status, _, complaint = call(
            "models", "compare", "--queries", golden, "--max-ndcg-loss", "0", "--min-overlap", "1"
        )
        assert status in (0, 1)
        call("models", "compare", "--queries", golden, "--max-ndcg-loss", "1")

        status, switched, _ = call("models", "switch", "--json")
        assert (status, switched["state"], switched["active"]) == (0, "switched", True)
        time.sleep(2)  # every process follows within about a second
        assert asking.problems == []
        with asking.turn:
            service.always["embeddings"] = refused(503)
            degraded = search(client, "kb", "a question nobody asked", enable_rerank=False)
            del service.always["embeddings"]
        assert [lost["part"] for lost in degraded["stats"]["degradations"]] == ["semantic"]  # so it is the service's
        upload(client, "kb", [document("later", "The flamingo came later.")])
        assert found_documents(search(client, "kb", "the flamingo"))[0] == "later"
        verified(client)

        status, back, _ = call("models", "rollback", "--json")
        assert (status, back["state"], back["active"], back["behind"]) == (0, "ready", False, 0)
        time.sleep(2)
        seen = len(service.seen("embeddings"))
        assert found_documents(search(client, "kb", "the flamingo, from where it was before"))[0] == "later"
        assert len(service.seen("embeddings")) == seen
        verified(client)

        assert call("models", "switch")[0] == 0
        assert call("models", "finish")[0] == 0
        wait_for(operator, number, "finished")
        time.sleep(1)
        asking.stop()
        assert asking.problems == []
        assert asking.answers > 20
        verified(client)
        assert search(client, "kb", "the flamingo")["stats"]["degradations"] == []
        status, shown, _ = call("models", "status")
        assert status == 0
        assert "finished, in use by searches" in shown
