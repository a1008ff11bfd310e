"""The revisions of both schemas: those that this code can run, those that databases are at, and running them by Alembic."""

import ast
import io
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, Literal

from sqlalchemy import Connection, Engine, inspect, text

from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.schema import Side
from pipeline.distances import MEASURES
from pipeline.errors import Misconfigured
from pipeline.settings import Settings

MIGRATIONS = files("pipeline.database") / "migrations"
BASE: Final = "base"  # the revision of a database without tables, in Alembic's words


def revision_of(side: Side, connection: Connection) -> str | None:
    """Return the revision that a database is at, or None before the first migration."""
    table = f"schema_version_{side}"
    if not inspect(connection).has_table(table):
        return None
    revision: str | None = connection.execute(text(f"SELECT version_num FROM {table}")).scalar()
    return revision


def known_revisions(side: Side, migrations: Traversable = MIGRATIONS) -> list[str]:
    """Return the revisions of this code in order: their files begin with them, and each is higher than those before."""
    names = (file.name for file in (migrations / side / "versions").iterdir())
    return sorted(name[:4] for name in names if name[:4].isdecimal())


def source(side: Side, revision: str, migrations: Traversable = MIGRATIONS) -> ast.Module:
    """Return the code of a revision."""
    versions = migrations / side / "versions"
    (file,) = [file for file in versions.iterdir() if file.name.startswith(f"{revision}_")]
    return ast.parse(file.read_text(encoding="utf-8"))


def refuse_downgrade(side: Side, present: str | None, to: str, migrations: Traversable = MIGRATIONS) -> None:
    """Raise Misconfigured unless a database at revision ``present`` can be taken back ``to`` an earlier one, or to `BASE`."""
    refuse_unknown(side, present, migrations)
    known = known_revisions(side, migrations)
    if to != BASE and to not in known:
        raise Misconfigured(f"{side} has no revision {to}; those of this version are {known[0]} to {known[-1]}")
    if to != BASE and (present is None or to > present):
        raise Misconfigured(f"the {side} schema is at revision {present or 'none'}, which is before {to}")
    for revision in reversed(known):
        is_undone = present is not None and revision <= present and (to == BASE or revision > to)
        if is_undone and not any(
            isinstance(part, ast.FunctionDef) and part.name == "downgrade"
            for part in source(side, revision, migrations).body
        ):
            raise Misconfigured(
                f"revision {revision} of {side} cannot be taken back: restore a backup from before it (docs/backup.md)"
            )


def refuse_unknown(side: Side, revision: str | None, migrations: Traversable = MIGRATIONS, *, of: str = "") -> None:
    """Raise Misconfigured for a revision that this code has no migration from. ``of``: whose schema, if not a database's."""
    revisions = known_revisions(side, migrations)
    if revision is None or revision in revisions:
        return
    advice = (
        f"bring it to {revisions[0]} with version 0.1.0 first (CHANGELOG.md names the commit), or start with an empty database"
        if revision < revisions[0]
        else "a newer version of Chordwise made it, so use that one"
    )
    raise Misconfigured(f"the {side} schema{of} is at revision {revision}, which this version cannot migrate: {advice}")


def run_alembic(
    direction: Literal["upgrade", "downgrade"],
    to: str,
    side: Side,
    connection: Connection,
    use: Settings,
    *,
    migrations: Traversable = MIGRATIONS,
    into: io.StringIO | None = None,
) -> None:
    """Run revisions, or write their statements ``into`` a text."""
    # Every worker and gateway checks the schema when it starts, and none migrates: Alembic is loaded here alone.
    from alembic import command
    from alembic.config import Config

    config = Config(output_buffer=into)
    config.set_main_option("script_location", str(migrations / side))
    config.set_main_option("path_separator", "os")
    config.attributes.update(
        connection=connection,
        dimension=use.embedding_dim,
        operator_class=MEASURES[use.pgvector_distance].operator_class,
    )
    run = command.upgrade if direction == "upgrade" else command.downgrade
    run(config, to, sql=into is not None)


def revisions(mysql: Engine, postgres: Engine) -> dict[str, str]:
    """Return the revisions that both databases are at, as ``mysql`` and ``postgres``; empty before the first migration."""
    with mysql_errors(), mysql.connect() as connection:
        found = {"mysql": revision_of("mysql", connection) or ""}
    with postgres_errors(), postgres.connect() as connection:
        return found | {"postgres": revision_of("postgres", connection) or ""}
