"""Print the revisions that an upgrade would run, with an estimate for each of their statements: how long it runs, and whom
it keeps waiting, from its text and the size of its table.

The rates are those of `make bench ARGS=schema` on two processors.
"""

from __future__ import annotations

import ast
import enum
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Final

from sqlalchemy import Connection, Engine, TextClause, text

from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.schema import VECTORS, Side
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
    """Return a line for each revision that `upgrade` would run, by side, and one for each of its statements with an estimate;
    none of those for an empty database. Raises Misconfigured if it would refuse."""
    lines: list[str] = []
    sides: tuple[tuple[Side, Engine], ...] = (("mysql", mysql), ("postgres", postgres))
    for side, engine in sides:
        with mysql_errors() if side == "mysql" else postgres_errors(), engine.connect() as connection:
            revision = revision_of(side, connection)
            refuse_unknown(side, revision, migrations)
            pending = [number for number in known_revisions(side, migrations) if revision is None or number > revision]
            lines.append(f"{side} is at revision {revision or 'none'}: {len(pending)} to run")
            sizes: dict[str, TableSize] = {}
            statements: dict[str, list[str]] = {}
            if pending and revision:
                sizes = table_sizes(side, connection)
                # A revision that writes by itself, instead of by Alembic's operations, fails instead of changing anything.
                connection.execute(text(f"SET SESSION {_READ_ONLY[side]}"))
                connection.commit()
                try:
                    statements = _statements(side, connection, use, since=revision, migrations=migrations)
                finally:
                    connection.invalidate()
            for number in pending:
                lines.append(f"  {number}: {_description(source(side, number, migrations))}")
                lines += [f"    {_shortened(one)}: {estimate(side, one, sizes)}" for one in statements.get(number, ())]
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


CHUNKS: Final = 1_000_000  # the size to estimate for besides the present one
_LEAST_CHUNKS: Final = 1_000  # fewer say nothing about the size of a chunk
# Bytes of a row where there are too few: texts of 1,000 characters, vectors of 256 dimensions.
_USUAL_BYTES: Final = {"chunks": 2_600, VECTORS: 800}
_SIZES: dict[Side, TextClause] = {
    "mysql": text(
        "SELECT table_name, COALESCE(table_rows, 0), COALESCE(data_length, 0) FROM information_schema.tables"
        " WHERE table_schema = DATABASE()"
    ),
    "postgres": text(
        "SELECT relname, GREATEST(reltuples, 0)::bigint, pg_table_size(oid) FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = current_schema()::regnamespace"
    ),
}


class Waits(enum.StrEnum):
    """Statements of other sessions that wait until the statement ends."""

    NOBODY = "nobody waits"
    ROWS = "writers of the same rows wait"
    WRITERS = "writers of the table wait"
    EVERYBODY = "everybody who uses the table waits"


class Work(enum.StrEnum):
    """Kinds of work, which take different times."""

    CATALOGUE = "catalogue"
    SCAN = "scan"
    INDEX = "index"
    CONCURRENT_INDEX = "concurrent index"
    TEXT_INDEX = "text index"
    VECTOR_INDEX = "vector index"
    REBUILD = "rebuild"
    CHANGE = "change of rows"
    UNKNOWN = "unknown"


# Megabytes of the table's data in a second: half of what was measured in memory, and 100 at most, as from a disk.
_RATES: Final[Mapping[Side, Mapping[Work, float]]] = {
    "mysql": {Work.INDEX: 100.0, Work.TEXT_INDEX: 12.0, Work.REBUILD: 30.0, Work.CHANGE: 60.0},
    "postgres": {
        Work.SCAN: 100.0,
        Work.INDEX: 100.0,
        Work.CONCURRENT_INDEX: 50.0,
        Work.VECTOR_INDEX: 1.5,
        Work.REBUILD: 60.0,
        Work.CHANGE: 20.0,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSize:
    """Estimated rows of a table, and the bytes of their data."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The cost of one statement; ``seconds`` are 0 for a change of the catalogue only."""

    table: str
    work: Work
    waits: Waits
    seconds: float
    seconds_at_size: float = field(default=0.0)  # with `CHUNKS` chunks

    def __str__(self) -> str:
        if self.work is Work.CATALOGUE:
            return "moments"
        if self.work is Work.UNKNOWN:
            return "not estimated"
        return (
            f"{self.work} of {self.table}, about {_duration(self.seconds)}"
            f" (with {CHUNKS:,} chunks {_duration(self.seconds_at_size)}); {self.waits}"
        )


_Rule = tuple[str, Work, Waits]
_NAME: Final = r"(?:IF (?:NOT )?EXISTS )?(?:ONLY )?[`\"]?(\w+)[`\"]?"
_TABLES: Final = (
    rf"^ALTER TABLE {_NAME}",
    rf"^CREATE (?:\w+ )*?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?\S+ ON {_NAME}",
    rf"^(?:UPDATE|INSERT INTO|DELETE FROM|CREATE TABLE|DROP TABLE|COMMENT ON COLUMN) {_NAME}",
)
# All rules that fit count, and the costliest decides; so the actions of one ALTER TABLE are not told apart.
_RULES: Final[Mapping[Side, Sequence[_Rule]]] = {
    "mysql": (
        (r"^(?:CREATE|DROP|RENAME) TABLE|^DROP INDEX", Work.CATALOGUE, Waits.NOBODY),
        (r"^INSERT INTO .* VALUES", Work.CATALOGUE, Waits.NOBODY),
        (r"^ALTER TABLE .*\b(?:ADD|DROP|RENAME) (?:COLUMN )?(?!PRIMARY)\w+", Work.CATALOGUE, Waits.NOBODY),
        (r"^ALTER TABLE .*\b(?:SET|DROP) DEFAULT\b", Work.CATALOGUE, Waits.NOBODY),
        (
            r"^CREATE (?:UNIQUE )?INDEX|\bADD (?:CONSTRAINT \w+ )?(?:UNIQUE )?(?:KEY|INDEX)\b|\bADD UNIQUE\b",
            Work.INDEX,
            Waits.NOBODY,
        ),
        (r"^CREATE FULLTEXT|\bADD FULLTEXT\b", Work.TEXT_INDEX, Waits.WRITERS),
        (
            r"\b(?:MODIFY|CHANGE|CONVERT|FORCE|STORED|PERSISTENT)\b|\b(?:ADD|DROP) PRIMARY\b|\bENGINE ?=",
            Work.REBUILD,
            Waits.WRITERS,
        ),
        (r"^(?:UPDATE|DELETE)\b|^INSERT INTO .* SELECT\b", Work.CHANGE, Waits.ROWS),
    ),
    "postgres": (
        (r"^(?:CREATE|DROP|ALTER) (?:TABLE|SEQUENCE|EXTENSION|INDEX)\b", Work.CATALOGUE, Waits.NOBODY),
        (r"^(?:COMMENT|GRANT|REVOKE|DROP)\b|^INSERT INTO .* VALUES|\bNOT VALID\b", Work.CATALOGUE, Waits.NOBODY),
        (r"^CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)(?!.*\bUSING (?:hnsw|ivfflat))", Work.INDEX, Waits.WRITERS),
        (r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY (?!.*\bUSING (?:hnsw|ivfflat))", Work.CONCURRENT_INDEX, Waits.NOBODY),
        (r"^CREATE INDEX CONCURRENTLY .*\bUSING (?:hnsw|ivfflat)", Work.VECTOR_INDEX, Waits.NOBODY),
        (r"^CREATE INDEX (?!CONCURRENTLY).*\bUSING (?:hnsw|ivfflat)", Work.VECTOR_INDEX, Waits.WRITERS),
        (
            r"^ALTER TABLE .*\bSET NOT NULL\b|\bADD CONSTRAINT \w+ (?:CHECK|FOREIGN)(?!.*NOT VALID)",
            Work.SCAN,
            Waits.EVERYBODY,
        ),
        (r"\bVALIDATE CONSTRAINT\b", Work.SCAN, Waits.NOBODY),
        (r"^ALTER TABLE .*\bADD (?:CONSTRAINT \w+ )?(?:UNIQUE|PRIMARY|EXCLUDE)\b", Work.INDEX, Waits.EVERYBODY),
        (
            r"^ALTER TABLE .*(?:\bALTER (?:COLUMN )?(?!COLUMN\b)\w+ (?:SET DATA )?TYPE\b|\bSTORED\b"
            r"|\bDEFAULT (?:nextval|gen_|random|clock_))",
            Work.REBUILD,
            Waits.EVERYBODY,
        ),
        (r"^(?:UPDATE|DELETE)\b|^INSERT INTO .* SELECT\b", Work.CHANGE, Waits.ROWS),
    ),
}


def estimate(side: Side, statement: str, sizes: Mapping[str, TableSize]) -> Estimate:
    """Return the cost of a statement on tables of these sizes; one that is not among them is new and empty."""
    line = " ".join(statement.split())
    named = next((found[1] for rule in _TABLES if (found := re.search(rule, line, re.IGNORECASE))), "")
    fitting = [(work, waits) for rule, work, waits in _RULES[side] if re.search(rule, line, re.IGNORECASE)]
    if fitting and named not in sizes:
        fitting = [(Work.CATALOGUE, Waits.NOBODY)]
    candidates = [
        Estimate(
            table=named,
            work=work,
            waits=waits,
            seconds=_seconds(side, work, sizes.get(named)),
            seconds_at_size=_seconds(side, work, _at_size(named, sizes)),
        )
        for work, waits in fitting or [(Work.UNKNOWN, Waits.EVERYBODY)]
    ]
    return max(candidates, key=lambda one: one.seconds_at_size)


def _seconds(side: Side, work: Work, size: TableSize | None) -> float:
    rate = _RATES[side].get(work)
    return 0.0 if rate is None or size is None else size.bytes / 1e6 / rate


def _at_size(table: str, sizes: Mapping[str, TableSize]) -> TableSize | None:
    """Return the size of a table once the installation has `CHUNKS` chunks like those it has, or usual ones."""
    size, chunks = sizes.get(table), max((sizes[name].rows for name in _USUAL_BYTES if name in sizes), default=0)
    if size is None:
        return None
    if chunks >= _LEAST_CHUNKS:
        return TableSize(rows=size.rows * CHUNKS // chunks, bytes=size.bytes * CHUNKS // chunks)
    usual = _USUAL_BYTES.get(table)
    return size if usual is None else TableSize(rows=CHUNKS, bytes=CHUNKS * usual)


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "under a second"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def table_sizes(side: Side, connection: Connection) -> dict[str, TableSize]:
    """Return the estimated size of every table."""
    return {
        name: TableSize(rows=int(rows), bytes=int(size)) for name, rows, size in connection.execute(_SIZES[side]).all()
    }
