"""Embedding spaces: their tables in PostgreSQL, and the pointer in MySQL that names the live ones and that a switch
moves. A transaction that publishes or changes documents locks the pointer (`hold`); other readers may be a second late."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import postgres_errors
from pipeline.database.rows import record_of
from pipeline.errors import Misconfigured
from pipeline.local_models import stored_name
from pipeline.records import EmbeddingSpace, LiveSpaces
from pipeline.settings import Settings

FIRST = 1  # the space that exists without any migration, described by the settings


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The shape of a table of vectors. ``indexes``: approximate ones with their operator classes."""

    dimension: int
    operator_class: str | None
    indexes: tuple[tuple[str, str], ...]


def base_space(settings: Settings) -> EmbeddingSpace:
    """Return the first space, as the settings describe it."""
    return EmbeddingSpace(
        number=FIRST,
        provider=settings.embedding_provider,
        model=model_name(settings.embedding_provider, settings.embedding_model, settings.embedding_dim),
        dimension=settings.embedding_dim,
    )


def model_name(provider: str, model: str, dimension: int) -> str:
    """Return the model name stored with every vector. The local model's includes its dimension, whatever was
    configured."""
    return stored_name(model, dimension) if provider == "local" else model


def live(connection: Connection, base: EmbeddingSpace) -> LiveSpaces:
    """Return the live spaces now; ``base`` stands for the first until a migration gives it a row. Raises Misconfigured
    without a pointer."""
    rows = connection.execute(_LIVE).all()
    if not rows:
        raise Misconfigured(
            "the table embedding_pointer is empty: run python -m pipeline.maintenance.migrate_schema upgrade"
        )
    spaces = {
        row.number: record_of(EmbeddingSpace, row, table=row.table_name) for row in rows if row.number is not None
    }
    spaces.setdefault(FIRST, base)
    return LiveSpaces(active=spaces[rows[0].active_space], standby=spaces.get(rows[0].standby_space or 0))


def hold(connection: Connection, expected: LiveSpaces, base: EmbeddingSpace) -> LiveSpaces:
    """Return the live spaces, and block changes of the pointer until this transaction ends. One read by key if
    ``expected`` is still true."""
    row = connection.execute(_HOLD).one_or_none()
    standby = None if expected.standby is None else expected.standby.number
    if row is not None and (row.active_space, row.standby_space) == (expected.active.number, standby):
        return expected
    return live(connection, base)


def lock(connection: Connection) -> tuple[int, int | None]:
    """Lock the pointer until this transaction ends, and return its active and standby space."""
    row = connection.execute(_LOCK).one()
    return row.active_space, row.standby_space


def point(connection: Connection, active: int, standby: int | None) -> None:
    """Move the pointer; the caller has locked it."""
    connection.execute(_POINT, {"active": active, "standby": standby})


def create_table(postgres: Engine, space: EmbeddingSpace, *, like: EmbeddingSpace) -> None:
    """Create an empty table for ``space`` with the columns, indexes and comments of ``like``.

    An existing table of this name is dropped: only an interrupted attempt can have left it.
    """
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {space.table}"))
        connection.execute(text(f"CREATE TABLE {space.table} (LIKE {like.table} INCLUDING ALL)"))
        connection.execute(
            text(f"ALTER TABLE {space.table} ALTER COLUMN embedding TYPE halfvec({int(space.dimension)})")
        )
        # Copies of the approximate indexes came with the others, and would make filling the table slow.
        for name in connection.execute(_TABLE_GRAPHS, {"table": space.table}).scalars().all():
            connection.execute(text(f'DROP INDEX "{name}"'))


def drop_table(postgres: Engine, space: EmbeddingSpace) -> None:
    """Drop the table with every vector in it, if it exists."""
    with postgres_errors(), postgres.begin() as connection:
        connection.execute(text(f"DROP TABLE IF EXISTS {space.table}"))


def table_shape(connection: Connection, space: EmbeddingSpace) -> TableShape | None:
    """Return dimension and distance of the table, None if there is no such table."""
    row = connection.execute(_TABLE_COLUMN, {"table": space.table}).one_or_none()
    if row is None:
        return None
    indexes = connection.execute(_TABLE_INDEXES, {"table": space.table})
    return TableShape(
        dimension=row[0], operator_class=row[1], indexes=tuple(sorted((name, kind) for name, kind in indexes))
    )


_TABLE_COLUMN = text(
    "SELECT a.atttypmod, col_description(a.attrelid, a.attnum) FROM pg_attribute a"
    " WHERE a.attrelid = to_regclass(:table) AND a.attname = 'embedding'"
)

_TABLE_GRAPHS = text(
    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"
    " WHERE i.indrelid = to_regclass(:table) AND m.amname IN ('hnsw', 'ivfflat')"
)

_TABLE_INDEXES = text(
    "SELECT c.relname, o.opcname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam"
    " JOIN pg_opclass o ON o.oid = i.indclass[0]"
    " WHERE i.indrelid = to_regclass(:table) AND m.amname IN ('hnsw', 'ivfflat')"
)

_COLUMNS = "s.number, s.table_name, s.provider, s.model, s.dimension, s.service"

_LIVE = text(
    f"SELECT p.active_space, p.standby_space, {_COLUMNS} FROM embedding_pointer p"
    " LEFT JOIN embedding_spaces s ON s.number = p.active_space OR s.number = p.standby_space WHERE p.id = 1"
)

# FOR SHARE is unknown to MariaDB.
_HOLD = text("SELECT active_space, standby_space FROM embedding_pointer WHERE id = 1 LOCK IN SHARE MODE")
_LOCK = text("SELECT active_space, standby_space FROM embedding_pointer WHERE id = 1 FOR UPDATE")
_POINT = text("UPDATE embedding_pointer SET active_space = :active, standby_space = :standby WHERE id = 1")
