"""The tables of embedding spaces in PostgreSQL: made beside the one in use, and dropped when nobody needs them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import postgres_errors
from pipeline.records import EmbeddingSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """What a table of vectors was made for. ``indexes``: approximate ones with their operator classes."""

    dimension: int
    operator_class: str | None
    indexes: tuple[tuple[str, str], ...]


def create(postgres: Engine, space: EmbeddingSpace, *, like: EmbeddingSpace) -> None:
    """An empty table for ``space`` with the columns, indexes and comments of ``like``.

    What stands there under this name is dropped: it can only be what an interrupted attempt left.
    """
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {space.table}"))
        connection.execute(text(f"CREATE TABLE {space.table} (LIKE {like.table} INCLUDING ALL)"))
        connection.execute(
            text(f"ALTER TABLE {space.table} ALTER COLUMN embedding TYPE halfvec({int(space.dimension)})")
        )
        # Copies of the approximate indexes came with the others, and would make filling the table slow.
        for name in connection.execute(_GRAPHS, {"table": space.table}).scalars().all():
            connection.execute(text(f'DROP INDEX "{name}"'))


def drop(postgres: Engine, space: EmbeddingSpace) -> None:
    """The table and every vector in it. Nothing happens if it is gone already."""
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {space.table}"))


def shape(connection: Connection, space: EmbeddingSpace) -> TableShape | None:
    """For which dimension and distance the table was made, None if there is no such table."""
    row = connection.execute(_COLUMN, {"table": space.table}).one_or_none()
    if row is None:
        return None
    indexes = connection.execute(_INDEXES, {"table": space.table}).all()
    found = tuple(sorted((name, operator_class) for name, operator_class in indexes))
    return TableShape(dimension=row[0], operator_class=row[1], indexes=found)


_COLUMN = text(
    "SELECT a.atttypmod, col_description(a.attrelid, a.attnum) FROM pg_attribute a"
    " WHERE a.attrelid = to_regclass(:table) AND a.attname = 'embedding'"
)

_GRAPHS = text(
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"
    " WHERE i.indrelid = to_regclass(:table) AND m.amname IN ('hnsw', 'ivfflat')"
)

_INDEXES = text(
    "SELECT c.relname, o.opcname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"
    " JOIN pg_opclass o ON o.oid = i.indclass[0]"
    " WHERE i.indrelid = to_regclass(:table) AND m.amname IN ('hnsw', 'ivfflat')"
)
