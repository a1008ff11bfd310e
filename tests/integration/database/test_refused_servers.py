"""Servers that are too old, or that have no connection left: one sentence names the reason."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect
from sqlalchemy.exc import OperationalError

from pipeline.maintenance import migrate_schema
from pipeline.settings import Settings
from tests.faults.test_unfit_servers import moved
from tests.support.servers.own_stores import own_mariadb, own_postgres

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(300)]


def tables_of(url: str) -> list[str]:
    """Return the tables of a database."""
    engine = create_engine(url)
    try:
        return inspect(engine).get_table_names()
    finally:
        engine.dispose()


@contextmanager
def all_connections(url: str) -> Iterator[None]:
    """Hold every connection that the server gives to this user."""
    engine = create_engine(url, poolclass=NullPool)
    with ExitStack() as held:
        with suppress(OperationalError):
            for _ in range(50):
                held.enter_context(engine.connect())
            pytest.fail("the server has a connection for everybody")
        yield


class DescribeAnOldMysql:
    @pytest.mark.parametrize(
        ("version", "sentence"),
        [
            (
                "10.5.29-MariaDB",
                "the server is MariaDB 10.5.29-MariaDB, but MariaDB 10.6 or newer is needed; upgrade it",
            ),
            ("5.7.19", "the server is MySQL 5.7.19, but MySQL 8.0 or newer is needed; upgrade it"),
        ],
    )
    def it_is_refused_before_anything_is_written(
        self, settings: Settings, tmp_path: Path, capsys, version: str, sentence: str
    ):
        with own_mariadb(tmp_path, f"--version={version}") as mysql, moved(settings, mysql=mysql.url) as own:
            for action in ("check", "upgrade"):
                assert migrate_schema.main([action], own) == 1
                assert sentence in capsys.readouterr().err
            assert tables_of(mysql.url) == []


class DescribeAServerWithoutAConnectionLeft:
    def it_is_named_with_its_limit_and_used_when_one_is_free(self, settings: Settings, tmp_path: Path, capsys):
        with ExitStack() as whole:
            mysql = whole.enter_context(own_mariadb(tmp_path / "mysql", "--max-connections=10"))
            postgres = whole.enter_context(own_postgres(tmp_path / "postgres", max_connections="12"))
            own = whole.enter_context(moved(settings, mysql=mysql.url, postgres=postgres.url))
            assert migrate_schema.main(["upgrade"], own) == 0
            for server, words in ((mysql, "Too many connections"), (postgres, "connection slots")):
                with all_connections(server.url):
                    capsys.readouterr()
                    assert migrate_schema.main(["check"], own) == 1
                    line = capsys.readouterr().err
                    assert words in line
                    assert "max_connections of the server, or lower CHORDWISE_" in line
                assert migrate_schema.main(["check"], own) == 0
