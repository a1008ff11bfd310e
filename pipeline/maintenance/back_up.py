"""Back up both databases while the installation runs, as two snapshots and a manifest in one folder; restore a backup into
empty databases, and bring the stores together before anything is served."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO, Final

import structlog
from sqlalchemy import URL, Engine, inspect, text

from chordwise.contract.namespace import Alignment
from pipeline.database import schema, schema_revisions
from pipeline.database.engines import engines, mysql_errors, postgres_errors, used_url
from pipeline.database.statements import tenant_ids
from pipeline.database.unit_of_work import reading
from pipeline.errors import BackupFailed, Misconfigured
from pipeline.local_stack import client_programs
from pipeline.maintenance import migrate_schema
from pipeline.maintenance.verify import verify
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

MYSQL_FILE: Final = "mysql.sql"
POSTGRES_FILE: Final = "postgres.dump"
MANIFEST: Final = "manifest.json"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a backup. ``files``: SHA-256 by name; ``revisions``: of ``mysql`` and ``postgres``; ``servers``:
    their versions by kind (MySQL or MariaDB, PostgreSQL)."""

    format: int
    installation_id: str
    version: str
    made_at: str
    revisions: dict[str, str]
    embedding_model: str
    embedding_dim: int
    distance: str
    files: dict[str, str]
    servers: dict[str, str]


def back_up(settings: Settings, to: Path) -> Manifest:
    """Write a backup of both databases into the new folder ``to``, which appears only when complete. Raises Misconfigured,
    WrongInstallation, BackupFailed.

    MySQL's snapshot begins first: a document added between the two has surplus vectors, which `restore` removes, instead of
    chunks to be embedded again.
    """
    with engines(settings) as (mysql, postgres):
        return _back_up(mysql, postgres, settings, to)


def _back_up(mysql: Engine, postgres: Engine, settings: Settings, to: Path) -> Manifest:
    installation_id = migrate_schema.check_all(mysql, postgres, settings)
    if to.exists():
        raise BackupFailed(f"{to} exists already; name a new folder")
    unfinished = to.with_name(f"{to.name}.unfinished")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True, mode=0o700)
        made_at = datetime.now(UTC)
        _dump(mysql, postgres, into=unfinished)
        manifest = Manifest(
            format=FORMAT,
            installation_id=installation_id,
            version=importlib.metadata.version("chordwise"),
            made_at=made_at.isoformat(timespec="seconds"),
            revisions=schema_revisions.revisions(mysql, postgres),
            embedding_model=settings.embedding_model,
            embedding_dim=settings.embedding_dim,
            distance=settings.pgvector_distance,
            files={name: digest(unfinished / name) for name in (MYSQL_FILE, POSTGRES_FILE)},
            servers=_servers(mysql, postgres),
        )
        (unfinished / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, to)
    except OSError as error:
        raise BackupFailed(f"{to}: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # it has another name once it is complete
    log.info("backup_made", installation_id=installation_id, bytes=sum(file.stat().st_size for file in to.iterdir()))
    return manifest


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_WHOLE = 1.0  # share of vectors that the repair may delete: MySQL's dump is the record


def read_manifest(folder: Path) -> Manifest:
    """Return the description of a backup after comparing the checksums of its files. Raises BackupFailed."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise BackupFailed(f"{folder / MANIFEST} has format {content.get('format')}; this version reads {FORMAT}")
        known = {each.name for each in fields(Manifest)}
        manifest = Manifest(**{name: value for name, value in content.items() if name in known})
        damaged = [name for name, expected in manifest.files.items() if digest(folder / name) != expected]
    except OSError as error:
        raise BackupFailed(f"{folder} is not a backup: {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise BackupFailed(f"{folder / MANIFEST} is not the manifest of a backup") from error
    if damaged:
        raise BackupFailed(f"{', '.join(damaged)} in {folder} differs from the manifest: the backup is damaged")
    return manifest


def restore(folder: Path, settings: Settings, *, on_tenant: Callable[[TenantId, Alignment], None]) -> Manifest:
    """Load a backup into two empty databases, migrate them to this version's schemas, claim Redis, empty it of the earlier
    state, and repair each tenant's vectors. No worker, clock or client may be active.

    Raises BackupFailed for a damaged backup, one with other settings, another kind of server or an older one, or a database
    with tables, and Misconfigured for a schema that this version cannot migrate, before any change; Misconfigured without
    the servers' programs.
    """
    with engines(settings) as (mysql, postgres):
        manifest = read_manifest(folder)
        _refuse_unfit(manifest, mysql, postgres, settings)
        load_mysql(mysql, folder / MYSQL_FILE)
        load_postgres(postgres, folder / POSTGRES_FILE)
        migrate_schema.adopt(mysql, postgres, settings)
    with closing(Resources(settings)) as use:
        with reading(use.mysql) as connection:
            tenants = tenant_ids(connection, "SELECT tenant_id FROM tenants ORDER BY tenant_id")
        for tenant_id in tenants:
            on_tenant(tenant_id, verify(tenant_id, None, use, repair=True, delete_share=_WHOLE))
        log.info("backup_restored", installation_id=manifest.installation_id, tenants=len(tenants))
    return manifest


def _refuse_unfit(manifest: Manifest, mysql: Engine, postgres: Engine, settings: Settings) -> None:
    schema_revisions.refuse_unknown("mysql", manifest.revisions.get("mysql"), of=" of the backup")
    schema_revisions.refuse_unknown("postgres", manifest.revisions.get("postgres"), of=" of the backup")
    _refuse_other_settings(manifest, settings)
    _refuse_other_servers(manifest, _servers(mysql, postgres))
    _refuse_tables(mysql, postgres)


def _refuse_other_settings(manifest: Manifest, settings: Settings) -> None:
    pairs = {
        "CHORDWISE_EMBEDDING_DIM": (manifest.embedding_dim, settings.embedding_dim),
        "CHORDWISE_EMBEDDING_MODEL": (manifest.embedding_model, settings.embedding_model),
        "CHORDWISE_PGVECTOR_DISTANCE": (manifest.distance, settings.pgvector_distance),
    }
    for variable, (backup, present) in pairs.items():
        if backup != present:
            raise BackupFailed(f"{variable} is {present}, and the backup was made with {backup}")


def _servers(mysql: Engine, postgres: Engine) -> dict[str, str]:
    """Return the versions of both servers by their kinds."""
    with mysql_errors(), mysql.connect() as connection:
        kind, version = schema.mysql_server(connection)
    return {kind: version.partition("-")[0], "PostgreSQL": _postgres_version(postgres)}


def _postgres_version(postgres: Engine) -> str:
    with postgres_errors(), postgres.connect() as connection:
        version = str(connection.execute(text("SHOW server_version")).scalar_one())
    return version.partition(" ")[0]


def _refuse_other_servers(manifest: Manifest, present: Mapping[str, str]) -> None:
    """Raise BackupFailed for another kind of server than the backup's, or an older major version."""
    for kind, version in manifest.servers.items():
        needed = f"{kind} {_major(version)} or newer"
        if kind not in present:
            (other,) = present.keys() - {"PostgreSQL"}
            raise BackupFailed(f"the backup was made from {kind} {version}, and this is {other}: restore into {needed}")
        if _major(present[kind]) < _major(version):
            raise BackupFailed(
                f"the backup was made from {kind} {version}, and this is {kind} {present[kind]}: restore into {needed}"
            )


def _major(version: str) -> int:
    return int(version.partition(".")[0])


def _refuse_tables(mysql: Engine, postgres: Engine) -> None:
    with mysql_errors(), mysql.connect() as connection:
        tables = {"MySQL": inspect(connection).get_table_names()}
    with postgres_errors(), postgres.connect() as connection:
        tables["PostgreSQL"] = inspect(connection).get_table_names()
    for server, names in tables.items():
        if names:
            raise BackupFailed(
                f"the database in {server} has {len(names)} tables, such as {names[0]}: restore into an empty one"
            )


_MYSQL_DUMPS, _MYSQL_CLIENTS = ("mariadb-dump", "mysqldump"), ("mariadb", "mysql")
_MYSQL_PORT, _POSTGRES_PORT = 3306, 5432
_TLS_FILES = {"ssl_ca": "ssl-ca", "ssl_cert": "ssl-cert", "ssl_key": "ssl-key"}
_LIBPQ = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
_LAST_LINES = 3  # of a program's complaint


# A line that the programs of MySQL and MariaDB write with --verbose once their snapshot has begun.
_SNAPSHOT_BEGAN = "-- Retrieving "
_LOOK_AGAIN_S = 0.02
_GREET_EVERY_S = 5.0
_PING = text("SELECT 1")


def _dump(mysql: Engine, postgres: Engine, *, into: Path) -> None:
    """Write a snapshot of both databases, PostgreSQL's begun once MySQL's has. Raises Misconfigured without the programs,
    BackupFailed."""
    program, url = _found(_of_server(mysql, _MYSQL_DUMPS), "mariadb-client or mysql-client"), used_url(mysql)
    pg_dump = _of_postgres("pg_dump", postgres)
    # The application's user has no rights on tablespaces, the whole server's log or its replication positions.
    options = ["--single-transaction", "--quick", "--hex-blob", "--skip-lock-tables", "--no-tablespaces", "--verbose"]
    known = subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout
    if "--set-gtid-purged" in known:  # MySQL's alone: with it the dump cannot be loaded where it came from
        options += ["--set-gtid-purged=OFF", "--column-statistics=0"]
    # Comments are those of extensions, which only their owner may set.
    of_postgres = [
        "--format=custom",
        "--no-comments",
        "--no-owner",
        "--no-privileges",
        f"--file={into / POSTGRES_FILE}",
    ]
    with _option_file(url) as login:
        arguments = [
            f"--defaults-extra-file={login}",
            *options,
            f"--result-file={into / MYSQL_FILE}",
            str(url.database),
        ]
        with _running(program, arguments, greet=partial(_greet_mysql, mysql)) as first:
            first.wait_for(_SNAPSHOT_BEGAN)
            _run(pg_dump, of_postgres, greet=partial(_greet_postgres, postgres), environment=_libpq(used_url(postgres)))
            first.finish()


def load_mysql(mysql: Engine, source: Path) -> None:
    """Load a dump into the empty database. Raises Misconfigured, BackupFailed."""
    program, url = _found(_of_server(mysql, _MYSQL_CLIENTS), "mariadb-client or mysql-client"), used_url(mysql)
    with source.open("rb") as script, _option_file(url) as login:
        arguments = [f"--defaults-extra-file={login}", str(url.database)]
        _run(program, arguments, greet=partial(_greet_mysql, mysql), stdin=script)


def _of_server(mysql: Engine, names: tuple[str, str]) -> Sequence[str]:
    """Return the names of a program, the one of this server first: that of MariaDB may not know how users of MySQL log in."""
    with mysql_errors(), mysql.connect() as connection:
        return names if getattr(connection.dialect, "is_mariadb", True) else names[::-1]


def load_postgres(postgres: Engine, source: Path) -> None:
    """Load a dump into the empty database. Raises Misconfigured, BackupFailed."""
    program, url = _of_postgres("pg_restore", postgres), used_url(postgres)
    options = ["--exit-on-error", "--no-owner", "--no-privileges", f"--dbname={url.database}", str(source)]
    _run(program, options, greet=partial(_greet_postgres, postgres), environment=_libpq(url))


def _greet_mysql(mysql: Engine) -> None:
    with mysql_errors(), mysql.connect() as connection:
        connection.execute(_PING)


def _greet_postgres(postgres: Engine) -> None:
    with postgres_errors(), postgres.connect() as connection:
        connection.execute(_PING)


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
    greet: Callable[[], None],
    environment: Mapping[str, str] | None = None,
    stdin: BinaryIO | None = None,
) -> None:
    """Run a program to its end. Raises BackupFailed with the last lines of its complaint, and the errors of ``greet``."""
    with _running(program, arguments, greet=greet, environment=environment, stdin=stdin) as running:
        running.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A program that runs beside this process. ``greet`` raises if its server no longer answers: the program would wait
    for ever."""

    name: str
    process: "subprocess.Popen[bytes]"
    complaints: IO[bytes]
    greet: Callable[[], None]

    def wait_for(self, beginning: str) -> None:
        """Return once it wrote a line that begins so, or ended. Raises BackupFailed if it failed, and the errors of
        ``greet``."""
        greeted_at = time.monotonic()
        while self.process.poll() is None:
            if any(line.startswith(beginning) for line in self._lines()):
                return
            time.sleep(_LOOK_AGAIN_S)
            if time.monotonic() - greeted_at > _GREET_EVERY_S:
                self.greet()
                greeted_at = time.monotonic()
        self.finish()

    def finish(self) -> None:
        """Wait for its end. Raises BackupFailed with the last lines of its complaint, and the errors of ``greet``."""
        while True:
            try:
                status = self.process.wait(_GREET_EVERY_S)
                break
            except subprocess.TimeoutExpired:
                self.greet()
        if status != 0:
            lines = [line for line in self._lines() if not line.startswith("--")]  # those are its progress
            raise BackupFailed(f"{self.name} ended with {self.process.returncode}: {' '.join(lines[-_LAST_LINES:])}")

    def _lines(self) -> list[str]:
        file = self.complaints.fileno()  # its position belongs to the program as well, so it must not move
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace").strip().splitlines()


@contextmanager
def _running(
    program: str,
    arguments: Sequence[str],
    *,
    greet: Callable[[], None],
    environment: Mapping[str, str] | None = None,
    stdin: BinaryIO | None = None,
) -> Iterator[_Running]:
    """Run a program beside this process; kill it with the block if it did not end."""
    with tempfile.TemporaryFile() as complaints:  # of a pipe nobody reads while another program runs
        process = subprocess.Popen(
            [program, *arguments],
            env={**os.environ, **(environment or {})},
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=complaints,
        )
        try:
            yield _Running(name=Path(program).name, process=process, complaints=complaints, greet=greet)
        finally:
            process.kill()  # of one that ended this does nothing
            process.wait()


def _of_postgres(name: str, postgres: Engine) -> str:
    """Return the path of a program of PostgreSQL that is not older than the server: an older one does not read it, or
    writes other statements than it takes. Raises Misconfigured."""
    server, older = _postgres_version(postgres), ""
    for folder in client_programs().split(os.pathsep):
        path = shutil.which(name, path=folder)
        found = re.search(r"\d+(\.\d+)*", _output_of([path, "--version"])) if path else None
        if path and (found is None or _major(found[0]) >= _major(server)):
            return path
        older = older or (f"{path} is of version {found[0]}" if found else "")
    if not older:
        return _found((name,), "postgresql-client")
    raise Misconfigured(
        f"{older}, older than the server, PostgreSQL {server}: install postgresql-client-{_major(server)} or newer,"
        f" and put its {name} on PATH"
    )


def _output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _found(names: Sequence[str], package: str) -> str:
    for name in names:
        if path := shutil.which(name, path=client_programs()):
            return path
    raise Misconfigured(f"{' or '.join(names)} is not on PATH: install {package}, of the server's version or newer")
