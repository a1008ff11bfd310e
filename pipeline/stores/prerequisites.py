"""The required versions of both servers and of the pgvector extension, checked before a schema is made or used."""

from __future__ import annotations

import re

from sqlalchemy import Connection, exc, text

from pipeline.errors import StoreMisconfigured
from pipeline.stores.store_errors import MYSQL, POSTGRES, Location, create_extension, location

Version = tuple[int, ...]

OLDEST_MYSQL: Version = (8, 0)
OLDEST_MARIADB: Version = (10, 6)
OLDEST_POSTGRES: Version = (13,)  # pgvector's own oldest
OLDEST_PGVECTOR: Version = (0, 7)  # the first with halfvec

_EXTENSION = text(
    "SELECT (SELECT extversion FROM pg_extension WHERE extname = 'vector'),"
    " (SELECT default_version FROM pg_available_extensions WHERE name = 'vector')"
)


def check_mysql(connection: Connection) -> None:
    """Compare the version of MySQL or MariaDB with the oldest supported one. Raises StoreMisconfigured."""
    seen = str(connection.execute(text("SELECT VERSION()")).scalar_one())
    name, oldest = ("MariaDB", OLDEST_MARIADB) if "mariadb" in seen.lower() else ("MySQL", OLDEST_MYSQL)
    # MariaDB behind a proxy may call itself 5.5.5-10.11.6-MariaDB.
    if _version(seen.removeprefix("5.5.5-")) < oldest:
        at = location(MYSQL, connection.engine.url)
        raise at.refused(f"the server is {name} {seen}, but {name} {_dotted(oldest)} or newer is needed; upgrade it")


def check_postgres(
    connection: Connection,
    *,
    create: bool = False,
    oldest: Version = OLDEST_POSTGRES,
    pgvector: Version = OLDEST_PGVECTOR,
) -> None:
    """Compare the versions of PostgreSQL and pgvector with the oldest supported. ``create``: add the extension. Raises
    StoreMisconfigured."""
    at = location(POSTGRES, connection.engine.url)
    server = str(connection.execute(text("SHOW server_version")).scalar_one())
    if _version(server) < oldest:
        raise at.refused(f"the server is version {server}, but {_dotted(oldest)} or newer is needed; upgrade it")
    installed, available = connection.execute(_EXTENSION).one()
    needed = f"{_dotted(pgvector)} or newer is needed"
    if installed is None:
        if available is None or _version(available) < pgvector:
            seen = "has no pgvector" if available is None else f"has pgvector {available}"
            raise at.refused(f"the server {seen}, but {needed}; {_install(server)}, then run: {create_extension(at)}")
        if not create:
            raise at.refused(f"the extension vector (pgvector) is not in this database; run: {create_extension(at)}")
        _create(connection, at, available)
    elif _version(installed) < pgvector:
        update = create_extension(at, "ALTER EXTENSION vector UPDATE")
        seen = f"the extension vector (pgvector) in this database is {installed}, but {needed}"
        if available is None or _version(available) < pgvector:
            raise at.refused(f"{seen}; {_install(server)}, then run: {update}")
        raise at.refused(f"{seen}, and the server has {available}; run: {update}")


def _create(connection: Connection, at: Location, available: str) -> None:
    try:
        connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        connection.commit()
    except exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != "42501":
            raise
        raise _not_allowed(at, available) from error


def _not_allowed(at: Location, available: str) -> StoreMisconfigured:
    return at.refused(
        f"the extension vector (pgvector {available}) is not in this database, and the user {at.user} may not create it;"
        f" as a superuser run: {create_extension(at)}"
    )


def _install(server: str) -> str:
    return f"install pgvector on the server (for example the package postgresql-{_version(server)[0]}-pgvector)"


def _version(text_: str) -> Version:
    """Return the leading numbers of a version: (10, 11, 6) of ``10.11.6-MariaDB``."""
    found = re.match(r"\d+(?:\.\d+)*", text_)
    return tuple(int(part) for part in found[0].split(".")) if found else (0,)


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
