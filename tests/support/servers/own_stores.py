"""A MariaDB, a MySQL or a PostgreSQL of a test's own, with options that the shared one cannot have."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from compose.localstack import programs
from compose.localstack.places import StackFolder
from compose.localstack.processes import Program
from compose.localstack.servers import mariadb, postgres
from tests.support.servers import mysql
from tests.support.servers.brokers import OwnServer
from tests.support.stacks.processes import free_port

FEW_MB = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M")


@contextmanager
def own_mariadb(folder: Path, *options: str, password: str = "") -> Iterator[OwnServer]:
    """Run a MariaDB with ``options`` of its server; its root has the user's password, by default a random one."""
    found = programs.mariadb()
    assert found is not None, "there is no MariaDB to start"
    stack, password, port = StackFolder("own", local=folder), password or secrets.token_hex(16), free_port()
    stack.make()
    mariadb.prepare(found, stack.data / "mariadb", stack.logs / "mariadb.log")
    program = mariadb.program(found, stack, {"mysql_root": password, "mysql": password}, port=port)
    program = replace(program, command=(*program.command, *FEW_MB, *options))
    with _running(f"mysql+pymysql://chordwise:{password}@127.0.0.1:{port}/chordwise", program) as server:
        yield server


@contextmanager
def own_mysql(folder: Path, *options: str) -> Iterator[OwnServer]:
    """Run Oracle's MySQL with ``options`` of its server. Raises Failure where it cannot be fetched."""
    stack, password, port = StackFolder("own", local=folder), secrets.token_hex(16), free_port()
    stack.make()
    program = mysql.program(stack, password, port=port)
    program = replace(program, command=(*program.command, *options))
    with _running(f"mysql+pymysql://chordwise:{password}@127.0.0.1:{port}/chordwise", program) as server:
        yield server


@contextmanager
def own_postgres(folder: Path, *, password: str = "", **settings: str) -> Iterator[OwnServer]:
    """Run a PostgreSQL with ``settings`` of its server; its superuser has the user's password, by default a random one."""
    stack, port = StackFolder(f"own-{secrets.token_hex(4)}", local=folder), free_port()
    password = password or secrets.token_hex(16)
    stack.make()
    home = postgres.home(stack)
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    try:
        postgres.prepare(home, {"postgres_superuser": password, "postgres": password}, stack.logs / "postgres.log")
        program = postgres.program(home, stack, port=port)
        program = replace(program, command=(*program.command, "-c", "shared_buffers=16MB", *options))
        with _running(f"postgresql+psycopg://chordwise:{password}@127.0.0.1:{port}/chordwise", program) as server:
            yield server
    finally:
        if home.outside is not None:
            postgres.remove_outside(stack)


@contextmanager
def _running(url: str, program: Program) -> Iterator[OwnServer]:
    server = OwnServer(url, program)
    try:
        server.start()
        yield server
    finally:
        server.close()
