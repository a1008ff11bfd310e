"""MySQL and PostgreSQL that stop answering without closing a connection: every wait of ours ends, of every kind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, make_url, text

from pipeline.database import worker_heartbeats
from pipeline.database.engines import LockHeld, mysql_engine, mysql_errors, postgres_engine, postgres_errors
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.database.worker_heartbeats import SIGN_EVERY_S
from pipeline.errors import OutcomeUnknown, StoreUnavailable
from pipeline.resources import Resources
from pipeline.semantic.vector_index_store import index_builder
from pipeline.settings import Settings
from tests.conftest import databases_of_its_own
from tests.support.clients.operating import eventually
from tests.support.corpora.documents import finished
from tests.support.servers.proxy import Proxy
from tests.support.stacks.frozen_work import FrozenWork, check, shown
from tests.support.stacks.own_installation import ADMIN_KEY, OwnInstallation, own_installation

SILENT_S = 1.0
_LATE_S = 3.5  # two seconds are the shortest connection timeout of PostgreSQL's driver


@pytest.fixture
def proxies(settings: Settings) -> Iterator[dict[str, Proxy]]:
    with ExitStack() as whole:
        urls = {"mysql": settings.mysql_url, "postgres": settings.postgres_url}
        made = {name: make_url(url.get_secret_value()) for name, url in urls.items()}
        yield {name: whole.enter_context(Proxy(url.host or "", url.port or 0)) for name, url in made.items()}


@pytest.fixture
def near(settings: Settings, proxies: dict[str, Proxy]) -> Settings:
    """Settings whose servers are behind the proxies."""

    def through(url: SecretStr, name: str) -> SecretStr:
        moved = make_url(url.get_secret_value()).set(host="127.0.0.1", port=proxies[name].port)
        return SecretStr(moved.render_as_string(hide_password=False))

    return settings.model_copy(
        update={
            "mysql_url": through(settings.mysql_url, "mysql"),
            "postgres_url": through(settings.postgres_url, "postgres"),
        }
    )


@pytest.fixture(params=["mysql", "postgres"])
def server(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def engine(server: str, near: Settings) -> Iterator[Engine]:
    made = (mysql_engine if server == "mysql" else postgres_engine)(near, silent_s=SILENT_S)
    yield made
    made.dispose()


@contextmanager
def ends_in_time(server: str, within_s: float = SILENT_S + _LATE_S) -> Iterator[None]:
    """The block raises StoreUnavailable, soon, although a statement may take 30 seconds."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable), mysql_errors() if server == "mysql" else postgres_errors():
        yield
    assert time.monotonic() - began < within_s


class DescribeALostConnection:
    def it_is_an_outage_also_if_the_check_of_the_tenant_meets_it_first(self, near, proxies):
        """The engine asks for the tenant before it inserts anything of it."""
        insert = text("INSERT INTO feedback (tenant_id) VALUES (:tenant)")
        with closing(Resources(near)) as use, mysql_errors(), use.mysql.connect() as connection:
            connection.execute(text("SELECT 1"))
            proxies["mysql"].cut()
            with pytest.raises(StoreUnavailable), mysql_errors():
                connection.execute(insert, {"tenant": "t"})


class DescribeAFrozenServer:
    def it_ends_a_statement_in_the_middle_of_a_transaction(self, server, engine, proxies):
        with ends_in_time(server), engine.begin() as connection:
            connection.execute(text("SELECT 1"))
            proxies[server].freeze()
            connection.execute(text("SELECT 1"))

    def it_ends_a_commit(self, server, engine, proxies):
        with ends_in_time(server), engine.begin() as connection:
            connection.execute(text("SELECT 1"))
            proxies[server].freeze()

    def it_ends_what_sends_more_than_the_system_buffers(self, server, engine, proxies):
        with ends_in_time(server), engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            proxies[server].freeze()
            connection.execute(text("SELECT LENGTH(:long)"), {"long": "x" * 12_000_000})

    def it_ends_the_use_of_a_pooled_connection_and_refuses_the_next_at_once(self, server, engine, proxies):
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
        proxies[server].freeze()
        with ends_in_time(server), engine.connect():
            pass
        with ends_in_time(server, 0.3), engine.connect():
            pass
        proxies[server].heal()
        time.sleep(0.6)
        with engine.connect() as connection:
            assert connection.execute(text("SELECT 1")).scalar_one() == 1

    def it_ends_a_login(self, server, engine, proxies):
        proxies[server].freeze()
        with ends_in_time(server), engine.connect():
            pass

    def it_ends_a_copy_to_postgres(self, near, proxies):
        engine = postgres_engine(near, silent_s=SILENT_S)
        with ends_in_time("postgres"), engine.connect() as connection:
            connection.execute(text("CREATE TEMPORARY TABLE copied (t text)"))
            cursor = connection.connection.cursor()
            with cursor.copy("COPY copied FROM STDIN") as copy:
                proxies["postgres"].freeze()
                copy.write(b"x" * 1000 + b"\n")
        engine.dispose()


class DescribeACommitWithoutAnAnswer:
    def it_is_told_from_a_change_that_was_not_made(self, near, proxies):
        def change() -> None:
            with unit_of_work(engine) as work:
                work.connection.execute(text("SELECT 1"))
                proxies["mysql"].freeze()

        engine = mysql_engine(near, silent_s=SILENT_S)
        with pytest.raises(OutcomeUnknown, match="no answer to a commit"):
            change()
        engine.dispose()


FROZEN_S, DOCUMENTS = 120.0, 1000
_WHOLE_WITHIN_S = 240.0  # after the thaw


@pytest.fixture(scope="module")
def installation(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnInstallation]:
    with own_installation(settings, tmp_path_factory.mktemp("frozen")) as found:
        yield found


@pytest.mark.thorough
@pytest.mark.timeout(900)
class DescribeWorkWhileAServerIsFrozen:
    """The column of the matrix of outages: a server is frozen in the middle of an ingestion, for two minutes in which
    every kind of work is begun again and again."""

    @pytest.mark.parametrize("part", ["mysql", "postgres", "redis"])
    def it_ends_every_kind_of_work_in_time_and_loses_nothing_accepted(self, installation: OwnInstallation, part: str):
        work = FrozenWork(
            installation.client, ADMIN_KEY, installation.use.settings, installation.worker_logs, installation.folder
        )
        cells = work.watch(installation.servers[part], part, seconds=FROZEN_S, documents=DOCUMENTS)
        print(f"\n{shown(part, cells)}")  # noqa: T201  # the figures of the matrix, with -s
        check(cells, part)
        ends = time.monotonic() + _WHOLE_WITHIN_S
        for job_id in work.jobs:
            job = finished(installation.client, job_id, wait_s=ends - time.monotonic())
            assert (job["status"], job["failed"]) == ("succeeded", 0), job
        report = installation.client.post("/v1/verify", json={}).json()
        assert (report["missing"], report["orphaned"], report["stale"]) == (0, 0, 0), report
        eventually(lambda: set(installation.client.get("/readyz").json()["failing"]) <= {"disk_space"}, within_s=60)


class DescribeAServerThatWorksForLong:
    def it_is_waited_for(self, server, engine):
        slow = "SELECT SLEEP(1.7)" if server == "mysql" else "SELECT pg_sleep(1.7)"
        with engine.connect() as connection:
            connection.execute(text(slow))


class DescribeAServerThatGreetsAndIsSlow:
    """A busy host: the greeting comes in time, the rest of a login does not."""

    def it_is_waited_for_and_others_may_connect(self, server, near, proxies):
        made = (mysql_engine if server == "mysql" else postgres_engine)(near, silent_s=3.0)
        slow = "SELECT SLEEP(1)" if server == "mysql" else "SELECT pg_sleep(1)"
        with made.connect() as connection:
            connection.execute(text("SELECT 1"))
            proxies[server].slow(0.9)
            connection.execute(text(slow))
            proxies[server].heal()
            with made.connect() as other:
                assert other.execute(text("SELECT 1")).scalar_one() == 1
        made.dispose()


class DescribeATableThatAnotherSessionHasLocked:
    def it_is_waited_for_less_than_a_caller_waits_and_not_again(self, settings: Settings):
        @retry_conflicts()
        def write() -> None:
            with unit_of_work(engine) as work:
                work.connection.execute(text("UPDATE tenants SET name = name WHERE tenant_id = 'nobody'"))

        with databases_of_its_own(settings) as use:
            engine = mysql_engine(use.settings, silent_s=3.0)
            with use.mysql.connect() as holder:
                holder.exec_driver_sql("LOCK TABLES tenants WRITE")
                began = time.monotonic()
                with pytest.raises(LockHeld, match="held a lock"):
                    write()
                took_s = time.monotonic() - began
                holder.exec_driver_sql("UNLOCK TABLES")
            write()
            engine.dispose()
        assert took_s < 3.0

    def it_keeps_an_indexer_for_less_time_than_a_process_may_be_silent(self, settings: Settings):
        engine = mysql_engine(settings, reading=True)
        with engine.connect() as connection:
            waited_s = connection.execute(text("SELECT @@lock_wait_timeout")).scalar_one()
        engine.dispose()
        assert waited_s + 2 * SIGN_EVERY_S < worker_heartbeats.SILENT_S


class DescribeABuildWithoutALimit:
    def it_ends_once_the_server_greets_nobody(self, near, proxies):
        with ends_in_time("postgres"), index_builder(postgres_engine(near), silent_s=SILENT_S) as builder:
            assert builder is not None
            proxies["postgres"].freeze()
            builder.existing()


class DescribeIdleConnections:
    @pytest.mark.parametrize("reading", [True, False])
    def it_replaces_those_that_the_server_has_closed(self, server, near, proxies, reading):
        make: Callable[..., Engine] = mysql_engine if server == "mysql" else postgres_engine
        engine = make(near, timeout_s=1.0, reading=reading)
        with engine.connect(), engine.connect():
            pass
        proxies[server].cut()
        proxies[server].heal()
        with engine.connect() as first, engine.connect() as second:
            assert [each.execute(text("SELECT 1")).scalar_one() for each in (first, second)] == [1, 1]
        engine.dispose()
