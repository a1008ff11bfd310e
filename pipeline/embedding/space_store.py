"""Embedding spaces: their tables in PostgreSQL, and the pointer in MySQL that names the live ones and that a switch moves.

A transaction that publishes or changes documents locks the pointer (`hold`); other readers may be a second late. It also
notes the documents whose standby vectors are behind: ingestion waits for no standby model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import postgres_errors
from pipeline.database.rows import TenantStore, insert_many, now, record_of
from pipeline.errors import Misconfigured
from pipeline.local_models import stored_name
from pipeline.records import DocumentId, EmbeddingSpace, LiveSpaces, Namespace, TenantId
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
    """Return the model name stored with every vector. The local model's includes its dimension."""
    return stored_name(model, dimension) if provider == "local" else model


def live(connection: Connection, base: EmbeddingSpace) -> LiveSpaces:
    """Return the live spaces; ``base``: the first until it has a row. Raises Misconfigured without a pointer."""
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
    """Return the live spaces, their pointer locked until this transaction ends. One read if as ``expected``."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingDocument:
    """A document that waits for its vectors; ``noted_at`` moves when it changes again."""

    namespace: Namespace
    document_id: DocumentId
    noted_at: datetime
    attempts: int


class StandbyBacklog(TenantStore):
    """One tenant's documents that are behind in one space."""

    def __init__(self, connection: Connection, tenant_id: TenantId, space: int) -> None:
        super().__init__(connection, tenant_id)
        self._space = space

    def add(self, documents: Iterable[tuple[Namespace, DocumentId]]) -> None:
        """Note these; one that is noted already counts as noted now."""
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO embedding_backlog (tenant_id, space, namespace, document_id, noted_at, next_attempt_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE noted_at = VALUES(noted_at), next_attempt_at = VALUES(next_attempt_at)",
            [(self._tenant_id, self._space, *document, moment, moment) for document in sorted(set(documents))],
        )

    def due(self, *, limit: int) -> list[LaggingDocument]:
        """Return the documents that are due now."""
        rows = self._run(_DUE, space=self._space, now=now(), limit=limit)
        return [record_of(LaggingDocument, row, noted_at=row.noted_at) for row in rows]

    def record_attempts(self, done: Sequence[LaggingDocument], unfinished: Sequence[LaggingDocument]) -> None:
        """Delete finished documents, unless they were noted again meanwhile; postpone the others, up to ten minutes."""
        for document in done:
            self._connection.execute(_FORGET, {**self._key(document), "noted": document.noted_at})
        for document in unfinished:
            wait = timedelta(seconds=min(600, 2 ** min(document.attempts + 1, 10)))
            self._connection.execute(_PUT_OFF, {**self._key(document), "at": now() + wait})

    def _key(self, document: LaggingDocument) -> dict[str, object]:
        return {
            "tenant": self._tenant_id,
            "space": self._space,
            "namespace": document.namespace,
            "document": document.document_id,
        }


def tenants_behind(connection: Connection, space: int) -> list[TenantId]:
    """Return the tenants with due documents; reads only ids."""
    rows = connection.execute(_TENANTS, {"space": space, "now": now()}).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


def backlog_size(connection: Connection, space: int) -> int:
    """Return how many documents of all tenants are behind."""
    return int(connection.execute(_SIZE, {"space": space}).scalar_one())


def clear_backlog(connection: Connection, space: int) -> None:
    """Forget all of a space that is given up."""
    connection.execute(text("DELETE FROM embedding_backlog WHERE space = :space"), {"space": space})


_DUE = text(
    "SELECT namespace, document_id, noted_at, attempts FROM embedding_backlog"
    " WHERE tenant_id = :tenant AND space = :space AND next_attempt_at <= :now"
    " ORDER BY namespace, document_id LIMIT :limit"
)
_OF_ONE = " WHERE tenant_id = :tenant AND space = :space AND namespace = :namespace AND document_id = :document"
_FORGET = text(f"DELETE FROM embedding_backlog{_OF_ONE} AND noted_at = :noted")
_PUT_OFF = text(f"UPDATE embedding_backlog SET attempts = attempts + 1, next_attempt_at = :at{_OF_ONE}")
_TENANTS = text("SELECT DISTINCT tenant_id FROM embedding_backlog WHERE space = :space AND next_attempt_at <= :now")
_SIZE = text("SELECT COUNT(*) FROM embedding_backlog WHERE space = :space")
