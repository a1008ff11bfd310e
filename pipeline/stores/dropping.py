"""Rows of generations that nobody is to see any more: chunks, parents, bytes, fields."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import BindParameter, bindparam, text

from pipeline.records import Generation, Namespace
from pipeline.stores.document_sources import Sources
from pipeline.stores.rows import TenantStore

Pair = tuple[str, int]  # document id and generation


class Dropping(TenantStore):
    """One tenant's rows."""

    def drop(self, generations: Sequence[Generation]) -> None:
        """Drop the chunks of exactly these hidden generations, and their bytes and fields unless they may be retried or
        rolled back to."""
        ordered = sorted(generations, key=lambda each: (each.scope.namespace, each.document_id, each.number))
        for namespace, group in groupby(ordered, key=lambda each: each.scope.namespace):
            self._drop(namespace, [(str(each.document_id), each.number) for each in group])

    def _drop(self, namespace: Namespace, pairs: Sequence[Pair]) -> None:
        rows = {
            row.document_id: row
            for row in self._run(_LOCK, namespace=namespace, ids=sorted({document for document, _ in pairs}))
        }
        going = [pair for pair in pairs if pair[0] not in rows or rows[pair[0]].published_generation != pair[1]]
        for table in ("chunks", "parent_chunks"):
            self._delete(table, namespace, going)
        deleted = [pair for pair in going if pair[0] not in rows or pair[1] < rows[pair[0]].deleted_generation]
        self._delete("kept_generations", namespace, deleted)
        over = [pair for pair in going if pair in deleted or _is_over(rows[pair[0]], pair[1])]
        kept = self._kept(namespace, over)
        going = [pair for pair in over if pair not in kept]
        sources = Sources(self._connection, self._tenant_id)
        named = [sources.named_by(namespace, number, ids) for number, ids in by_number(going)]
        for table in ("payloads", "generations"):
            self._delete(table, namespace, going)
        sources.drop_unused(namespace, set().union(*named))

    def _kept(self, namespace: Namespace, pairs: Sequence[Pair]) -> set[Pair]:
        kept: set[Pair] = set()
        for number, ids in by_number(pairs):
            rows = self._connection.execute(_KEPT, self._key(namespace, number, ids)).scalars()
            kept.update((document_id, number) for document_id in rows)
        return kept

    def _delete(self, table: str, namespace: Namespace, pairs: Sequence[Pair]) -> None:
        for number, ids in by_number(pairs):
            self._connection.execute(_DELETE[table], self._key(namespace, number, ids))

    def _key(self, namespace: Namespace, number: int, ids: Sequence[str]) -> dict[str, Any]:
        return {"tenant": self._tenant_id, "namespace": namespace, "ids": ids, "generation": number}


def by_number(pairs: Sequence[Pair]) -> list[tuple[int, list[str]]]:
    """Group documents by generation number, sorted, for exact key ranges that touch and lock no other generation."""
    grouped: dict[int, list[str]] = {}
    for document_id, number in sorted(pairs):
        grouped.setdefault(number, []).append(document_id)
    return sorted(grouped.items())


def _is_over(row: Any, number: int) -> bool:
    return bool(number < max(row.published_generation or 0, row.settled_generation + 1))


_OF_SOME = "WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids AND generation = :generation"
_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_TABLES = ("chunks", "parent_chunks", "kept_generations", "payloads", "generations")
_DELETE = {table: text(f"DELETE FROM {table} {_OF_SOME}").bindparams(_IDS) for table in _TABLES}
_KEPT = text(f"SELECT document_id FROM kept_generations {_OF_SOME}").bindparams(_IDS)
_LOCK = text(
    "SELECT document_id, published_generation, deleted_generation, settled_generation FROM documents"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids ORDER BY document_id FOR UPDATE"
).bindparams(bindparam("ids", expanding=True))
