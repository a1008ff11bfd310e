"""Shared helpers of the MySQL stores: bulk statements, times, JSON."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, TypeVar, overload

import orjson
from pymysql.cursors import RE_INSERT_VALUES
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    CursorResult,
    Executable,
    Row,
    Table,
    and_,
    delete,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy.dialects.mysql import insert as upsert

from pipeline.database.statements import sql
from pipeline.records import Chunking, DocumentId, Generation, Namespace, Scope, TenantId

Record = TypeVar("Record")

_IDS_PER_STATEMENT = 1000
_FIRST, _LAST = datetime.min, datetime.max.replace(microsecond=0)  # a column without fractions would round up


class TenantStore:
    """The base of a store of one tenant's rows in MySQL."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def _run(self, statement: Executable | str, **values: Any) -> CursorResult[*tuple[Any, ...]]:
        """Execute a statement or its SQL with ``values`` and the tenant as ``:tenant``."""
        prepared = sql(statement) if isinstance(statement, str) else statement
        return self._connection.execute(prepared, {"tenant": self._tenant_id, **values})

    def _own(self, table: Table) -> ColumnElement[bool]:
        """Return the condition that a row of ``table`` is the tenant's."""
        return table.c.tenant_id == self._tenant_id

    def _insert_row(self, table: Table, **values: Any) -> CursorResult[*tuple[Any, ...]]:
        return self._connection.execute(insert(table).values(tenant_id=self._tenant_id, **values))

    def _in_slices(self, statement: Executable, namespace: str, ids: Iterable[str]) -> Iterator[Row[*tuple[Any, ...]]]:
        """Yield the rows that a statement selects of ``:ids`` in a namespace, sorted, a thousand ids at a time."""
        for batch in slices(sorted(set(ids)), _IDS_PER_STATEMENT):
            yield from self._run(statement, namespace=namespace, ids=list(batch))

    def _upsert(self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any], **first: Any) -> None:
        """Write ``values`` to the tenant's row of this key; a new row gets those of ``first`` too."""
        statement = upsert(table).values(tenant_id=self._tenant_id, **key, **values, **first)
        self._connection.execute(statement.on_duplicate_key_update(dict(values)))

    def _lock_and_count(self, table: Table) -> int:
        """Return the number of the tenant's rows, and block adding others this way until the transaction ends."""
        self._run("SELECT 1 FROM tenants WHERE tenant_id = :tenant FOR UPDATE")
        statement = select(func.count()).select_from(table).where(self._own(table))
        return int(self._connection.execute(statement).scalar_one())

    def _remove_rows(self, table: Table, **key: Any) -> int:
        """Delete the tenant's rows with these values, and return how many."""
        same = (table.c[name] == value for name, value in key.items())
        return self._connection.execute(delete(table).where(self._own(table), *same)).rowcount

    def _generation(self, namespace: str, document_id: str, number: int) -> Generation:
        scope = Scope(tenant_id=self._tenant_id, namespace=Namespace(namespace))
        return Generation(scope=scope, document_id=DocumentId(document_id), number=number)


def generation_key(generation: Generation) -> dict[str, Any]:
    """Return the parameters that name the rows of one generation."""
    return {
        "tenant": generation.scope.tenant_id,
        "namespace": generation.scope.namespace,
        "document": generation.document_id,
        "generation": generation.number,
    }


def by_namespace(generations: Sequence[Generation]) -> list[tuple[Namespace, list[Generation]]]:
    """Group generations by namespace, in its order."""
    grouped: defaultdict[Namespace, list[Generation]] = defaultdict(list)
    for generation in generations:
        grouped[generation.scope.namespace].append(generation)
    return sorted(grouped.items(), key=itemgetter(0))


def by_namespace_and_number(generations: Sequence[Generation]) -> list[tuple[Namespace, int, list[DocumentId]]]:
    """Group documents by namespace and generation number, all sorted, so that one statement serves a group."""
    grouped: defaultdict[tuple[Namespace, int], list[DocumentId]] = defaultdict(list)
    for generation in generations:
        grouped[generation.scope.namespace, generation.number].append(generation.document_id)
    return [(namespace, number, sorted(ids)) for (namespace, number), ids in sorted(grouped.items())]


def now() -> datetime:
    """Return the current time in UTC without a zone, as DATETIME columns hold it."""
    return datetime.now(UTC).replace(tzinfo=None)


@overload
def as_utc(moment: datetime) -> datetime: ...
@overload
def as_utc(moment: None) -> None: ...
def as_utc(moment: datetime | None) -> datetime | None:
    """Return a DATETIME column's value in UTC, with its zone."""
    return None if moment is None else moment.replace(tzinfo=UTC)


def record_of(kind: type[Record], row: Any, **given: Any) -> Record:
    """Return a ``kind`` whose fields are ``given`` or the row's columns of the same name, times with their zone."""
    columns = row if isinstance(row, Mapping) else row._mapping
    names = [field.name for field in fields(kind) if field.name not in given and field.name in columns]  # type: ignore[arg-type]
    values = {name: columns[name] for name in names}
    zoned = {name: as_utc(value) for name, value in values.items() if isinstance(value, datetime)}
    return kind(**(values | zoned | given))


def to_naive(moment: datetime | None) -> datetime | None:
    """Return a time for a DATETIME column; without a zone it is UTC. Times beyond the years 1 to 9999 are clipped."""
    if moment is None or moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        return _FIRST if moment.year == 1 else _LAST


def follows(
    at: Column[Any], key: Column[Any], position: tuple[datetime, Any], *, newest_first: bool = True
) -> ColumnElement[bool]:
    """Return the condition that a row comes after a position in a list ordered by ``at``, then ``key``."""
    moment, identifier = to_naive(position[0]), position[1]
    if newest_first:
        return or_(at < moment, and_(at == moment, key < identifier))
    return or_(at > moment, and_(at == moment, key > identifier))


def to_json(value: Any) -> str:
    """Return the JSON text that the MySQL stores write."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def metadata_of(column: str) -> dict[str, Any]:
    """Return a metadata column's value; an old integer beyond 64 bits becomes a float, which answers can hold."""
    metadata: dict[str, Any] = orjson.loads(column)
    return metadata


def readers_of(column: str | None) -> tuple[str, ...] | None:
    """Return the readers in a column; None for everyone."""
    return None if column is None else tuple(orjson.loads(column))


def chunking_to_json(chunking: Chunking) -> str:
    """Return the value of a column ``chunking``, without options if there are none."""
    values = asdict(chunking)
    if not chunking.options:
        del values["options"]
    return to_json(values)


def chunking_of(column: str) -> Chunking:
    """Return the chunking in a column."""
    return Chunking(**json.loads(column))


def insert_many(connection: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Run ``INSERT … VALUES (%s, …)`` for all rows, joined by PyMySQL to about 1 MB; return the rows written. Raises
    ValueError for a statement it would not join, such as one with a literal value."""
    if not RE_INSERT_VALUES.match(statement):
        raise ValueError(f"rows cannot be joined for: {statement}")
    return connection.exec_driver_sql(statement, list(rows)).rowcount if rows else 0


def placeholders(values: Iterable[Any]) -> str:
    """Return ``%s, %s, …`` for an IN list."""
    return ", ".join("%s" for _ in values)


def slices(values: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    """Yield ``values`` in pieces of at most ``size``."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
