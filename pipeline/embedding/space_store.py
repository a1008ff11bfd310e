"""Which embedding spaces are live: a pointer in MySQL that a switch moves. A transaction that shows or changes
documents locks it (`hold`); everybody else may be a second late."""

from __future__ import annotations

from sqlalchemy import Connection, text

from pipeline.database.rows import record_of
from pipeline.errors import Misconfigured
from pipeline.local_models import stored_name
from pipeline.records import EmbeddingSpace, LiveSpaces
from pipeline.settings import Settings

FIRST = 1  # the space that exists without any migration, described by the settings


def base_space(settings: Settings) -> EmbeddingSpace:
    """The first space, as the settings describe it."""
    return EmbeddingSpace(
        number=FIRST,
        provider=settings.embedding_provider,
        model=model_name(settings.embedding_provider, settings.embedding_model, settings.embedding_dim),
        dimension=settings.embedding_dim,
    )


def model_name(provider: str, model: str, dimension: int) -> str:
    """The name that stands beside every vector. The local model's carries its dimension, whatever was written there."""
    return stored_name(model, dimension) if provider == "local" else model


def live(connection: Connection, base: EmbeddingSpace) -> LiveSpaces:
    """Return the live spaces now; ``base`` stands for the first until a migration gives it a row. Raises Misconfigured
    without a pointer."""
    rows = connection.execute(_LIVE).all()
    if not rows:
        raise Misconfigured(
            "the table embedding_pointer is empty: run python -m pipeline.maintenance.migrate_schema upgrade"
        )
    known = {row.number: record_of(EmbeddingSpace, row, table=row.table_name) for row in rows if row.number is not None}
    known.setdefault(FIRST, base)
    return LiveSpaces(active=known[rows[0].active_space], standby=known.get(rows[0].standby_space or 0))


def hold(connection: Connection, known: LiveSpaces, base: EmbeddingSpace) -> LiveSpaces:
    """The live spaces, and let nobody change them until this transaction ends. One read by key where ``known`` is true."""
    row = connection.execute(_HOLD).one_or_none()
    standby = None if known.standby is None else known.standby.number
    if row is not None and (row.active_space, row.standby_space) == (known.active.number, standby):
        return known
    return live(connection, base)


def lock(connection: Connection) -> tuple[int, int | None]:
    """Wait until no transaction holds the pointer, and keep them from it until this one ends. Gives where it points."""
    row = connection.execute(_LOCK).one()
    return row.active_space, row.standby_space


def point(connection: Connection, active: int, standby: int | None) -> None:
    """Move the pointer; the caller has locked it."""
    connection.execute(_POINT, {"active": active, "standby": standby})


_COLUMNS = "s.number, s.table_name, s.provider, s.model, s.dimension, s.service"

_LIVE = text(
    f"SELECT p.active_space, p.standby_space, {_COLUMNS} FROM embedding_pointer p"
    " LEFT JOIN embedding_spaces s ON s.number = p.active_space OR s.number = p.standby_space WHERE p.id = 1"
)

# FOR SHARE is unknown to MariaDB.
_HOLD = text("SELECT active_space, standby_space FROM embedding_pointer WHERE id = 1 LOCK IN SHARE MODE")
_LOCK = text("SELECT active_space, standby_space FROM embedding_pointer WHERE id = 1 FOR UPDATE")
_POINT = text("UPDATE embedding_pointer SET active_space = :active, standby_space = :standby WHERE id = 1")
