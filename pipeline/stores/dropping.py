"""Rows of generations that nobody is to see any more: chunks, parents, bytes, fields."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, text

from pipeline.records import Generation, Namespace, TenantId

Pair = tuple[str, int]  # document id and generation


class Dropping:
    """One tenant's rows."""

    def __init__(self, connection: Connection, tenant_id: TenantId) -> None:
        self._connection = connection
        self._tenant_id = tenant_id

    def drop(self, generations: Sequence[Generation]) -> None:
        """Drop the chunks of exactly these generations, and the bytes and fields of each too unless it may still be
        tried again, or is kept to be rolled back to. Nothing is done to one that searches see."""
        ordered = sorted(generations, key=lambda each: (each.scope.namespace, each.document_id, each.number))
        for namespace, group in groupby(ordered, key=lambda each: each.scope.namespace):
            self._drop(namespace, [(str(each.document_id), each.number) for each in group])

    def _drop(self, namespace: Namespace, pairs: Sequence[Pair]) -> None:
        values = {"tenant": self._tenant_id, "namespace": namespace, "ids": sorted({document for document, _ in pairs})}
        rows = {row.document_id: row for row in self._connection.execute(_LOCK, values)}
        going = [pair for pair in pairs if pair[0] not in rows or rows[pair[0]].published_generation != pair[1]]
        for table in ("chunks", "parent_chunks"):
            self._delete(table, namespace, going)
        deleted = [pair for pair in going if pair[0] not in rows or pair[1] < rows[pair[0]].deleted_generation]
        self._delete("kept_generations", namespace, deleted)
        over = [pair for pair in going if pair in deleted or _is_over(rows[pair[0]], pair[1])]
        kept = self._kept(namespace, over)
        for table in ("payloads", "generations"):
            self._delete(table, namespace, [pair for pair in over if pair not in kept])

    def _kept(self, namespace: Namespace, pairs: Sequence[Pair]) -> set[Pair]:
        if not pairs:
            return set()
        rows = self._connection.execute(_KEPT, {**self._key(namespace, pairs), "pairs": list(pairs)})
        return {(document_id, generation) for document_id, generation in rows}

    def _delete(self, table: str, namespace: Namespace, pairs: Sequence[Pair]) -> None:
        if pairs:
            self._connection.execute(_DELETE[table], {**self._key(namespace, pairs), "pairs": list(pairs)})

    def _key(self, namespace: Namespace, pairs: Sequence[Pair]) -> dict[str, Any]:
        ids = sorted({document_id for document_id, _ in pairs})
        return {"tenant": self._tenant_id, "namespace": namespace, "ids": ids}


def _is_over(row: Any, number: int) -> bool:
    return bool(number < max(row.published_generation or 0, row.settled_generation + 1))


# Ids make a range of the key, which MariaDB does not make of pairs; the pairs keep it to exactly what is named.
_OF_PAIRS = (
    "WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
    " AND (document_id, generation) IN :pairs"
)
_BOTH: tuple[BindParameter[Any], ...] = (bindparam("ids", expanding=True), bindparam("pairs", expanding=True))
_TABLES = ("chunks", "parent_chunks", "kept_generations", "payloads", "generations")
_DELETE = {table: text(f"DELETE FROM {table} {_OF_PAIRS}").bindparams(*_BOTH) for table in _TABLES}
_KEPT = text(f"SELECT document_id, generation FROM kept_generations {_OF_PAIRS}").bindparams(*_BOTH)
_LOCK = text(
    "SELECT document_id, published_generation, deleted_generation, settled_generation FROM documents"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids ORDER BY document_id FOR UPDATE"
).bindparams(bindparam("ids", expanding=True))
