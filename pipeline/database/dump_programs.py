"""Dump and load both databases with the servers' own programs. Passwords travel in files of the owner or in the environment,
never on a command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import URL, make_url

from pipeline.errors import BackupFailed, Misconfigured
from pipeline.settings import Settings

_MYSQL_DUMPS, _MYSQL_CLIENTS = ("mariadb-dump", "mysqldump"), ("mariadb", "mysql")
_MYSQL_PORT, _POSTGRES_PORT = 3306, 5432
_TLS_FILES = {"ssl_ca": "ssl-ca", "ssl_cert": "ssl-cert", "ssl_key": "ssl-key"}
_LIBPQ = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
_LAST_LINES = 3  # of a program's complaint


def dump_mysql(settings: Settings, to: Path) -> None:
    """Write a snapshot of MySQL into a file. Raises Misconfigured without a program for it, BackupFailed."""
    program = _found(_MYSQL_DUMPS, "mariadb-client or mysql-client")
    url = make_url(settings.mysql_url.get_secret_value())
    # The application's user has no rights on tablespaces, the whole server's log or its replication positions.
    options = ["--single-transaction", "--quick", "--hex-blob", "--skip-lock-tables", "--no-tablespaces"]
    if "--set-gtid-purged" in _output(
        program, "--help"
    ):  # MySQL's alone: with it the dump cannot be loaded where it came from
        options += ["--set-gtid-purged=OFF", "--column-statistics=0"]
    _run_mysql(program, url, [*options, f"--result-file={to}", str(url.database)])


def load_mysql(settings: Settings, source: Path) -> None:
    """Load a dump into the empty database. Raises Misconfigured, BackupFailed."""
    program = _found(_MYSQL_CLIENTS, "mariadb-client or mysql-client")
    url = make_url(settings.mysql_url.get_secret_value())
    with source.open("rb") as script:
        _run_mysql(program, url, [str(url.database)], stdin=script)


def dump_postgres(settings: Settings, to: Path) -> None:
    """Write a snapshot of PostgreSQL into a file. Raises as `dump_mysql`."""
    program, url = _found(("pg_dump",), "postgresql-client"), make_url(settings.postgres_url.get_secret_value())
    # Comments are those of extensions, which only their owner may set.
    options = ["--format=custom", "--no-comments", "--no-owner", "--no-privileges", f"--file={to}"]
    _run(program, options, environment=_libpq(url))


def load_postgres(settings: Settings, source: Path) -> None:
    """Load a dump into the empty database. Raises Misconfigured, BackupFailed."""
    program, url = _found(("pg_restore",), "postgresql-client"), make_url(settings.postgres_url.get_secret_value())
    options = ["--exit-on-error", "--no-owner", "--no-privileges", f"--dbname={url.database}", str(source)]
    _run(program, options, environment=_libpq(url))


def _run_mysql(program: str, url: URL, arguments: Sequence[str], *, stdin: BinaryIO | None = None) -> None:
    with _option_file(url) as options:
        _run(program, [f"--defaults-extra-file={options}", *arguments], stdin=stdin)


@contextmanager
def _option_file(url: URL) -> Iterator[Path]:
    """Provide a file with the connection's options for the time of one command."""
    lines = ["[client]", f"user={url.username or ''}", f'password="{_quoted(url.password or "")}"']
    socket = url.query.get("unix_socket")
    lines += [f"socket={socket}"] if socket else [f"host={url.host}", f"port={url.port or _MYSQL_PORT}", "protocol=tcp"]
    lines += [f"{option}={url.query[name]}" for name, option in _TLS_FILES.items() if name in url.query]
    lines += ["default-character-set=utf8mb4"]
    with tempfile.NamedTemporaryFile("w", suffix=".cnf", encoding="utf-8") as file:  # readable by its owner alone
        file.write("\n".join(lines) + "\n")
        file.flush()
        yield Path(file.name)


def _quoted(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


def _libpq(url: URL) -> dict[str, str]:
    """Return libpq's variables for a connection to the URL's database."""
    return {
        "PGHOST": str(url.query.get("host") or url.host or ""),
        "PGPORT": str(url.port or _POSTGRES_PORT),
        "PGUSER": url.username or "",
        "PGPASSWORD": url.password or "",
        "PGDATABASE": str(url.database),
        **{variable: str(url.query[name]) for name, variable in _LIBPQ.items() if name in url.query},
    }


def _run(
    program: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: BinaryIO | None = None,
) -> None:
    """Run a program to its end. Raises BackupFailed with the last lines of its complaint."""
    ended = subprocess.run(
        [program, *arguments],
        env={**os.environ, **(environment or {})},
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if ended.returncode != 0:
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise BackupFailed(f"{Path(program).name} ended with {ended.returncode}: {' '.join(lines[-_LAST_LINES:])}")


def _found(names: Sequence[str], package: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    raise Misconfigured(f"{' or '.join(names)} is not on PATH: install {package}, of the server's version or newer")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
