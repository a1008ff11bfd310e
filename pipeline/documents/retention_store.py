"""Replaced generations: retained for rollback, or retired until no running query can read their rows."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, generation_key, insert_many, now
from pipeline.database.statements import OF_DOCUMENTS, OF_GENERATION, generation_columns, sql, tenant_ids
from pipeline.documents.outcome_store import by_namespace, by_namespace_and_number
from pipeline.documents.source_store import Sources
from pipeline.records import Generation, Namespace, TenantId


class Retired(TenantStore):
    """One tenant's generations that wait to be dropped."""

    def add(self, generations: Sequence[Generation], *, after_s: float = 0.0, replaced: bool = False) -> None:
        """Drop these in ``after_s`` seconds at the earliest. ``replaced``: another was published instead just now."""
        moment = now()
        times = (moment + timedelta(seconds=after_s), moment if replaced else None)
        insert_many(
            self._connection,
            "INSERT INTO retired_generations (tenant_id, namespace, document_id, generation, due_at, replaced_at)"
            " VALUES (%s, %s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)",
            [(*generation_columns(g), *times) for g in sorted(generations, key=generation_columns)],
        )

    def due(self, *, limit: int) -> list[Generation]:
        """Return the generations to drop now, locked until the transaction ends, skipping rows of other sweepers. Hold
        the lock from before the drop until ``forget``: a generation here is not written anew (`Ledger.claim`)."""
        return [self._generation(*row) for row in self._run(_DUE, now=now(), limit=limit)]

    def forget(self, generations: Sequence[Generation]) -> None:
        """Note that the rows of these are dropped."""
        for namespace, number, ids in by_namespace_and_number(generations):
            self._run(_DELETE["retired_generations"], namespace=namespace, ids=ids, generation=number)


def tenants_with_retired(connection: Connection) -> list[TenantId]:
    """Return the tenants with generations to drop; reads only their ids."""
    statement = "SELECT DISTINCT tenant_id FROM retired_generations WHERE due_at <= :now"
    return tenant_ids(connection, statement, now=now())


class GenerationRows(TenantStore):
    """One tenant's rows to drop."""

    def drop(self, generations: Sequence[Generation], *, is_retryable: bool = True) -> None:
        """Drop the chunks of these hidden generations, and bytes and fields unless retry or rollback need them. Not
        ``is_retryable``: their items cannot be retried, so that only a document's latest upload stays, as its state."""
        for namespace, group in by_namespace(generations):
            self._drop(namespace, group, is_retryable)

    def _drop(self, namespace: Namespace, generations: Sequence[Generation], is_retryable: bool) -> None:
        locked = self._run(_LOCK, namespace=namespace, ids=sorted({g.document_id for g in generations}))
        documents = {row.document_id: row for row in locked}
        hidden = [g for g in generations if not _is_published(g, documents.get(g.document_id))]
        self._delete(hidden, "chunks", "parent_chunks")
        deleted = {g for g in hidden if _is_deleted(g, documents.get(g.document_id))}
        self._delete(list(deleted), "kept_generations")
        ended = [g for g in hidden if g in deleted or _is_overtaken(g, documents[g.document_id], is_retryable)]
        retained = self._retained(ended)
        dropped = [g for g in ended if g not in retained]
        sources = Sources(self._connection, self._tenant_id)
        source_ids = [sources.named_by(*key) for key in by_namespace_and_number(dropped)]
        self._delete(dropped, "payloads", "generations")
        sources.drop_unused(namespace, set().union(*source_ids))

    def _retained(self, generations: Sequence[Generation]) -> set[Generation]:
        return {
            self._generation(namespace, document_id, number)
            for namespace, number, ids in by_namespace_and_number(generations)
            for document_id in self._run(_RETAINED, namespace=namespace, ids=ids, generation=number).scalars()
        }

    def _delete(self, generations: Sequence[Generation], *tables: str) -> None:
        for table in tables:  # by exact key ranges, which touch and lock no other generation
            for namespace, number, ids in by_namespace_and_number(generations):
                self._run(_DELETE[table], namespace=namespace, ids=ids, generation=number)


def _is_published(generation: Generation, document: Any) -> bool:
    return document is not None and document.published_generation == generation.number


def _is_deleted(generation: Generation, document: Any) -> bool:
    return document is None or generation.number < document.deleted_generation


def _is_overtaken(generation: Generation, document: Any, is_retryable: bool) -> bool:
    first = max(document.published_generation or 0, document.settled_generation + 1)
    return bool(generation.number < (first if is_retryable else document.latest_generation))


_OF_SOME = f"WHERE {OF_DOCUMENTS} AND generation = :generation"
_TABLES = ("chunks", "parent_chunks", "kept_generations", "payloads", "generations", "retired_generations")
_DELETE = {table: sql(f"DELETE FROM {table} {_OF_SOME}") for table in _TABLES}
_RETAINED = sql(f"SELECT document_id FROM kept_generations {_OF_SOME}")
_DUE = sql(
    "SELECT namespace, document_id, generation FROM retired_generations"
    " WHERE tenant_id = :tenant AND due_at <= :now ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED"
)
_LOCK = sql(
    "SELECT document_id, latest_generation, published_generation, deleted_generation, settled_generation"
    f" FROM documents WHERE {OF_DOCUMENTS} ORDER BY document_id FOR UPDATE"
)


class RetainedGenerations(TenantStore):
    """One tenant's retained generations: of each document at most the one published before."""

    def keep(self, replaced: Sequence[Generation], *, for_s: float) -> None:
        """Keep these for ``for_s`` seconds, 0 for not at all, instead of those retained before."""
        for namespace, group in by_namespace(replaced):
            self._run(_FORGET_RETAINED, namespace=namespace, ids=sorted({g.document_id for g in group}))
        if for_s > 0:
            until = now() + timedelta(seconds=for_s)
            insert_many(
                self._connection,
                "INSERT INTO kept_generations (tenant_id, namespace, document_id, generation, kept_until)"
                " VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)",
                [(*generation_columns(g), until) for g in sorted(replaced, key=generation_columns)],
            )

    def expired(self, *, limit: int) -> list[Generation]:
        """Release the retained generations whose time is up, and return them; retire them in the same transaction."""
        expired = [self._generation(*row) for row in self._run(_EXPIRED, now=now(), limit=limit).all()]
        for generation in expired:
            self._connection.execute(_FORGET_ONE, generation_key(generation))
        return expired


def tenants_with_expired(connection: Connection) -> list[TenantId]:
    """Return the tenants with expired retained generations; reads only their ids."""
    return tenant_ids(connection, _WITH_EXPIRED, now=now())


_FORGET_RETAINED = sql(f"DELETE FROM kept_generations WHERE {OF_DOCUMENTS}")

# One index lookup per tenant: there may be as many retained generations as documents.
_WITH_EXPIRED = (
    "SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT 1 FROM kept_generations k"
    " WHERE k.tenant_id = t.tenant_id AND k.kept_until <= :now)"
)

_EXPIRED = sql(
    "SELECT namespace, document_id, generation FROM kept_generations"
    " WHERE tenant_id = :tenant AND kept_until <= :now ORDER BY kept_until LIMIT :limit FOR UPDATE SKIP LOCKED"
)

_FORGET_ONE = sql(f"DELETE FROM kept_generations WHERE {OF_GENERATION}")
