"""Killed, frozen and restarted brokers, those with an alarm, and stopped workers: beat goes on, the gateway reports the
state, queries end in time, and no job is lost."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis
from sqlalchemy import text

from compose.localstack.progress import Failure
from pipeline.database.redis_memory import read_redis_memory
from pipeline.resources import Resources
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own, make_tenant
from tests.support.corpora.documents import assert_whole, finished, half_done
from tests.support.servers import newer
from tests.support.servers.brokers import OwnServer, own_guarded_rabbitmq, own_rabbitmq, own_redis
from tests.support.stacks.processes import end, free_port, process, wait_for_http, wait_for_log, worker
from workers.names import Queue

QUEUES = [f"queue:{queue}" for queue in Queue]
CODES = {"store_unavailable", "retrieval_unavailable"}  # of a query that no worker gets
DEADLINE_S, LATE_S = 3.0, 1.0  # of a query; what a busy machine may add
DOCUMENTS = 1000  # of which a worker is in the middle
LONGEST_UPLOAD_S = 4.0  # with a broker that does not answer

_ATTEMPTS = text("SELECT COUNT(*), MIN(attempts), MAX(attempts) FROM job_items WHERE job_id = :job")


@dataclass
class OwnStack:
    """A gateway, one worker for every queue and a clock, on a broker of their own. ``start_worker`` starts another worker,
    with this pool; ``logs``: the folder of its log. ``delayed``: the reason that the last upload's answer gave for a delay."""

    use: Resources
    broker: OwnServer
    worker: subprocess.Popen[bytes]
    client: httpx.Client
    start_worker: Callable[[str], subprocess.Popen[bytes]]
    logs: Path
    delayed: str | None = None

    @property
    def is_rabbitmq(self) -> bool:
        """Return whether the broker is a RabbitMQ."""
        return self.broker.url.startswith("amqp")

    @contextmanager
    def broker_away(self, how: str) -> Iterator[None]:
        """Have the broker ``killed`` or ``frozen`` for the length of the block, whatever happens in it."""
        if how == "killed":
            self.broker.kill()
        else:
            self.broker.freeze()
        try:
            yield
        finally:
            if how == "killed":
                self.broker.start()
            else:
                self.broker.thaw()

    def readiness(self) -> dict[str, Any]:
        """Return the body of /readyz, whatever its status."""
        answer = self.client.get("/readyz")
        body: dict[str, Any] = answer.json()
        assert answer.status_code == (200 if body["status"] == "ready" else 503)
        return body

    def failing(self) -> list[str]:
        """Return the names of the checks that are causes, without that of this machine's disk."""
        return [name for name in self.readiness()["failing"] if name != "disk_space"]

    def unsound(self) -> set[str]:
        """Return the names of the checks that are not ok, those that follow from another one included."""
        return {name for name, check in self.readiness()["dependencies"].items() if check["status"] != "ok"}

    def doctor(self) -> dict[str, Any]:
        """Return the doctor's findings by check."""
        operator = {"Authorization": f"Bearer {os.environ['CHORDWISE_ADMIN_KEY']}"}
        findings = self.client.get("/v1/doctor", headers=operator).json()["findings"]
        return {finding["check"]: finding for finding in findings}

    def swept_since(self, moment: float) -> bool:
        """Return whether a sweep ended after ``moment`` on the monotonic clock."""
        asked = time.monotonic()
        age_s = self.readiness()["dependencies"]["last_sweep"].get("sweep_age_s")
        return age_s is not None and asked - age_s > moment

    def metric(self, name: str) -> float:
        """Return the value of a sample of the metrics, by its name with labels."""
        lines = self.client.get("/v1/metrics").text.splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))

    def hand_in(self, name: str) -> str:
        """Submit a document and return the job's id."""
        body = {"namespace": "kb", "documents": [{"document_id": name, "text": f"A text about {name}."}]}
        answer = self.client.post("/v1/documents", json=body)
        assert answer.status_code == 202, answer.text
        assert answer.elapsed.total_seconds() < LONGEST_UPLOAD_S
        self.delayed = answer.json().get("delayed")
        return str(answer.json()["job_id"])

    def ask(self) -> httpx.Response:
        """Ask for the documents. Fails if that takes longer than a query may."""
        body = {"query_text": "a text", "namespaces": ["kb"]}
        answer = self.client.post("/v1/rag/query", json=body, headers={"Cache-Control": "no-cache"})
        assert answer.elapsed.total_seconds() < DEADLINE_S + LATE_S, answer.text
        return answer

    def submit(self) -> httpx.Response:
        """Send a query whose answer is fetched later."""
        return self.client.post("/v1/queries", json={"query_text": f"a text {uuid.uuid4()}", "namespaces": ["kb"]})

    def answers(self) -> bool:
        """Return whether a query gets passages, and loses nothing."""
        answer = self.ask()
        return answer.status_code == 200 and bool(answer.json()["chunks"]) and not answer.json()["stats"]["degraded"]

    def job(self, job_id: str, *, wait_s: int) -> dict[str, Any]:
        """Return the job when it has ended, or after ``wait_s`` seconds."""
        found: dict[str, Any] = self.client.get(f"/v1/jobs/{job_id}", params={"wait": wait_s}).json()
        return found


def _own_quorum_rabbitmq(folder: Path) -> OwnServer:
    """Return a RabbitMQ 4 that replicates every queue, as a virtual host may ask for."""
    return own_rabbitmq(folder, root=newer.fetch_rabbitmq("rabbitmq-4.3"), settings=newer.QUORUM)


_BROKERS: dict[str, Callable[[Path], OwnServer]] = {
    "rabbitmq": own_rabbitmq,
    "rabbitmq-quorum": _own_quorum_rabbitmq,
    "rabbitmq-tls": own_guarded_rabbitmq,
}


@pytest.fixture(
    scope="module", params=["redis", *(pytest.param(name, marks=pytest.mark.thorough) for name in _BROKERS)]
)
def own(
    request: pytest.FixtureRequest, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnStack]:
    logs = tmp_path_factory.mktemp(f"own-{request.param}")
    with databases_of_its_own(settings) as use, ExitStack() as whole:
        results = own_redis(logs / "redis")
        try:
            broker = results if request.param == "redis" else _BROKERS[request.param](logs / "rabbitmq")
        except Failure as missing:
            pytest.skip(str(missing))
        for server in {results, broker}:
            whole.callback(server.close)
            server.start()
        _, key = make_tenant(use)
        port = free_port()
        environment = {
            "CHORDWISE_MYSQL_URL": use.settings.mysql_url.get_secret_value(),
            "CHORDWISE_POSTGRES_URL": use.settings.postgres_url.get_secret_value(),
            "CHORDWISE_REDIS_URL": results.url,
            "CHORDWISE_BROKER_URL": broker.url,
            "CHORDWISE_GATEWAY_PORT": str(port),
            "CHORDWISE_SWEEP_INTERVAL_S": "1",
            "CHORDWISE_KEYWORD_ENGINE": "mysql",  # no indexer runs here
            "OPENBLAS_NUM_THREADS": "1",
        }
        whole.enter_context(process("api_gateway", log=logs / "gateway.log", ending=signal.SIGKILL, **environment))
        every_queue = ",".join(queue.value for queue in Queue)
        numbers = itertools.count()

        def start_worker(pool: str) -> subprocess.Popen[bytes]:
            log = logs / f"worker-{next(numbers)}.log"
            running = worker("own", every_queue, log=log, pool=pool, ending=signal.SIGKILL, **environment)
            working: subprocess.Popen[bytes] = whole.enter_context(running)
            wait_for_log(log, " ready.", seconds=90)
            return working

        beat = ["-A", "workers.app", "beat", "-s", str(logs / "beat-schedule"), "--pidfile=", "-l", "INFO"]
        whole.enter_context(process("celery", *beat, log=logs / "beat.log", ending=signal.SIGKILL, **environment))
        headers = {"Authorization": f"Bearer {key}"}
        client = whole.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=40))
        wait_for_http(f"http://127.0.0.1:{port}/healthz", seconds=90)
        working = start_worker("threads")
        stack = OwnStack(use=use, broker=broker, worker=working, client=client, start_worker=start_worker, logs=logs)
        _until(lambda: stack.failing() == [], within_s=30)
        yield stack


def _until(holds: Callable[[], bool], *, within_s: float) -> float:
    """Wait until ``holds`` returns true and return the seconds waited. Fails after ``within_s``."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < within_s, f"not within {within_s:g} s"
        time.sleep(0.1)
    return time.monotonic() - began


@pytest.mark.timeout(400)  # RabbitMQ may take a minute to start on a busy machine
class DescribeABrokerThatWasAway:
    @pytest.mark.parametrize("how", [pytest.param("killed", marks=pytest.mark.thorough), "frozen"])
    def it_carries_the_clock_again_and_nothing_stays_queued(self, own: OwnStack, how: str):
        with own.broker_away(how):
            time.sleep(3)
            waiting = own.hand_in(f"while-{how}")
            # Where both are one server, its cause is named once.
            assert own.failing() == ["broker" if own.is_rabbitmq else "redis"]
        back = time.monotonic()
        _until(lambda: own.swept_since(back), within_s=20)
        assert own.job(waiting, wait_s=30)["status"] == "succeeded"
        _until(lambda: own.failing() == [], within_s=10)
        assert own.job(own.hand_in(f"after-{how}"), wait_s=10)["status"] == "succeeded"

    @pytest.mark.thorough
    @pytest.mark.parametrize("how", [pytest.param("killed", marks=pytest.mark.thorough), "frozen"])
    def it_costs_a_query_no_answer_if_its_caller_waits_and_a_named_error_else(self, own: OwnStack, how: str):
        """The worker answers its host."""
        assert own.job(own.hand_in(f"before-{how}"), wait_s=20)["status"] == "succeeded"
        _until(own.answers, within_s=20)
        with own.broker_away(how):
            answered = [own.ask() for _ in range(4)]  # on connections that were there, and on new ones
            refused = own.submit()
        for answer in answered:
            assert (answer.status_code, answer.json()["status"]) == (200, "succeeded"), answer.text
            assert answer.json()["chunks"]
        assert (refused.status_code, refused.json()["code"] in CODES) == (503, True), refused.text
        _until(own.answers, within_s=20)


class DescribeAFullRedis:
    def it_is_the_only_cause_and_ends_no_worker(self, own: OwnStack):
        """The worker takes a message and cannot note that it did."""
        if own.is_rabbitmq:
            pytest.skip("Redis is the broker of the other stack")
        log = max(own.logs.glob("worker-*.log"), key=os.path.getmtime)
        own.worker.send_signal(signal.SIGSTOP)
        waiting = own.hand_in("before-full")
        with redis.Redis.from_url(own.broker.url) as client:
            client.config_set("maxmemory", read_redis_memory(client).used + 2048)
            try:
                own.worker.send_signal(signal.SIGCONT)
                _until(lambda: "OutOfMemoryError" in log.read_text(), within_s=20)
                _until(lambda: own.failing() == ["redis"], within_s=10)
                findings = own.doctor().values()
                assert own.readiness()["dependencies"]["redis"]["condition"] == "is full"
            finally:
                client.config_set("maxmemory", 0)
        assert {found["check"] for found in findings if found["severity"] == "failed" and not found["cause"]} == {
            "redis"
        }
        assert own.job(waiting, wait_s=60)["status"] == "succeeded"
        _until(lambda: own.failing() == [], within_s=10)
        assert own.worker.poll() is None


REASON = "RabbitMQ has no space left"  # for callers
ALARM = (
    "it takes no messages, as it is short of disk space or memory (alarm);"
    " free some there, or change disk_free_limit or vm_memory_high_watermark"
)
ALARMS = {
    "disk": (("set_disk_free_limit", "100000GB"), ("set_disk_free_limit", "50MB")),
    "memory": (("set_vm_memory_high_watermark", "0.0001"), ("set_vm_memory_high_watermark", "0.4")),
}


@pytest.mark.thorough
@pytest.mark.timeout(200)
class DescribeARabbitMqWithAnAlarm:
    @pytest.mark.parametrize(("begin", "over"), ALARMS.values(), ids=ALARMS)
    def it_is_named_and_holds_nobody_up_and_work_goes_on_when_it_ends(
        self, own: OwnStack, begin: tuple[str, str], over: tuple[str, str]
    ):
        if not own.is_rabbitmq:
            pytest.skip("Redis has no alarms")
        assert own.job(own.hand_in("before-alarm"), wait_s=20)["status"] == "succeeded"
        _until(own.answers, within_s=20)
        assert own.delayed is None
        own.broker.control(*begin)
        try:
            jobs = [own.hand_in(f"in-alarm-{number}") for number in range(6)]
            assert own.delayed == REASON
            readiness = own.readiness()
            assert readiness["status"] == "not_ready"
            assert readiness["dependencies"]["broker"]["detail"].endswith(ALARM)
            assert own.doctor()["broker"]["detail"].endswith(ALARM)
            refused = [own.submit() for _ in range(4)]
            assert own.answers(), "the worker answers its host"
            time.sleep(1.5)  # it is tried again
            refused += [own.submit() for _ in range(2)]
            jobs += [own.hand_in(f"later-in-alarm-{number}") for number in range(2)]
        finally:
            own.broker.control(*over)
        back = time.monotonic()
        for answer in refused:
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable"), answer.text
            assert answer.json()["detail"] == REASON
        _until(own.answers, within_s=10)
        assert {own.job(job, wait_s=20)["status"] for job in jobs} == {"succeeded"}
        _until(lambda: own.swept_since(back), within_s=10)
        assert "broker" not in own.failing()


@pytest.mark.thorough
@pytest.mark.timeout(200)
class DescribeAWorkerThatIsEndedInTheMiddle:
    @pytest.mark.parametrize("pool", ["threads", "prefork"])
    def it_hands_back_what_it_has_not_begun_and_each_document_is_finished_once(self, own: OwnStack, pool: str):
        end(own.worker, signal.SIGTERM)
        own.worker = own.start_worker(pool)
        job_id = half_done(own.client, f"in-the-middle-{pool}", DOCUMENTS)
        own.worker.send_signal(signal.SIGTERM)
        assert own.worker.wait(timeout=30) == 0
        job = own.job(job_id, wait_s=0)
        assert job["succeeded"] < DOCUMENTS
        assert own.metric('chordwise_queue_messages{queue="ingest"}') > 0
        own.worker = own.start_worker("threads")
        job = finished(own.client, job_id, wait_s=60)
        assert (job["status"], job["succeeded"], job["failed"]) == ("succeeded", DOCUMENTS, 0)
        assert_whole(own.client, job["namespace"], documents=DOCUMENTS, chunks=job["chunks"])
        with own.use.mysql.connect() as connection:
            assert tuple(connection.execute(_ATTEMPTS, {"job": job_id}).one()) == (DOCUMENTS, 1, 1)


@pytest.mark.timeout(200)
class DescribeAWorkerWhoseFormerConnectionIsOpen:
    @pytest.mark.thorough
    def it_works_beside_it(self, own: OwnStack):
        """RabbitMQ keeps the control queue of a worker whose node was lost for that connection; here another worker of the
        same name has it."""
        former, own.worker = own.worker, own.start_worker("threads")
        assert own.job(own.hand_in("beside"), wait_s=20)["status"] == "succeeded"
        end(former, signal.SIGTERM)
        assert own.worker.poll() is None
        assert own.job(own.hand_in("afterwards"), wait_s=20)["status"] == "succeeded"


@pytest.mark.timeout(200)
class DescribeAWorkerThatIsStopped:
    def it_is_missing_within_seconds_and_counts_again_when_it_goes_on(self, own: OwnStack):
        os.killpg(own.worker.pid, signal.SIGSTOP)
        try:
            _until(lambda: set(QUEUES) <= own.unsound(), within_s=4)
            found = own.readiness()
            assert found["status"] == "not_ready"
            assert found["dependencies"]["queue:recall"]["detail"].startswith("no worker listens to it")
            assert found["dependencies"]["queue:recall"]["workers"] == 0
            assert 'chordwise_queue_workers{queue="recall"} 0.0' in own.client.get("/v1/metrics").text
            findings = own.doctor()
            assert {findings[queue]["severity"] for queue in QUEUES} == {"failed"}
        finally:
            os.killpg(own.worker.pid, signal.SIGCONT)
        _until(lambda: not set(QUEUES) & own.unsound(), within_s=2)

    def it_counts_what_waits_for_it(self, own: OwnStack):
        os.killpg(own.worker.pid, signal.SIGSTOP)
        try:
            jobs = [own.hand_in(f"waits-{number}") for number in range(8)]  # more than RabbitMQ sends to it unasked
            _until(lambda: own.metric('chordwise_queue_oldest_seconds{queue="ingest"}') > 2, within_s=30)
            assert own.metric('chordwise_queue_messages{queue="ingest"}') > 0
        finally:
            os.killpg(own.worker.pid, signal.SIGCONT)
        assert {own.job(job, wait_s=20)["status"] for job in jobs} == {"succeeded"}
        _until(lambda: own.metric('chordwise_queue_oldest_seconds{queue="ingest"}') == 0, within_s=10)
        page = own.client.get("/v1/metrics").text
        assert 'chordwise_queue_messages{queue="ingest"} 0.0' in page
        assert "chordwise_queue_unacked " in page
        assert "chordwise_last_sweep_timestamp_seconds " in page
