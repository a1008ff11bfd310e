"""Compose's roles on servers secured like an operator's: TLS with certificates of a private authority, users with few
rights, and passwords with every kind of character."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import redis

from compose.localstack import programs
from pipeline.database.redis_checks import check_redis
from pipeline.errors import Misconfigured, StoreMisconfigured, StoreUnavailable
from pipeline.resources import Resources
from pipeline.settings import load
from tests.conftest import make_tenant
from tests.support.corpora.documents import document, upload
from tests.support.repository.project import interpolated
from tests.support.servers import certificates
from tests.support.servers.administration import as_mysql_root, as_postgres_superuser, mysql_url, postgres_url
from tests.support.servers.certificates import Certificates
from tests.support.stacks.processes import ROOT, free_port, process, wait_for_http, wait_for_log, worker
from workers.names import Queue

pytestmark = pytest.mark.timeout(300)  # five processes start, on a machine that may be busy

PASSWORD = "p@ss/w#rd%41:?& x"
REDIS_ACL = "~* &* +@all -@admin -@dangerous"  # docs/install.md


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """A Redis that accepts only TLS, with a user of few rights."""

    port: int
    files: Certificates
    command_line: str

    def url(self, *, authority: Path | None = None, client: bool = True) -> str:
        """Return its address without a password, as an operator writes it."""
        query = f"ssl_ca_certs={authority or self.files.authority}"
        if client:
            query += f"&ssl_certfile={self.files.client}&ssl_keyfile={self.files.client_key}"
        return f"rediss://chordwise@127.0.0.1:{self.port}/0?{query}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Guarded]:
    """compose's start.sh with compose's redis.conf, and TLS added as an operator would."""
    found = programs.redis()
    if found is None:
        pytest.skip("no Redis is installed here: the suite runs on somebody else's")
    folder = tmp_path_factory.mktemp("guarded")
    files, port = certificates.make(folder), free_port()
    settings = folder / "redis.conf"
    shipped = (ROOT / "compose/redis/redis.conf").read_text(encoding="utf-8").replace("dir /data", f"dir {folder}")
    digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
    settings.write_text(
        f"{shipped}\nbind 127.0.0.1\nport 0\ntls-port {port}\ntls-cert-file {files.server}\n"
        f"tls-key-file {files.server_key}\ntls-ca-cert-file {files.authority}\n"
        f"user chordwise on #{digest} {REDIS_ACL}\n",
        encoding="utf-8",
    )
    path = f"{found.server.parent}:{os.environ['PATH']}"
    server = subprocess.Popen(
        ["sh", str(ROOT / "compose/redis/start.sh"), str(settings)],
        env={**os.environ, **found.environment, "PATH": path, "REDIS_RUN_DIR": str(folder), "REDISCLI_AUTH": PASSWORD},
        stdout=subprocess.DEVNULL,
    )
    administrator = redis.Redis(
        port=port,
        password=PASSWORD,
        ssl=True,
        ssl_ca_certs=str(files.authority),
        ssl_certfile=str(files.client),
        ssl_keyfile=str(files.client_key),
    )
    for _ in range(100):
        try:
            administrator.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    yield Guarded(port=port, files=files, command_line=Path(f"/proc/{server.pid}/cmdline").read_text(encoding="utf-8"))
    administrator.close()
    server.terminate()
    server.wait(10)


@pytest.fixture(scope="module")
def variables(use_alone: Resources, guarded: Guarded) -> Iterator[dict[str, str]]:
    """Yield the variables of .env: addresses without passwords, and the passwords unencoded."""
    user, settings = f"odd_{uuid.uuid4().hex[:8]}", use_alone.settings
    mysql, postgres = (
        mysql_url(settings, username=user, password=None),
        postgres_url(settings, username=user, password=None),
    )
    as_mysql_root(
        settings,
        f"CREATE USER {user}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'",
        f"GRANT ALL PRIVILEGES ON `{mysql.database}`.* TO {user}@'127.0.0.1'",
    )
    as_postgres_superuser(
        settings,
        f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'",
        f"GRANT ALL ON DATABASE {postgres.database} TO {user}",
        f"GRANT ALL ON SCHEMA public TO {user}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}",
    )
    yield {
        "CHORDWISE_MYSQL_URL": mysql.render_as_string(False),
        "CHORDWISE_POSTGRES_URL": postgres.render_as_string(False),
        "CHORDWISE_REDIS_URL": guarded.url(),
        "MYSQL_PASSWORD": PASSWORD,
        "POSTGRES_PASSWORD": PASSWORD,
        "REDIS_PASSWORD": PASSWORD,
        "FLOWER_BASIC_AUTH": f"operator:{PASSWORD}",
        "CHORDWISE_ADMIN_KEY": "an-operators-key-of-thirty-letters",
        "CHORDWISE_SWEEP_INTERVAL_S": "1",
        "CHORDWISE_QUERY_DEADLINE_MS": "12000",
        "CHORDWISE_RECALL_TIMEOUT_MS": "2000",
    }
    as_mysql_root(settings, f"DROP USER {user}@'127.0.0.1'")
    as_postgres_superuser(settings, f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def environment_of(service: str, variables: dict[str, str], **changes: str) -> dict[str, str]:
    """Return the environment of a compose service, without the addresses of compose's own network."""
    given = interpolated(service, variables)
    return {name: value for name, value in given.items() if "://flower" not in value} | changes


@pytest.fixture(scope="module")
def _nothing_of_the_stack(use_alone: Resources) -> Iterator[None]:
    """Remove the stack's own variables, which processes would inherit."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("CHORDWISE_") and name != "CHORDWISE_STACK_DIR"]:
            patch.delenv(name)
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """The running roles: addresses and logs."""

    gateway: httpx.Client
    operator: httpx.Client
    flower: str
    logs: Path


@pytest.fixture(scope="module")
def running(use_alone: Resources, variables, _nothing_of_the_stack, tmp_path_factory) -> Iterator[Running]:
    """Run the gateway, a worker for all queues, beat and Flower, each with the environment that compose gives it."""
    logs = tmp_path_factory.mktemp("guarded-logs")
    port, flower_port = free_port(), free_port()
    own = {"CHORDWISE_GATEWAY_HOST": "127.0.0.1", "CHORDWISE_GATEWAY_PORT": str(port)}
    _, key = make_tenant(use_alone)
    beat = ["-A", "workers.app", "beat", "-s", str(logs / "schedule"), "--pidfile=", "-l", "INFO"]
    flower = [
        "-A",
        "workers.observer",
        "flower",
        "--address=127.0.0.1",
        f"--port={flower_port}",
        "--enable-events=False",
    ]
    quick = {"ending": signal.SIGKILL}
    with ExitStack() as stack:
        for arguments, log, service, more in (
            (["api_gateway"], "gateway.log", "gateway", own),
            (["celery", *beat], "beat.log", "beat", {}),
            (["celery", *flower], "flower.log", "flower", {}),
        ):
            environment = environment_of(service, variables, **more)
            stack.enter_context(process(*arguments, log=logs / log, **quick, **environment))
        queues = ",".join(Queue)
        environment = environment_of("worker-upkeep", variables)
        stack.enter_context(worker("guarded", queues, log=logs / "worker.log", **quick, **environment))
        wait_for_log(logs / "worker.log", " ready.", seconds=90)
        wait_for_http(f"http://127.0.0.1:{port}/readyz", seconds=90)
        wait_for_http(f"http://127.0.0.1:{flower_port}/healthcheck", seconds=90)
        clients = [
            stack.enter_context(
                httpx.Client(
                    base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {each}"}, timeout=30
                )
            )
            for each in (key, variables["CHORDWISE_ADMIN_KEY"])
        ]
        yield Running(gateway=clients[0], operator=clients[1], flower=f"http://127.0.0.1:{flower_port}", logs=logs)


@pytest.mark.thorough
class DescribeTheProduct:
    def it_ingests_and_answers(self, running: Running):
        job = upload(
            running.gateway, "kb", [document("tea", "绿茶用八十度的水冲泡。"), document("fox", "A red fox sleeps.")]
        )
        assert job["status"] == "succeeded"
        for question, expected in (("red fox", "fox"), ("绿茶 水温", "tea")):
            answer = running.gateway.post("/v1/rag/query", json={"query_text": question, "namespaces": ["kb"]}).json()
            assert answer["status"] == "succeeded"
            assert answer["chunks"][0]["document_id"] == expected
            # On a busy machine an optional part may be late; none may be refused.
            assert [lost for lost in answer["stats"]["degradations"] if lost["code"] != "timeout"] == []

    def it_waits_for_a_job_through_the_wake_channel(self, running: Running):
        sent = running.gateway.post(
            "/v1/documents", json={"namespace": "kb", "documents": [{"document_id": "d", "text": "An owl."}]}
        ).json()
        assert running.gateway.get(f"/v1/jobs/{sent['job_id']}?wait=10").json()["status"] == "succeeded"
        assert "NoPermission" not in (running.logs / "gateway.log").read_text(encoding="utf-8")

    def it_lets_the_clock_send(self, running: Running):
        wait_for_log(running.logs / "beat.log", "Sending due task sweep")
        wait_for_log(running.logs / "worker.log", "upkeep.sweep")

    def it_shows_the_broker_in_flower(self, running: Running):
        page = httpx.get(f"{running.flower}/broker", auth=("operator", PASSWORD))
        assert page.status_code == 200
        assert "ingest" in page.text

    def it_makes_the_doctor_warn_of_what_it_may_not_read(self, running: Running):
        found = {line["check"]: line for line in running.operator.get("/v1/doctor").json()["findings"]}
        for check in ("broker_eviction", "redis_eviction"):
            assert found[check]["severity"] == "warning"
            assert "by hand" in found[check]["advice"]
        assert [line for line in found.values() if line["severity"] == "failed"] == []

    def it_writes_no_password_into_a_log_nor_on_the_command_line_of_redis(self, running: Running, guarded: Guarded):
        logs = "".join(log.read_text(encoding="utf-8", errors="replace") for log in running.logs.glob("*.log"))
        for shown in (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD)):
            assert shown not in logs
            assert shown not in guarded.command_line


@pytest.mark.usefixtures("_nothing_of_the_stack")
class DescribeCertificates:
    def it_says_that_one_is_not_trusted(self, guarded: Guarded):
        stranger = {"redis_url": guarded.url(authority=guarded.files.stranger), "redis_password": PASSWORD}
        with pytest.raises(StoreMisconfigured) as raised:
            check_redis(load(stranger))
        assert str(raised.value) == (
            f"Redis at 127.0.0.1:{guarded.port}: the server's certificate is not trusted (self-signed certificate in"
            " certificate chain); append ?ssl_ca_certs=/path/ca.pem with the CA of this server to CHORDWISE_REDIS_URL"
        )

    def it_says_that_the_password_is_wrong(self, guarded: Guarded):
        with pytest.raises(
            StoreMisconfigured, match=r"the user or the password is wrong; check CHORDWISE_REDIS_URL and CHORD"
        ):
            check_redis(load({"redis_url": guarded.url(), "redis_password": "another"}))

    def it_says_that_the_server_wants_a_certificate_of_ours(self, guarded: Guarded):
        with pytest.raises(StoreUnavailable) as raised:
            check_redis(load({"redis_url": guarded.url(client=False), "redis_password": PASSWORD}))
        assert "CHORDWISE_REDIS_URL" in str(raised.value)

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("service", "command"),
        [
            ("beat", "celery -A workers.app beat -s {folder}/schedule --pidfile="),
            ("worker-upkeep", "celery -A workers.app worker -Q upkeep --pool solo"),
            ("gateway", "api_gateway"),
        ],
    )
    def it_does_not_start_on_one_that_it_cannot_verify(self, guarded: Guarded, variables, service, command, tmp_path):
        changed = {**variables, "CHORDWISE_REDIS_URL": guarded.url(authority=guarded.files.stranger)}
        ended = subprocess.run(
            [sys.executable, "-m", *command.format(folder=tmp_path).split()],
            cwd=ROOT,
            env={**os.environ, **environment_of(service, changed)},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode == 1, said
        assert f"Redis at 127.0.0.1:{guarded.port}: the server's certificate is not trusted" in said
        assert "append ?ssl_ca_certs=/path/ca.pem" in said
        assert "Traceback" not in said

    def it_names_a_file_that_is_not_there(self, guarded: Guarded):
        with pytest.raises(
            Misconfigured, match=r"CHORDWISE_REDIS_URL has ssl_ca_certs, but there is no such file: /no\.pem"
        ):
            load({"redis_url": guarded.url(authority=Path("/no.pem"))})
