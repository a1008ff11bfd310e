"""Copy one tenant's rows of every table from one pair of stores to another, by what differs.

Each side digests its rows in the server, by buckets of documents, both at the same time. Buckets whose number of rows or
sum of digests differ are deleted at the target and copied again, so a round costs a scan on each side and what has changed,
a repeated round repairs an interrupted one, and a round that copies nothing proves that both sides hold the same rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql as postgres_sql
from sqlalchemy import Column, Connection, Engine, LargeBinary, MetaData, Table, text
from sqlalchemy.dialects.mysql import BINARY, CHAR, LONGBLOB, MEDIUMBLOB, MEDIUMTEXT, TEXT, VARCHAR
from sqlalchemy.dialects.postgresql import UUID

from pipeline.database import mysql_tables, postgres_tables
from pipeline.database.engines import mysql_errors, postgres_errors
from pipeline.database.mysql_columns import JsonText
from pipeline.database.rows import now, slices
from pipeline.database.write_fence import fenced, hold_fence
from pipeline.records import TenantId

BUCKETS: Final = 4096
_DELETED_AT_ONCE = 512  # buckets, each time with a scan of the tenant's rows
_ROWS_AT_ONCE, _BODIES_AT_ONCE = 500, 4
_DIRECTORY = ("placements", "write_fences")

Summary = Mapping[int, tuple[int, int]]  # by bucket: rows, sum of their digests


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """A table that holds rows of tenants. ``columns``: those that are copied; ``digest`` and ``bucket``: SQL of a row."""

    name: str
    columns: tuple[str, ...]
    digest: str
    bucket: str
    has_bodies: bool = False


def tables_of_mysql() -> list[CopiedTable]:
    """Return the tables of the system of record that move with a tenant."""
    tables = (table for table in mysql_tables.metadata.sorted_tables if "tenant_id" in table.c)
    return [_of_mysql(table) for table in tables if table.name not in _DIRECTORY]


def tables_of_postgres(vector_tables: Sequence[str]) -> list[CopiedTable]:
    """Return the tables of the vector store that move with a tenant. Indexes are built anew where it arrives."""
    vectors = postgres_tables.vector_table("any", MetaData(), dimension=1, operator_class="")
    documents = _of_postgres(postgres_tables.document_embeddings, "document_embeddings")
    return [*(_of_postgres(vectors, name) for name in vector_tables), documents]


def _of_mysql(table: Table) -> CopiedTable:
    values = ", ".join(f"IFNULL({_as_mysql_text(column)}, '-')" for column in table.c)
    columns = [column.name for column in _bucket_columns(table)]
    return CopiedTable(
        name=table.name,
        columns=tuple(f"`{column.name}`" for column in table.c),
        digest=f"CAST(CONV(LEFT(SHA2(CONCAT_WS(',', {values}), 256), 15), 16, 10) AS UNSIGNED)",
        bucket=f"CRC32(CONCAT_WS(',', {', '.join(f'HEX(`{name}`)' for name in columns)})) MOD {BUCKETS}",
        has_bodies=any(isinstance(column.type, LONGBLOB) for column in table.c),
    )


def _as_mysql_text(column: Column[Any]) -> str:
    if isinstance(column.type, JsonText | MEDIUMTEXT | TEXT | MEDIUMBLOB | LONGBLOB):
        return f"SHA2(`{column.name}`, 256)"  # MySQL 9.6 has no MD5
    if isinstance(column.type, VARCHAR | CHAR | BINARY) or column.type.__class__.__name__ == "VARBINARY":
        return f"HEX(`{column.name}`)"
    return f"`{column.name}`"


def _of_postgres(table: Table, name: str) -> CopiedTable:
    columns = [column for column in table.c if column.name != "seq"]  # a number of the target's own sequence
    values = ", ".join(f"coalesce({_as_postgres_text(column)}, '-')" for column in columns)
    bucket = ", ".join(column.name for column in _bucket_columns(table))
    return CopiedTable(
        name=name,
        columns=tuple(column.name for column in columns),
        digest=f"('x' || left(md5(concat_ws(',', {values})), 15))::bit(60)::bigint",
        bucket=f"('x' || left(md5(concat_ws(',', {bucket})), 3))::bit(12)::int",
    )


def _as_postgres_text(column: Column[Any]) -> str:
    if column.name == "embedding":
        return "md5(halfvec_send(embedding))"
    if isinstance(column.type, LargeBinary):
        return f"encode({column.name}, 'hex')"
    return f"{column.name}::text" if isinstance(column.type, UUID) else f"md5({column.name}::text)"


def _bucket_columns(table: Table) -> list[Column[Any]]:
    """Return the document of a row, or its key where it has none."""
    if "document_id" in table.c and "namespace" in table.c:
        return [table.c.namespace, table.c.document_id]
    return list(table.primary_key.columns)


class RowCopy:
    """The copy of one tenant between two engines of the same kind, whose statements may take long. The target's fence must
    be closed: a copy that goes on after the tenant has arrived there raises PlacementRefused instead of changing rows."""

    def __init__(self, source: Engine, target: Engine, tenant_id: TenantId, *, is_mysql: bool) -> None:
        self._source, self._target, self._tenant_id = source, fenced(target, tenant_id, is_closed=True), tenant_id
        self.rows: dict[str, int] = {}  # of the source, by table, as last compared
        self._differed: dict[str, list[int]] = {}  # the buckets that were copied, by table, when it was last compared
        self._errors = mysql_errors if is_mysql else postgres_errors
        self._copy = self._copy_mysql if is_mysql else self._copy_postgres

    def synchronise(self, table: CopiedTable) -> int:
        """Make the target's rows of a table equal to the source's; return how many rows were deleted or copied. Raises
        StoreUnavailable."""
        there, here = self._compared(table)
        self.rows[table.name] = sum(rows for rows, _ in there.values())
        return self._level(table, there, here)

    def prove(self, table: CopiedTable) -> int:
        """Do the same where nobody else has written since `synchronise`: only what it copied can differ."""
        copied = self._differed[table.name]
        return self._level(table, *self._compared(table, among=copied)) if copied else 0

    def _level(self, table: CopiedTable, there: Summary, here: Summary) -> int:
        differing = sorted(bucket for bucket in there.keys() | here.keys() if there.get(bucket) != here.get(bucket))
        self._differed[table.name] = differing
        if not differing:
            return 0
        deleted = self._delete(table, [bucket for bucket in differing if bucket in here])
        wanted = [bucket for bucket in differing if bucket in there]
        return deleted + (self._copy(table, wanted) if wanted else 0)

    def _compared(self, table: CopiedTable, among: Sequence[int] = ()) -> tuple[Summary, Summary]:
        """Return the summaries of source and target, of some buckets or of all."""
        condition = f" AND {_among(table, among)}" if among else ""
        statement = (
            f"SELECT {table.bucket} AS bucket, COUNT(*), SUM({table.digest}) FROM {table.name}"
            f" WHERE tenant_id = :tenant{condition} GROUP BY bucket"
        )

        def summary(engine: Engine) -> Summary:
            with self._errors(), engine.connect() as connection:
                rows = connection.execute(text(statement), {"tenant": self._tenant_id})
                return {int(bucket): (int(count), int(digests)) for bucket, count, digests in rows}

        with ThreadPoolExecutor(2) as both:
            there, here = both.map(summary, (self._source, self._target))
        return there, here

    def _delete(self, table: CopiedTable, buckets: Sequence[int]) -> int:
        deleted = 0
        for some in slices(buckets, _DELETED_AT_ONCE):
            statement = text(f"DELETE FROM {table.name} WHERE tenant_id = :tenant AND {_among(table, some)}")
            with self._errors(), self._target.begin() as connection:
                deleted += connection.execute(statement, {"tenant": self._tenant_id}).rowcount
        return deleted

    def _copy_mysql(self, table: CopiedTable, buckets: Sequence[int]) -> int:
        columns = ", ".join(table.columns)
        select = f"SELECT {columns} FROM {table.name} WHERE tenant_id = %s AND {_among(table, buckets)}"
        insert = f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join(['%s'] * len(table.columns))})"
        copied = 0
        with mysql_errors(), self._source.connect() as reading:
            streamed = reading.execution_options(stream_results=True, max_row_buffer=_ROWS_AT_ONCE)
            rows = streamed.exec_driver_sql(select, (self._tenant_id,))
            for batch in rows.partitions(_BODIES_AT_ONCE if table.has_bodies else _ROWS_AT_ONCE):
                with self._target.begin() as connection:
                    connection.exec_driver_sql(insert, [tuple(row) for row in batch])
                copied += len(batch)
        return copied

    def _copy_postgres(self, table: CopiedTable, buckets: Sequence[int]) -> int:
        columns = ", ".join(table.columns)
        rows = f"SELECT {columns} FROM {table.name} WHERE tenant_id = {{}} AND {_among(table, buckets)}"
        select = postgres_sql.SQL(f"COPY ({rows}) TO STDOUT (FORMAT BINARY)").format(
            postgres_sql.Literal(self._tenant_id)
        )
        insert = f"COPY {table.name} ({columns}) FROM STDIN (FORMAT BINARY)"
        with _cursor(self._source) as reading, _cursor(self._target) as writing:
            with reading.copy(select) as rows, writing.copy(insert) as copy:
                for piece in rows:
                    copy.write(piece)
            return int(writing.rowcount)


def _among(table: CopiedTable, buckets: Sequence[int]) -> str:
    return f"{table.bucket} IN ({', '.join(map(str, buckets))})"


@contextmanager
def _cursor(engine: Engine) -> Iterator[Any]:
    """Provide psycopg's own cursor in a transaction."""
    with postgres_errors(), engine.connect() as connection:
        driver: Any = connection.connection
        with connection.begin(), driver.cursor() as cursor:
            hold_fence(connection)
            yield cursor


def end_leases(connection: Connection, tenant_id: TenantId) -> None:
    """End the leases of the tenant's items: their workers can write no more, and the next sweep queues them again."""
    statement = "UPDATE job_items SET lease_until = :now WHERE tenant_id = :tenant AND state = 'running'"
    connection.execute(text(statement), {"tenant": tenant_id, "now": now()})
