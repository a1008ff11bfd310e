"""Print the revisions that an upgrade would run, with each of their statements."""

from __future__ import annotations

import ast
import io
import re
from importlib.resources.abc import Traversable
from typing import Final

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.schema import Side
from pipeline.database.schema_revisions import (
    MIGRATIONS,
    known_revisions,
    refuse_unknown,
    revision_of,
    run_alembic,
    source,
)
from pipeline.settings import Settings

_LONGEST_SHOWN: Final = 70
_READ_ONLY: Final[dict[Side, str]] = {
    "mysql": "TRANSACTION READ ONLY",
    "postgres": "CHARACTERISTICS AS TRANSACTION READ ONLY",
}


def plan(mysql: Engine, postgres: Engine, use: Settings, *, migrations: Traversable = MIGRATIONS) -> str:
    """Return a line for each revision that `upgrade` would run, by side, and one for each of its statements; none of
    those for an empty database. Raises Misconfigured if it would refuse."""
    lines: list[str] = []
    sides: tuple[tuple[Side, Engine], ...] = (("mysql", mysql), ("postgres", postgres))
    for side, engine in sides:
        with mysql_errors() if side == "mysql" else postgres_errors(), engine.connect() as connection:
            revision = revision_of(side, connection)
            refuse_unknown(side, revision, migrations)
            pending = [number for number in known_revisions(side, migrations) if revision is None or number > revision]
            lines.append(f"{side} is at revision {revision or 'none'}: {len(pending)} to run")
            statements: dict[str, list[str]] = {}
            if pending and revision:
                # A revision that writes by itself, instead of by Alembic's operations, fails instead of changing anything.
                connection.execute(text(f"SET SESSION {_READ_ONLY[side]}"))
                connection.commit()
                try:
                    statements = _statements(side, connection, use, since=revision, migrations=migrations)
                finally:
                    connection.invalidate()
            for number in pending:
                lines.append(f"  {number}: {_description(source(side, number, migrations))}")
                lines += [f"    {_shortened(one)}" for one in statements.get(number, ())]
    return "\n".join(lines)


def _statements(
    side: Side, connection: Connection, use: Settings, *, since: str, migrations: Traversable
) -> dict[str, list[str]]:
    """Return the statements of each revision after ``since``, without those for Alembic's own table."""
    output = io.StringIO()
    run_alembic("upgrade", f"{since}:head", side, connection, use, migrations=migrations, into=output)
    _, *parts = re.split(r"^-- Running upgrade \w+ -> (\w+)$", output.getvalue(), flags=re.MULTILINE)
    found: dict[str, list[str]] = {}
    for number, text_ in zip(parts[::2], parts[1::2], strict=True):
        statements = (one.strip() for one in text_.split(";\n\n"))
        found[number] = [
            one for one in statements if one and not re.search(r"\bschema_version_|^(?:BEGIN|COMMIT)$", one)
        ]
    return found


def _shortened(statement: str) -> str:
    line = " ".join(statement.split())
    return line if len(line) <= _LONGEST_SHOWN else f"{line[: _LONGEST_SHOWN - 1]}…"


def _description(revision: ast.Module) -> str:
    """Return the first sentence of a revision's docstring."""
    return (ast.get_docstring(revision) or "").partition(". ")[0].partition("\n")[0].rstrip(".")
