"""Statements of the MySQL stores, and the conditions that many of them share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table, TextClause, bindparam, text

from pipeline.records import Generation, TenantId

OF_DOCUMENT = "tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
OF_DOCUMENTS = "tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
OF_GENERATION = f"{OF_DOCUMENT} AND generation = :generation"  # `rows.generation_key` has the values

_LIST = re.compile(r"\bIN :(\w+)")


@lru_cache(maxsize=1024)
def sql(statement: str) -> TextClause:
    """Return an executable statement; a parameter after ``IN`` takes a list. Parsing that of a search through twelve vector
    indexes takes 250 µs."""
    return text(statement).bindparams(*(bindparam(name, expanding=True) for name in set(_LIST.findall(statement))))


def same_document(one: str, other: str) -> str:
    """Return the condition that rows under two aliases belong to the same document."""
    columns = ("tenant_id", "namespace", "document_id")
    return " AND ".join(f"{one}.{column} = {other}.{column}" for column in columns)


def same_generation(one: str, other: str) -> str:
    """Return the condition that rows under two aliases belong to the same generation of a document."""
    return f"{same_document(one, other)} AND {one}.generation = {other}.generation"


def generation_columns(generation: Generation) -> tuple[str, str, str, int]:
    """Return the values of the columns that begin every key of a generation's rows."""
    return generation.scope.tenant_id, generation.scope.namespace, generation.document_id, generation.number


def columns(table: Table, record: type, alias: str = "", **instead: str) -> str:
    """Return the columns of ``table`` that hold fields of ``record``, in the order of the fields, as a list for a
    statement. ``instead``: expressions in place of columns, under their names."""
    names = (field.name for field in fields(record) if field.name in table.c)
    return ", ".join(
        f"{instead[name]} AS {name}" if name in instead else f"{alias}.{name}" if alias else name for name in names
    )


def tenant_ids(connection: Connection, statement: str, **values: Any) -> list[TenantId]:
    """Return the tenants that a statement across tenants selects."""
    return [TenantId(tenant_id) for tenant_id in connection.execute(sql(statement), values).scalars()]


@dataclass(frozen=True, slots=True)
class TenantsWith:
    """A statement across tenants that selects those with something to do; ``:now`` in it: in UTC."""

    statement: str

    def __call__(self, connection: Connection, **values: Any) -> list[TenantId]:
        """Return the tenants; ``values``: further ones of the statement."""
        return tenant_ids(connection, self.statement, now=_now(), **values)


def tenants_with_each(
    connection: Connection, statements: Mapping[str, TenantsWith], **values: Any
) -> dict[str, list[TenantId]]:
    """Return what each of several such statements selects, by the names given, in one round trip."""
    looks = [f"SELECT '{name}' AS look, tenant_id FROM ({each.statement}) {name}" for name, each in statements.items()]
    found: dict[str, list[TenantId]] = {name: [] for name in statements}
    for name, tenant_id in connection.execute(sql(" UNION ALL ".join(looks)), {"now": _now(), **values}):
        found[name].append(TenantId(tenant_id))
    return found


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
