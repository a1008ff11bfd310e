"""The approximate indexes of large tenants: build and drop them concurrently, and record them for searches.

One process at a time does either, on a connection of its own that holds an advisory lock. A builder that dies releases
it when its server process ends, and until then no other begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy
import structlog
from sqlalchemy import ColumnElement, Connection, Engine, and_, case, delete, func, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.pool import NullPool

from pipeline.caches import RefreshingValue
from pipeline.database.bounded_waits import NO_LIMIT, SILENT_S, bound_postgres
from pipeline.database.engines import postgres_errors
from pipeline.database.postgres_tables import vector_indexes
from pipeline.database.rows import record_of
from pipeline.distances import MEASURES, Distance
from pipeline.errors import PipelineError
from pipeline.metrics.definitions import IndexSummary
from pipeline.records import TenantId
from pipeline.semantic.index_plan import (
    ExistingIndex,
    IndexRow,
    IndexState,
    Span,
    Step,
    Tail,
    build_bytes,
    by_tenant,
    covering,
    graph_bytes,
)
from pipeline.semantic.search_plan import IndexedRange
from pipeline.tenants.accounts import TENANT_ID

log = structlog.get_logger(__name__)

FRESH_S = 5.0  # how late a process may learn that a tenant has an index, or has lost its last one
BUILD_TIMEOUT_MS = 0  # no limit
# The rows that a scan of a graph goes on to beyond ef_search are no guarantee, so they may come out of order: searches
# sort them. It visits some ten rows for each one that it returns.
_GRAPH_SCAN = {
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "2",
}
_LOCK = 0x63686F7265  # any constant will do; it names the lock of the one index builder in this database


def sizes(mysql: Connection, *, above: int) -> dict[TenantId, int]:
    """Return the tenants with more than ``above`` shown chunks, and their counts."""
    return {TenantId(row.tenant_id): int(row.chunks) for row in mysql.execute(_SIZES, {"above": above})}


def summaries(connection: Connection) -> list[IndexSummary]:
    """Return the ready indexes of all tenants, by table and kind."""
    return [record_of(IndexSummary, row) for row in connection.execute(_SUMMARIES)]


class IndexBuilder:
    """The one process that may build and drop indexes now."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def recorded(self) -> list[IndexRow]:
        """Return the recorded indexes of every tenant."""
        return [record_of(IndexRow, row) for row in self._connection.execute(_RECORDED)]

    def existing(self) -> list[ExistingIndex]:
        """Return the indexes in the database, on any table of vectors."""
        return [
            ExistingIndex(table=row.table_name, name=row.index_name, valid=row.indisvalid)
            for row in self._connection.execute(_EXISTING)
        ]

    def takes_graphs(self) -> bool:
        """Return whether pgvector goes on with a scan of a graph that filters leave short, as it does from 0.8 on."""
        version = self._connection.execute(text("SELECT extversion FROM pg_extension WHERE extname = 'vector'"))
        major, minor, *_ = str(version.scalar_one()).split(".")
        return (int(major), int(minor)) >= (0, 8)

    def tail(self, tenant_id: TenantId, table: str, spans: Sequence[Span]) -> Tail:
        """Count the tenant's rows in these spans, which no index covers; reads only the btree of their numbers."""
        statement = text(
            f"SELECT count(*) AS rows, min(seq) AS oldest, max(seq) AS newest FROM {table}"
            f" WHERE {numbered_rows(tenant_id, spans)}"
        )
        row = self._connection.execute(statement).one()
        if not row.rows:
            return Tail(rows=0, first=spans[-1][0], end=spans[-1][0])
        first = max(first for first, _ in spans if first <= row.oldest)
        return Tail(rows=row.rows, first=first, end=row.newest + 1)

    def count(self, row: IndexRow) -> int:
        """Count the rows in the range of an index, and record the number."""
        statement = f"SELECT count(*) FROM {row.table} WHERE {numbered_rows(row.tenant_id, [_span(row)])}"
        chunks = int(self._connection.execute(text(statement)).scalar_one())
        self._update(row, chunks=chunks)
        return chunks

    def record(self, step: Step, state: IndexState, *, lists: int = 0, probes: tuple[int, int] | None = None) -> None:
        """Record a state with the range of a step; its time begins now, unless the state is unchanged. ``probes``: how
        many lists are read until the index is measured, for the nearest ten and the nearest hundred."""
        few, deep = probes or (None, None)
        written = {"state": state, "chunks": step.chunks, "first_seq": step.first, "end_seq": step.end}
        key = {"tenant_id": step.tenant_id, "table_name": step.table, "index_name": step.name}
        first: dict[str, object] = {"built_rows": step.chunks, "graph": step.graph, "graph_ms": step.graph_ms}
        first |= {"lists": lists, "probes": few, "deep_probes": deep}
        statement = insert(vector_indexes).values(key | written | first)
        is_same = vector_indexes.c.state == statement.excluded.state
        changed_at = case((is_same, vector_indexes.c.changed_at), else_=func.now())
        self._connection.execute(
            statement.on_conflict_do_update(index_elements=list(key), set_=written | {"changed_at": changed_at})
        )

    def change(self, step: Step, state: IndexState) -> None:
        """Update the state of an index that is recorded already."""
        self._update(step, state=state, changed_at=func.now())

    def forget(self, tenant_id: TenantId, table: str, name: str) -> None:
        """Delete the record of an index."""
        self._connection.execute(delete(vector_indexes).where(_is(tenant_id, table, name)))

    def build(self, step: Step, tenant_id: TenantId, *, operator_class: str, dimension: int, lists: int) -> float:
        """Build the index of a range concurrently with reads and writes. Returns the seconds it took.

        Before PostgreSQL builds, it waits for every transaction that has written to the table, so all numbers below the
        range's end that were drawn by then are committed or lost: no later insertion falls into the range. A graph is
        built by one process: queries need the other processors, and several would need shared memory.
        """
        began = time.monotonic()
        kind, options, needed = "ivfflat", f"lists = {int(lists)}", build_bytes(lists, dimension)
        if step.graph:
            kind, options = "hnsw", step.graph
            needed = graph_bytes(step.chunks, dimension=dimension, m=int(step.graph.split(",")[0].removeprefix("m = ")))
        self._connection.exec_driver_sql("RESET max_parallel_maintenance_workers")
        self._set(maintenance_work_mem=f"{needed // 2**20 + 1}MB", statement_timeout=str(int(BUILD_TIMEOUT_MS)))
        if step.graph:
            self._set(max_parallel_maintenance_workers="0")
        self._connection.exec_driver_sql(
            f"CREATE INDEX CONCURRENTLY {step.name} ON {step.table} USING {kind} (embedding {operator_class})"
            f" WITH ({options}) WHERE {indexed_rows(tenant_id, [_span(step)], is_graph=bool(step.graph))}"
        )
        took_s = time.monotonic() - began
        self._update(step, build_s=took_s)
        return took_s

    def drop(self, name: str) -> None:
        """Drop an index, finished or not. Does nothing if it is gone already."""
        self._connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")

    def nearest(self, row: IndexRow, vector: str, *, distance: Distance, limit: int, probes: int | None) -> list[str]:
        """Return the nearest chunks in the range of an index, in order: through ``probes`` lists, or a graph with this
        ef_search; None: exactly."""
        effort = {"ef_search" if row.graph else "ivfflat_probes": probes or 1}
        self._set(enable_sort="off", enable_seqscan="off", **scan_settings(**effort))
        rows = indexed_rows(row.tenant_id, [_span(row)], is_graph=bool(row.graph))
        if probes is None:
            rows = numbered_rows(row.tenant_id, [_span(row)])
        scanned = (
            f"SELECT chunk_id, embedding {MEASURES[distance].operator} CAST(%(query)s AS halfvec) AS distance FROM {row.table}"
            f" WHERE {rows}"
        )
        if probes is None:
            scanned = f"SELECT * FROM ({scanned} OFFSET 0) scanned"
        nearest = f"SELECT * FROM ({scanned} ORDER BY distance LIMIT %(limit)s) nearest OFFSET 0"
        statement = f"SELECT chunk_id FROM ({nearest}) found ORDER BY distance, chunk_id"
        result = self._connection.exec_driver_sql(statement, {"query": vector, "limit": limit})
        return [str(chunk_id) for chunk_id in result.scalars()]

    def record_recall(
        self, row: IndexRow, *, probes: int, deep_probes: int, recall: float, search_ms: float, questions: int
    ) -> None:
        """Record a measured recall, and how long a search took."""
        measured = {"recall": recall, "search_ms": search_ms, "questions": questions, "measured_at": func.now()}
        self._update(row, probes=probes, deep_probes=deep_probes, **measured)

    def record_graph(self, lists: IndexRow, *, graph_ms: float) -> None:
        """Record how long a search took through a graph that was not kept."""
        self._update(lists, graph_ms=graph_ms)

    def _set(self, **values: str) -> None:
        set_values(self._connection, values)

    def _update(self, index: IndexRow | Step, **values: Any) -> None:
        where = _is(index.tenant_id, index.table, index.name)
        self._connection.execute(update(vector_indexes).where(where).values(values))


def set_values(connection: Connection, values: Mapping[str, str]) -> None:
    """Set configuration parameters of this session."""
    parts = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in values.items())
    connection.exec_driver_sql(f"SELECT {parts}")


def scan_settings(*, ivfflat_probes: int = 0, ef_search: int = 0) -> dict[str, str]:
    """Return the parameters of a search that reads so many lists, and graphs with this ef_search. A pgvector that knows
    no iterative scan has no graphs, and gets no parameters of them."""
    lists = {"ivfflat.probes": str(ivfflat_probes)} if ivfflat_probes else {}
    return lists | ({"hnsw.ef_search": str(ef_search), **_GRAPH_SCAN} if ef_search else {})


def indexed_rows(tenant_id: TenantId, spans: Sequence[Span], *, is_graph: bool = False) -> str:
    """Return the condition that a row is the tenant's and has a number in one of these spans.

    Partial indexes take no parameters, so index and statement need the same words. Those of a graph differ from those of the
    lists of the same range."""
    return f"tenant_id = {tenant_literal(tenant_id)} AND {_in_spans(spans, 'seq + 0' if is_graph else 'seq')}"


def numbered_rows(tenant_id: TenantId, spans: Sequence[Span]) -> str:
    """Return the same condition in the wording that only the btree of numbers can serve (by its collation)."""
    return f'tenant_id COLLATE "C" = {tenant_literal(tenant_id)} AND {_in_spans(spans)}'


def _in_spans(spans: Sequence[Span], number: str = "seq") -> str:
    parts = [
        f"{number} >= {int(first)}" + ("" if end is None else f" AND {number} < {int(end)}") for first, end in spans
    ]
    return parts[0] if len(parts) == 1 else f"({' OR '.join(f'({part})' for part in parts)})"


@contextmanager
def index_builder(postgres: Engine, *, silent_s: float = SILENT_S) -> Iterator[IndexBuilder | None]:
    """Yield the right to build and drop indexes, or None while another process has it. Raises StoreUnavailable.

    The connection has no statement timeout: it ends once the server has greeted nobody for ``silent_s``, and its server
    process checks every ten seconds whether the client is alive.
    """
    options = f"-c statement_timeout={BUILD_TIMEOUT_MS} -c client_connection_check_interval=10s"
    engine = sqlalchemy.create_engine(
        postgres.url,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"options": options, "connect_timeout": 5},
    )
    bound_postgres(engine, limit_s=NO_LIMIT, silent_s=silent_s)
    try:
        with postgres_errors(), engine.connect() as connection:
            mine = connection.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": _LOCK}).scalar_one()
            yield IndexBuilder(connection) if mine else None
    finally:
        engine.dispose()


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantIndexes:
    """The ranges of a tenant that have an index, and how many rows were outside them at the last look."""

    ranges: tuple[IndexedRange, ...]
    tail: int


class KnownIndexes:
    """The ready indexes of all tenants, read as a whole every few seconds, so that no query reads them.

    Thread-safe. While PostgreSQL is away the last ones hold.
    """

    def __init__(self, postgres: Callable[[], Engine], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._postgres = postgres
        self._known: RefreshingValue[_Known] = RefreshingValue(
            self._read, fresh_s=FRESH_S, on_failure=_report, clock=clock
        )

    def of(self, tenant_id: TenantId, table: str) -> TenantIndexes | None:
        """Return the indexes of a tenant in a table; None if its rows must be compared one by one."""
        try:
            return self._known.get().get((tenant_id, table))
        except PipelineError as error:
            _report(error)
            return None

    def _read(self) -> _Known:
        with postgres_errors(), self._postgres().connect() as connection:
            rows = [record_of(IndexRow, row) for row in connection.execute(_RECORDED)]
        indexes: _Known = {}
        for key, group in by_tenant(rows).items():
            if ranges := tuple(_range(row) for row in covering(group)):
                tail = sum(row.chunks for row in group if row.state == "wanted")
                indexes[key] = TenantIndexes(ranges=ranges, tail=tail)
        return indexes


def _report(error: PipelineError) -> None:
    log.warning("vector_indexes_not_read", code=error.code)


_Known = dict[tuple[TenantId, str], TenantIndexes]


def _range(row: IndexRow) -> IndexedRange:
    return IndexedRange(
        first=row.first,
        end=row.end,
        rows=row.chunks,
        lists=row.lists,
        probes=row.probes or row.lists,
        deep_probes=row.deep_probes or row.lists,
        recall=row.recall,
        is_graph=bool(row.graph),
    )


def _span(index: IndexRow | Step) -> Span:
    return index.first or 0, index.end


def _is(tenant_id: TenantId | None, table: str, name: str) -> ColumnElement[bool]:
    """Return the condition that a row of ``vector_indexes`` records this index."""
    columns = vector_indexes.c
    return and_(columns.tenant_id == tenant_id, columns.table_name == table, columns.index_name == name)


def tenant_literal(tenant_id: TenantId) -> str:
    """Return the tenant id as an SQL literal. Indexes take no parameters, and only a statement with a literal tenant
    can be proven to fit its index. Raises ValueError for an invalid id."""
    if not TENANT_ID.fullmatch(tenant_id):
        raise ValueError("invalid tenant id")
    return f"'{tenant_id}'"


_SIZES = text(
    "SELECT tenant_id, SUM(chunk_count) AS chunks FROM namespaces GROUP BY tenant_id HAVING SUM(chunk_count) > :above"
)

_RECORDED = text(
    'SELECT tenant_id, table_name AS "table", index_name AS name, state, chunks, first_seq AS first, end_seq AS "end",'
    " COALESCE(built_rows, 0) AS built_rows, graph, COALESCE(lists, 0) AS lists, probes, deep_probes, recall,"
    " search_ms, graph_ms,"
    " CAST(EXTRACT(EPOCH FROM now() - changed_at) AS double precision) AS idle_s,"
    " CAST(EXTRACT(EPOCH FROM now() - measured_at) AS double precision) AS measured_s"
    " FROM vector_indexes ORDER BY tenant_id, table_name, index_name"
)
_SUMMARIES = text(
    "SELECT table_name AS \"table\", CASE WHEN graph IS NULL THEN 'ivfflat' ELSE 'hnsw' END AS kind,"
    " count(*) AS indexes, CAST(sum(chunks) AS bigint) AS rows, min(recall) AS recall, max(search_ms) AS search_ms,"
    " CAST(COALESCE(sum(pg_relation_size(to_regclass(index_name))), 0) AS bigint) AS disk_bytes"
    " FROM vector_indexes WHERE state = 'ready' GROUP BY 1, 2 ORDER BY 1, 2"
)
_EXISTING = text(
    "SELECT t.relname AS table_name, c.relname AS index_name, i.indisvalid FROM pg_index i"
    " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
    " WHERE t.relnamespace = current_schema()::regnamespace AND c.relname ~ '^chunk_embeddings(_[0-9]+)?_ann_'"
)
