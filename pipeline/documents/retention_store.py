"""Replaced generations: retained for rollback, or retired until the sweeper drops their rows, as running queries may
still read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, generation_key, insert_many, now
from pipeline.database.statements import OF_DOCUMENTS, OF_GENERATION, sql
from pipeline.documents.source_store import Sources
from pipeline.records import Generation, Namespace, TenantId

Pair = tuple[str, int]  # document id and generation


class Retired(TenantStore):
    """One tenant's generations that wait to be dropped."""

    def add(self, generations: Sequence[Generation], *, after_s: float = 0.0, replaced: bool = False) -> None:
        """Drop these in ``after_s`` seconds at the earliest. ``replaced``: another generation was published instead
        just now."""
        moment = now()
        due_at = moment + timedelta(seconds=after_s)
        insert_many(
            self._connection,
            "INSERT INTO retired_generations (tenant_id, namespace, document_id, generation, due_at, replaced_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)",
            [
                (self._tenant_id, g.scope.namespace, g.document_id, g.number, due_at, moment if replaced else None)
                for g in sorted(generations, key=lambda g: (g.scope.namespace, g.document_id, g.number))
            ],
        )

    def due(self, *, limit: int) -> list[Generation]:
        """Return the generations to drop now, locked until the transaction ends, skipping rows of other sweepers. Hold
        the lock from before the drop until ``forget``: a generation here is not written anew (`Ledger.claim`)."""
        rows = self._run(
            "SELECT namespace, document_id, generation FROM retired_generations"
            " WHERE tenant_id = :tenant AND due_at <= :now ORDER BY due_at LIMIT :limit"
            " FOR UPDATE SKIP LOCKED",
            now=now(),
            limit=limit,
        )
        return [self._generation(*row) for row in rows]

    def forget(self, generations: Sequence[Generation]) -> None:
        """Note that the rows of these are dropped."""
        for namespace in sorted({generation.scope.namespace for generation in generations}):
            mine = [(str(g.document_id), g.number) for g in generations if g.scope.namespace == namespace]
            for number, ids in by_number(mine):
                self._run(_DELETE["retired_generations"], namespace=namespace, ids=ids, generation=number)


def tenants_with_retired(connection: Connection) -> list[TenantId]:
    """Return the tenants with generations to drop; reads only their ids."""
    rows = connection.execute(
        sql("SELECT DISTINCT tenant_id FROM retired_generations WHERE due_at <= :now"), {"now": now()}
    ).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


class GenerationRows(TenantStore):
    """One tenant's rows to drop."""

    def drop(self, generations: Sequence[Generation]) -> None:
        """Drop the chunks of exactly these hidden generations, and their bytes and fields unless they may be retried or
        rolled back to."""
        ordered = sorted(generations, key=lambda g: (g.scope.namespace, g.document_id, g.number))
        for namespace, group in groupby(ordered, key=lambda generation: generation.scope.namespace):
            self._drop(namespace, [(str(generation.document_id), generation.number) for generation in group])

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
            rows = self._run(_KEPT, namespace=namespace, ids=ids, generation=number).scalars()
            kept.update((document_id, number) for document_id in rows)
        return kept

    def _delete(self, table: str, namespace: Namespace, pairs: Sequence[Pair]) -> None:
        for number, ids in by_number(pairs):
            self._run(_DELETE[table], namespace=namespace, ids=ids, generation=number)


def by_number(pairs: Sequence[Pair]) -> list[tuple[int, list[str]]]:
    """Group documents by generation number, sorted, for exact key ranges that touch and lock no other generation."""
    grouped: dict[int, list[str]] = {}
    for document_id, number in sorted(pairs):
        grouped.setdefault(number, []).append(document_id)
    return sorted(grouped.items())


def _is_over(row: Any, number: int) -> bool:
    return bool(number < max(row.published_generation or 0, row.settled_generation + 1))


_OF_SOME = f"WHERE {OF_DOCUMENTS} AND generation = :generation"
_TABLES = ("chunks", "parent_chunks", "kept_generations", "payloads", "generations", "retired_generations")
_DELETE = {table: sql(f"DELETE FROM {table} {_OF_SOME}") for table in _TABLES}
_KEPT = sql(f"SELECT document_id FROM kept_generations {_OF_SOME}")
_LOCK = sql(
    "SELECT document_id, published_generation, deleted_generation, settled_generation FROM documents"
    f" WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE"
)


class RetainedGenerations(TenantStore):
    """One tenant's retained generations: of each document at most the one published before."""

    def keep(self, replaced: Sequence[Generation], *, for_s: float) -> None:
        """Keep these for ``for_s`` seconds, 0 for not at all, instead of those retained before."""
        for namespace in sorted({generation.scope.namespace for generation in replaced}):
            ids = sorted({g.document_id for g in replaced if g.scope.namespace == namespace})
            self._run(_FORGET_KEPT, namespace=namespace, ids=ids)
        if for_s <= 0:
            return
        until = now() + timedelta(seconds=for_s)
        insert_many(
            self._connection,
            "INSERT INTO kept_generations (tenant_id, namespace, document_id, generation, kept_until)"
            " VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)",
            [
                (self._tenant_id, g.scope.namespace, g.document_id, g.number, until)
                for g in sorted(replaced, key=lambda g: (g.scope.namespace, g.document_id))
            ],
        )

    def expired(self, *, limit: int) -> list[Generation]:
        """Release the retained generations whose time is up, and return them; retire them in the same transaction."""
        rows = self._run(_EXPIRED, now=now(), limit=limit).all()
        expired = [self._generation(*row) for row in rows]
        for generation in expired:
            self._connection.execute(_FORGET_ONE, generation_key(generation))
        return expired


def tenants_with_expired(connection: Connection) -> list[TenantId]:
    """Return the tenants with expired retained generations; reads only their ids."""
    return [TenantId(tenant_id) for tenant_id in connection.execute(_UNTIDY, {"now": now()}).scalars()]


_FORGET_KEPT = sql(f"DELETE FROM kept_generations WHERE {OF_DOCUMENTS}")

# One index lookup per tenant: there may be as many retained generations as documents.
_UNTIDY = sql(
    "SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT 1 FROM kept_generations k"
    " WHERE k.tenant_id = t.tenant_id AND k.kept_until <= :now)"
)

_EXPIRED = sql(
    "SELECT namespace, document_id, generation FROM kept_generations"
    " WHERE tenant_id = :tenant AND kept_until <= :now ORDER BY kept_until LIMIT :limit FOR UPDATE SKIP LOCKED"
)

_FORGET_ONE = sql(f"DELETE FROM kept_generations WHERE {OF_GENERATION}")
