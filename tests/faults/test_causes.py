"""The table of causes in docs/troubleshooting.md: what `/readyz` and the doctor name when one thing is wrong."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

import pytest
import redis
from sqlalchemy import create_engine, exc, make_url
from sqlalchemy.pool import NullPool

from pipeline.settings import Settings
from tests.conftest import make_tenant
from tests.support.clients.operating import eventually
from tests.support.servers.administration import run_as
from tests.support.servers.openai_answers import refused
from tests.support.servers.openai_server import OpenAIServer
from tests.support.stacks.own_installation import OwnInstallation, own_installation

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

_DIMENSION = 64
_MB = 1_000_000


@pytest.fixture(scope="module")
def model() -> Iterator[OpenAIServer]:
    with OpenAIServer(dimension=_DIMENSION) as found:
        yield found


@pytest.fixture(scope="module")
def installation(
    settings: Settings, model: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OwnInstallation]:
    embedded = {"embedding_provider": "openai", "embedding_model": "hashed", "embedding_dim": _DIMENSION}
    variables = {f"CHORDWISE_{name.upper()}": str(value) for name, value in embedded.items()}
    service = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "not-a-real-key"}
    with (
        pytest.MonkeyPatch.context() as patched,
        own_installation(
            settings.model_copy(update=embedded),
            tmp_path_factory.mktemp("causes"),
            disks={"redis": 60},
            **variables,
            **service,
        ) as found,
    ):
        for name, value in service.items():
            patched.setenv(name, value)
        text = {"document_id": "d", "text": "A red fox sleeps in its den."}
        found.client.post("/v1/documents", json={"namespace": "kb", "documents": [text]}).raise_for_status()
        yield found


@contextmanager
def _mysql(installation: OwnInstallation, wrong: str, right: str) -> Iterator[None]:
    """Change the user of MySQL, and end its connections."""
    root = make_url(installation.servers["mysql"].url).set(username="root")

    def change(statement: str) -> None:
        run_as(root, statement)
        with suppress(exc.DBAPIError):  # it says so where there is none
            run_as(root, "KILL CONNECTION USER chordwise")

    change(wrong)
    try:
        yield
    finally:
        change(right)


@contextmanager
def _postgres(installation: OwnInstallation, wrong: str, right: str) -> Iterator[None]:
    """Change the role of PostgreSQL, and end its connections."""
    superuser = make_url(installation.servers["postgres"].url).set(username="postgres")
    run_as(superuser, wrong, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'chordwise'")
    try:
        yield
    finally:
        run_as(superuser, right)


def _mysql_password(installation: OwnInstallation) -> AbstractContextManager[None]:
    password = make_url(installation.servers["mysql"].url).password
    return _mysql(
        installation,
        "ALTER USER chordwise@'127.0.0.1' IDENTIFIED BY 'another'",
        f"ALTER USER chordwise@'127.0.0.1' IDENTIFIED BY '{password}'",
    )


@contextmanager
def _mysql_connections(installation: OwnInstallation) -> Iterator[None]:
    """Hold the only connection that the user of MySQL may have."""
    limit = "ALTER USER chordwise@'127.0.0.1' WITH MAX_USER_CONNECTIONS {}"
    url = make_url(installation.servers["mysql"].url)
    engine = create_engine(url, poolclass=NullPool)
    with _mysql(installation, limit.format(1), limit.format(0)), ExitStack() as held:

        def hold() -> bool:
            with suppress(exc.DBAPIError):
                held.enter_context(engine.connect())
                return True
            with suppress(exc.DBAPIError):
                run_as(url.set(username="root"), "KILL CONNECTION USER chordwise")
            return False

        eventually(hold, within_s=30)
        yield


def _postgres_password(installation: OwnInstallation) -> AbstractContextManager[None]:
    password = make_url(installation.servers["postgres"].url).password
    return _postgres(
        installation, "ALTER ROLE chordwise PASSWORD 'another'", f"ALTER ROLE chordwise PASSWORD '{password}'"
    )


def _postgres_connections(installation: OwnInstallation) -> AbstractContextManager[None]:
    return _postgres(
        installation, "ALTER ROLE chordwise CONNECTION LIMIT 0", "ALTER ROLE chordwise CONNECTION LIMIT -1"
    )


@contextmanager
def _redis_password(installation: OwnInstallation) -> Iterator[None]:
    url = make_url(installation.servers["redis"].url)
    with redis.Redis.from_url(installation.servers["redis"].url) as client:
        client.config_set("requirepass", "another")
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_kill_filter(_type="pubsub")
        try:
            yield
        finally:
            client.config_set("requirepass", str(url.password))


@contextmanager
def _full(installation: OwnInstallation) -> Iterator[None]:
    """Fill the disk of Redis."""
    filler = installation.folder / "redis" / "filler"
    free = os.statvfs(filler.parent)
    with filler.open("wb") as file, suppress(OSError):
        for _ in range(free.f_bavail * free.f_frsize // _MB + 1):
            file.write(b"x" * _MB)
            file.flush()
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def _clock_frozen(installation: OwnInstallation) -> Iterator[None]:
    os.killpg(installation.processes["clock"].pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(installation.processes["clock"].pid, signal.SIGCONT)


# By fault: how it is made, the only cause that readiness and the doctor name, and words of its sentence.
CELLS: dict[str, tuple[Callable[[OwnInstallation], AbstractContextManager[None]], str, str]] = {
    "MySQL refuses the password": (_mysql_password, "mysql", "the password is wrong"),
    "MySQL has no connection left": (_mysql_connections, "mysql", "MAX_USER_CONNECTIONS"),
    "PostgreSQL refuses the password": (_postgres_password, "postgres", "password authentication failed"),
    "PostgreSQL has no connection left": (_postgres_connections, "postgres", "CONNECTION LIMIT"),
    "Redis refuses the password": (_redis_password, "redis", "password is wrong"),
    "the disk of Redis is full": (_full, "redis", "cannot write to its disk"),
    "the clock is frozen": (_clock_frozen, "workers_silent", "clock"),
}


class DescribeTheTableOfCauses:
    @pytest.mark.parametrize("cell", CELLS)
    def it_names_one_cause(self, installation: OwnInstallation, cell: str):
        break_, cause, words = CELLS[cell]
        eventually(lambda: installation.readiness()["failing"] == [], within_s=60)
        with break_(installation):
            eventually(lambda: cause in installation.readiness()["failing"], within_s=45)
            body = installation.readiness()
            findings = installation.findings()
        causes = [name for name, each in findings.items() if each["severity"] != "ok" and not each.get("cause")]
        assert (body["failing"], causes) == ([cause], [cause]), (body, findings)
        assert words in findings[cause]["detail"]

    def it_names_an_embedding_service_that_is_down(self, installation: OwnInstallation, model: OpenAIServer):
        eventually(lambda: installation.readiness()["failing"] == [], within_s=60)
        keys = [make_tenant(installation.use)[1] for _ in range(2)]
        for key in keys:
            headers = {"Authorization": f"Bearer {key}"}
            body = {"namespace": "kb", "documents": [{"document_id": "d", "text": "A red fox."}]}
            installation.client.post("/v1/documents", json=body, headers=headers).raise_for_status()
        model.always["embeddings"] = refused(503)
        try:
            model_line = installation.findings()["model"]
            assert installation.readiness()["failing"] == []  # no query has failed yet
            for number in range(12):  # of two tenants: what one of them alone loses is its own matter
                body = {"query_text": f"fox {number}", "namespaces": ["kb"]}
                for key in keys:
                    headers = {"Authorization": f"Bearer {key}"}
                    answer = installation.client.post("/v1/rag/query", json=body, headers=headers).json()
            eventually(lambda: installation.readiness()["failing"] != [], within_s=10)
            ready, after = installation.readiness(), installation.findings()
        finally:
            del model.always["embeddings"]
        assert "the embedding model or PostgreSQL" in str(answer["stats"]["degradations"])
        assert model_line["severity"] == "failed"
        assert ready["failing"] == ["circuits"]
        assert after["circuits"]["cause"] == "model"
        eventually(lambda: installation.readiness()["failing"] == [], within_s=60)


class DescribeAServerWithTooLittleOfSomething:
    def it_names_a_small_packet_to_the_caller_and_to_the_operator(self, installation: OwnInstallation):
        small = _mysql(
            installation, "SET GLOBAL max_allowed_packet = 65536", "SET GLOBAL max_allowed_packet = 268435456"
        )
        with small:
            document = {"document_id": "long", "text": "A red fox. " * 20_000}
            answer = installation.client.post("/v1/documents", json={"namespace": "kb", "documents": [document]})
            finding = installation.findings()["mysql_packet"]
        assert (answer.status_code, answer.json()["code"]) == (413, "statement_too_large"), answer.text
        assert "MySQL takes statements of 65,536 bytes (max_allowed_packet), and " in answer.json()["detail"]
        assert (finding["severity"], finding["detail"][:39]) == ("warning", "max_allowed_packet is 65,536 bytes, the")

    def it_names_a_locked_table_within_three_seconds_and_stores_nothing(self, installation: OwnInstallation):
        root = make_url(installation.servers["mysql"].url).set(username="root")
        engine = create_engine(root)
        document = {"document_id": "locked", "text": "A red fox."}
        body = {"namespace": "locked", "documents": [document]}
        with engine.connect() as holder:
            holder.exec_driver_sql("LOCK TABLES jobs WRITE")
            answer = installation.client.post("/v1/documents", json=body)
            holder.exec_driver_sql("UNLOCK TABLES")
        engine.dispose()
        assert answer.status_code == 503, answer.text
        assert answer.json()["detail"].endswith("another statement holds it; nothing was accepted.")
        assert answer.elapsed.total_seconds() < 3.5
        assert installation.client.get("/v1/documents", params={"namespace": "locked"}).json()["data"] == []
        assert installation.client.post("/v1/documents", json=body).status_code == 202

    @pytest.mark.parametrize(
        ("fault", "said"),
        [
            ("locks", "another transaction held a lock for too long"),
            ("read only", "the server takes no writes (read_only"),
        ],
    )
    def it_names_a_mysql_that_takes_no_writes_as_the_one_cause(
        self, installation: OwnInstallation, fault: str, said: str
    ):
        eventually(lambda: installation.readiness()["failing"] == [], within_s=60)
        engine = create_engine(make_url(installation.servers["mysql"].url).set(username="root"))
        with engine.connect() as holder:
            tables = [row[0] for row in holder.exec_driver_sql("SHOW TABLES")]
            locks = "LOCK TABLES " + ", ".join(f"`{name}` WRITE" for name in tables)
            holder.exec_driver_sql(locks if fault == "locks" else "SET GLOBAL read_only = ON")
            found = installation.findings()
            holder.exec_driver_sql("UNLOCK TABLES" if fault == "locks" else "SET GLOBAL read_only = OFF")
        engine.dispose()
        assert said in found["mysql"]["detail"]
        failed = {name for name, each in found.items() if each["severity"] == "failed" and not each["cause"]}
        assert failed == {"mysql"}
        assert found["schema"]["detail"] == "cannot be judged while MySQL cannot be used"

    def it_names_postgresql_in_the_answers_that_find_no_connection(self, installation: OwnInstallation):
        def ask(number: int) -> dict[str, str]:
            body = {"query_text": f"red fox number {number}", "namespaces": ["kb"]}
            found = installation.client.post("/v1/rag/query", json=body).json()
            assert found["status"] == "succeeded", found
            return {each["part"]: each["detail"] for each in found["stats"]["degradations"]}

        eventually(lambda: not ask(0), within_s=60)
        few = _postgres(
            installation, "ALTER ROLE chordwise CONNECTION LIMIT 1", "ALTER ROLE chordwise CONNECTION LIMIT -1"
        )
        with few, ThreadPoolExecutor(8) as pool:
            lost = [each for each in pool.map(ask, range(24)) if each]
        assert lost
        named = {each["semantic"] for each in lost}
        assert all("PostgreSQL" in sentence for sentence in named), named
        assert "PostgreSQL has no connection left" in named
