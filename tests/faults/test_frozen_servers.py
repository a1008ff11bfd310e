"""MySQL and PostgreSQL that stop answering without closing a connection: every wait of ours ends, of every kind."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, make_url, text

from pipeline.database.engines import mysql_engine, mysql_errors, postgres_engine, postgres_errors
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import OutcomeUnknown, StoreUnavailable
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.back_up import back_up
from pipeline.maintenance.build_indexes import keep_indexes
from pipeline.maintenance.sweep import sweep
from pipeline.records import JobId, TenantId
from pipeline.resources import Resources
from pipeline.semantic.vector_index_store import index_builder
from pipeline.settings import Settings
from tests.support.servers.proxy import Proxy
from tests.support.stacks.one_job import ingest_batch

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


# Work that a process does without a caller who waits. Each ends with StoreUnavailable.
WORK: dict[str, Callable[[Resources, Path], object]] = {
    "ingestion": lambda use, _: ingest_batch(TenantId("nobody"), JobId(str(uuid.uuid4())), use, ring=lambda *_: None),
    "sweep": lambda use, _: sweep(use, ring=lambda *_: None),
    "vector indexes": lambda use, _: keep_indexes(use),
    "verify": lambda use, _: use.installation.confirm(),
    "migrate": lambda use, _: migrate_schema.main(["upgrade"], use.settings),
    "backup": lambda use, folder: back_up(use.settings, folder / "backup"),
}
_ONLY_MYSQL = {"ingestion", "sweep"}  # they come to PostgreSQL only with work to do
_WORK_ENDS_S = 60.0  # with the default patience of ten seconds for each of the connections that it makes


@pytest.mark.thorough
@pytest.mark.timeout(300)
class DescribeWorkWhileAServerIsFrozen:
    """The column of the matrix of outages: two minutes, in which each kind of work is begun again and again."""

    def it_ends_every_kind_of_work_in_time(self, server, near, proxies, tmp_path: Path):
        def run(name: str) -> None:
            while time.monotonic() < ends:
                began = time.monotonic()
                with closing(Resources(near, silent_s=SILENT_S)) as use, suppress(StoreUnavailable):
                    WORK[name](use, tmp_path / name)
                took[name] = max(took.get(name, 0.0), time.monotonic() - began)
                time.sleep(0.5)

        took: dict[str, float] = {}
        proxies[server].freeze()
        ends = time.monotonic() + 120
        names = [name for name in WORK if server == "mysql" or name not in _ONLY_MYSQL]
        with ThreadPoolExecutor(len(names)) as pool:
            for future in [pool.submit(run, name) for name in names]:
                future.result()
        assert set(took) == set(names)
        assert max(took.values()) < _WORK_ENDS_S, took


class DescribeAServerThatWorksForLong:
    def it_is_waited_for(self, server, engine):
        slow = "SELECT SLEEP(1.7)" if server == "mysql" else "SELECT pg_sleep(1.7)"
        with engine.connect() as connection:
            connection.execute(text(slow))


class DescribeABuildWithoutALimit:
    def it_ends_once_the_server_greets_nobody(self, near, proxies, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("pipeline.semantic.vector_index_store.SILENT_S", SILENT_S)
        engine = postgres_engine(near)
        with ends_in_time("postgres"), index_builder(engine) as builder:
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
