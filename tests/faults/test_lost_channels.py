"""A store that goes away, or hangs, while queries are asked: the other channel answers, and the answer says so."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url

from pipeline.settings import Settings
from tests.conftest import gateway, make_tenant
from tests.support.clients.operating import eventually, figure
from tests.support.corpora.documents import document, found_documents, search, upload
from tests.support.servers.proxy import Proxy
from tests.support.stacks.processes import free_port, process, wait_for_http, wait_for_log, worker

# test_outages loses each store through every interface in every run; test_fault_matrix, everything at once.
pytestmark = pytest.mark.thorough

DEADLINE_S = 3.0
NAMESPACE = "faults"


@dataclass(frozen=True)
class MiniStack:
    """A gateway and a query worker of the test's own, which reach the databases through proxies."""

    client: httpx.Client
    mysql: Proxy
    postgres: Proxy

    def heal(self) -> None:
        """Both stores are back, and the processes have noticed."""
        self.mysql.heal()
        self.postgres.heal()
        ends = time.monotonic() + 20
        while time.monotonic() < ends:
            checks = self.client.get("/readyz").json()["dependencies"]  # without a worker for ingest it is never ready
            stores_answer = all(checks[store]["status"] == "ok" for store in ("mysql", "postgres"))
            if stores_answer and not _ask(self.client)["stats"]["degraded"]:
                return
            time.sleep(0.2)
        raise AssertionError("the stores are back and queries still degraded")


@pytest.fixture(scope="module")
def mini(settings: Settings, use, tmp_path_factory) -> Iterator[MiniStack]:
    """One mini stack for the file; its Redis database is its own, so that no other worker takes its queries."""
    logs: Path = tmp_path_factory.mktemp("mini")
    mysql_url, postgres_url = (
        make_url(settings.mysql_url.get_secret_value()),
        make_url(settings.postgres_url.get_secret_value()),
    )
    redis_url = make_url(settings.redis_url.get_secret_value()).set(database="7")
    port = free_port()
    _, key = make_tenant(use)
    with gateway(key) as outside:
        upload(outside, NAMESPACE, [document("solar", "Photovoltaic panels turn sunlight into direct current.")])
    with (
        Proxy(mysql_url.host or "", mysql_url.port or 3306) as mysql,
        Proxy(postgres_url.host or "", postgres_url.port or 5432) as postgres,
    ):
        environment = {
            "CHORDWISE_MYSQL_URL": mysql_url.set(host="127.0.0.1", port=mysql.port).render_as_string(False),
            "CHORDWISE_POSTGRES_URL": postgres_url.set(host="127.0.0.1", port=postgres.port).render_as_string(False),
            "CHORDWISE_REDIS_URL": redis_url.render_as_string(False),
            "CHORDWISE_BROKER_URL": redis_url.render_as_string(False),
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_QUERY_DEADLINE_MS": str(int(DEADLINE_S * 1000)),
            "CHORDWISE_RESULT_CACHE_TTL_S": "0",  # every query is to run here
            "CHORDWISE_BREAKER_FAILURES": "1000",  # what is back is asked again at once
        }
        with (
            process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment),
            worker("mini", "recall,answer", log=logs / "worker.log", ending=signal.SIGKILL, **environment),
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"}, timeout=30
            ) as client,
        ):
            wait_for_http(f"http://127.0.0.1:{port}/healthz")
            wait_for_log(logs / "worker.log", " ready.")
            yield MiniStack(client=client, mysql=mysql, postgres=postgres)


def _ask(client: httpx.Client) -> dict:
    return search(client, NAMESPACE, "photovoltaic panels")


def _timed(client: httpx.Client) -> tuple[dict, float]:
    started = time.monotonic()
    answer = _ask(client)
    return answer, time.monotonic() - started


class DescribeLostChannels:
    def it_answers_whole_while_all_is_well(self, mini):
        mini.heal()
        answer = _ask(mini.client)
        assert found_documents(answer) == ["solar"]
        assert answer["stats"]["hits"] == {"keyword": 1, "semantic": 1}

    @pytest.mark.parametrize("how", ["cut", "freeze"])
    def it_answers_by_keywords_when_the_vector_store_is_gone(self, mini, how):
        mini.heal()
        getattr(mini.postgres, how)()
        answer, took_s = _timed(mini.client)
        mini.heal()
        assert found_documents(answer) == ["solar"]
        assert answer["stats"]["degraded"]
        assert {lost["part"] for lost in answer["stats"]["degradations"]} == {"semantic"}
        assert took_s <= DEADLINE_S + 0.25

    def it_waits_for_nothing_that_it_knew_a_moment_ago(self, mini):
        """The key, the profiles, the namespace and the active space are all to be read again by then."""
        mini.heal()
        time.sleep(5.5)
        mini.mysql.freeze()
        answer, took_s = _timed(mini.client)
        mini.heal()
        assert {"keyword"} <= {lost["part"] for lost in answer["stats"]["degradations"]}
        assert took_s <= DEADLINE_S

    @pytest.mark.parametrize("how", ["cut", "freeze"])
    def it_fails_with_reasons_when_no_store_can_be_read(self, mini, how):
        mini.heal()
        getattr(mini.mysql, how)()
        getattr(mini.postgres, how)()
        answer, took_s = _timed(mini.client)
        mini.heal()
        assert answer["status"] == "failed"
        assert answer["chunks"] == []
        assert answer["error"]["code"] == "retrieval_unavailable"
        assert "keyword (" in answer["error"]["detail"]
        assert {"keyword", "semantic"} <= {lost["part"] for lost in answer["stats"]["degradations"]}
        assert all(lost["code"] and lost["detail"] for lost in answer["stats"]["degradations"])
        assert took_s <= DEADLINE_S + 0.25


class DescribeTheDeadline:
    def it_holds_when_no_worker_is_there_at_all(self, settings, use, tmp_path):
        redis_url = make_url(settings.redis_url.get_secret_value()).set(database="8").render_as_string(False)
        port = free_port()
        _, key = make_tenant(use)
        with gateway(key) as outside:
            upload(outside, NAMESPACE, [document("solar", "Photovoltaic panels turn sunlight into current.")])
        environment = {
            "CHORDWISE_REDIS_URL": redis_url,
            "CHORDWISE_BROKER_URL": redis_url,
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_QUERY_DEADLINE_MS": "1000",
        }
        headers = {"Authorization": f"Bearer {key}"}
        with (
            process("api_gateway", log=tmp_path / "gateway.log", ending=signal.SIGKILL, **environment),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client,
        ):
            wait_for_http(f"http://127.0.0.1:{port}/healthz")
            before = figure(client, "chordwise_queries_total", status="failed") or 0.0
            answer, took_s = _timed(client)
            assert answer["status"] == "failed"
            assert answer["chunks"] == []
            assert answer["error"]["code"] == "retrieval_unavailable"
            assert {lost["code"] for lost in answer["stats"]["degradations"]} == {"no_answer"}
            assert took_s <= 1.25
            accepted = client.post("/v1/queries", json={"query_text": "panels", "namespaces": [NAMESPACE]})
            assert accepted.status_code == 202
            time.sleep(1.25)
            late = client.get(accepted.headers["Location"]).json()
            assert late["status"] == "failed"
            assert late["error"]["code"] == "retrieval_unavailable"
            # Both count: the one that was waited for, and the one that nobody waited for.
            eventually(lambda: figure(client, "chordwise_queries_total", status="failed") == before + 2.0)
            assert figure(client, "recall_success_rate") == 0.0
