"""The approximate indexes of large tenants: made and dropped beside everything else, and noted so that searches know.

One process at a time does either, on a connection of its own that holds an advisory lock; a builder that dies lets go
of it when its server process ends, and until then nobody else begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy
import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.pool import NullPool

from pipeline.core.indexing import Found, IndexRow, IndexShape, IndexState
from pipeline.errors import PipelineError
from pipeline.records import TenantId
from pipeline.stores.engines import postgres_errors
from pipeline.stores.tenants import TENANT_ID

log = structlog.get_logger(__name__)

FRESH_S = 5.0  # how late a process may learn that a tenant has an index, or has none any more
_LOCK = 0x63686F7265  # any constant will do; it names the lock of whoever makes or drops indexes in this database


def sizes(mysql: Connection, *, above: int) -> dict[TenantId, int]:
    """The tenants with more than so many shown chunks, and how many they have."""
    return {TenantId(row.tenant_id): int(row.chunks) for row in mysql.execute(_SIZES, {"above": above})}


class IndexBuilder:
    """The one process that may make and drop indexes now."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def noted(self) -> list[IndexRow]:
        """What is noted of every tenant's indexes."""
        return [
            IndexRow(
                tenant_id=TenantId(row.tenant_id),
                table=row.table_name,
                name=row.index_name,
                state=row.state,
                chunks=row.chunks,
                idle_s=float(row.idle_s),
            )
            for row in self._connection.execute(_NOTED)
        ]

    def found(self) -> list[Found]:
        """What the database has, on whichever table of vectors."""
        return [
            Found(table=row.table_name, name=row.index_name, valid=row.indisvalid)
            for row in self._connection.execute(_FOUND)
        ]

    def count(self, tenant_id: TenantId, table: str, *, most: int) -> int:
        """How many vectors the tenant has in the table; stops counting at ``most``."""
        statement = text(f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE tenant_id = :tenant LIMIT :most) counted")
        return int(self._connection.execute(statement, {"tenant": tenant_id, "most": most}).scalar_one())

    def note(self, tenant_id: TenantId, table: str, name: str, state: IndexState, chunks: int) -> None:
        """Write down a state; its time begins now, unless it is the one that was noted."""
        values = {"tenant": tenant_id, "table": table, "name": name, "state": state, "chunks": chunks}
        self._connection.execute(_NOTE, values)

    def forget(self, tenant_id: TenantId, table: str, name: str) -> None:
        """Take a note away."""
        self._connection.execute(_FORGET, {"tenant": tenant_id, "table": table, "name": name})

    def build(self, tenant_id: TenantId, table: str, name: str, *, operator_class: str, shape: IndexShape) -> float:
        """Make the index while everybody reads and writes. Gives the seconds it took."""
        began = time.monotonic()
        self._connection.exec_driver_sql(
            f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw (embedding {operator_class})"
            f" WITH (m = {int(shape.m)}, ef_construction = {int(shape.ef_construction)})"
            f" WHERE tenant_id = {tenant_literal(tenant_id)}"
        )
        took_s = time.monotonic() - began
        self._connection.execute(_TOOK, {"tenant": tenant_id, "table": table, "name": name, "took": took_s})
        return took_s

    def drop(self, name: str) -> None:
        """Drop an index, finished or not. Nothing happens if it is gone already."""
        self._connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")


@contextmanager
def index_builder(postgres: Engine, *, memory_mb: int) -> Iterator[IndexBuilder | None]:
    """The right to make and drop indexes, or None while another process has it. Raises StoreUnavailable.

    The connection is of its own kind: no limit on the time of a statement, and a server process that looks every ten
    seconds whether its client is still there.
    """
    options = (
        f"-c statement_timeout=0 -c maintenance_work_mem={int(memory_mb)}MB -c client_connection_check_interval=10s"
    )
    engine = sqlalchemy.create_engine(
        postgres.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args={"options": options}
    )
    try:
        with postgres_errors(), engine.connect() as connection:
            mine = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one()
            yield IndexBuilder(connection) if mine else None
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyIndex:
    """An index that searches may use, and how many chunks the tenant had when they were last counted."""

    name: str
    chunks: int


class KnownIndexes:
    """Which tenants have an index that is ready: read whole every few seconds, so that no query has to ask.

    Safe to share between threads. While PostgreSQL is away what was known last holds.
    """

    def __init__(self, postgres: Callable[[], Engine], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._postgres = postgres
        self._clock = clock
        self._known: dict[tuple[str, str], ReadyIndex] | None = None
        self._read_at = 0.0
        self._reading = threading.Lock()

    def of(self, tenant_id: TenantId, table: str) -> ReadyIndex | None:
        """The index of a tenant in a table, None if its rows are to be searched one by one."""
        known = self._known
        if known is None or self._clock() - self._read_at >= FRESH_S:
            known = self._refreshed(known)
        return known.get((tenant_id, table))

    def _refreshed(self, known: dict[tuple[str, str], ReadyIndex] | None) -> dict[tuple[str, str], ReadyIndex]:
        # Whoever comes while another thread reads takes what is known; only the first of all have to wait.
        if not self._reading.acquire(blocking=known is None):
            return known or {}
        try:
            if self._known is None or self._clock() - self._read_at >= FRESH_S:
                self._read_at = self._clock()
                self._known = self._read()
        except PipelineError as error:
            log.warning("vector_indexes_not_read", code=error.code)
        finally:
            self._reading.release()
        return self._known or {}

    def _read(self) -> dict[tuple[str, str], ReadyIndex]:
        with postgres_errors(), self._postgres().connect() as connection:
            return {
                (row.tenant_id, row.table_name): ReadyIndex(name=row.index_name, chunks=row.chunks)
                for row in connection.execute(_READY)
            }


def tenant_literal(tenant_id: TenantId) -> str:
    """The tenant within a statement. Indexes take no parameters, and only a statement that names the tenant can be
    proven to fit its index, whatever it is executed with. Raises ValueError for what is no tenant's id."""
    if not TENANT_ID.fullmatch(tenant_id):
        raise ValueError("not the id of a tenant")
    return f"'{tenant_id}'"


_SIZES = text(
    "SELECT tenant_id, SUM(chunk_count) AS chunks FROM namespaces GROUP BY tenant_id HAVING SUM(chunk_count) > :above"
)

_NOTED = text(
    "SELECT tenant_id, table_name, index_name, state, chunks, EXTRACT(EPOCH FROM now() - changed_at) AS idle_s"
    " FROM vector_indexes ORDER BY tenant_id, table_name, index_name"
)

_READY = text(
    "SELECT tenant_id, table_name, index_name, chunks FROM vector_indexes WHERE state = 'ready' ORDER BY changed_at"
)

_NOTE = text(
    "INSERT INTO vector_indexes (tenant_id, table_name, index_name, state, chunks)"
    " VALUES (:tenant, :table, :name, :state, :chunks)"
    " ON CONFLICT (tenant_id, table_name, index_name) DO UPDATE SET state = EXCLUDED.state, chunks = EXCLUDED.chunks,"
    " changed_at = CASE WHEN vector_indexes.state = EXCLUDED.state THEN vector_indexes.changed_at ELSE now() END"
)

_FORGET = text("DELETE FROM vector_indexes WHERE tenant_id = :tenant AND table_name = :table AND index_name = :name")

_TOOK = text(
    "UPDATE vector_indexes SET build_s = :took WHERE tenant_id = :tenant AND table_name = :table AND index_name = :name"
)

_FOUND = text(
    "SELECT t.relname AS table_name, c.relname AS index_name, i.indisvalid FROM pg_index i"
    " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
    " WHERE t.relnamespace = current_schema()::regnamespace AND c.relname ~ '^chunk_embeddings(_[0-9]+)?_ann_'"
)
