"""Generations whose rows the sweeper is to drop, and when: a while after being replaced, as running queries may still
read them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, bindparam, text

from pipeline.records import DocumentId, Generation, Namespace, Scope, TenantId
from pipeline.stores.dropping import by_number
from pipeline.stores.rows import TenantStore, insert_many, now


class Retired(TenantStore):
    """One tenant's generations that wait to be dropped."""

    def add(self, generations: Sequence[Generation], *, after_s: float = 0.0, replaced: bool = False) -> None:
        """Let these be dropped in ``after_s`` seconds. ``replaced``: another one is shown in their place since now."""
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO retired_generations (tenant_id, namespace, document_id, generation, due_at, replaced_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE due_at = VALUES(due_at)",
            [
                (
                    self._tenant_id,
                    generation.scope.namespace,
                    generation.document_id,
                    generation.number,
                    moment + timedelta(seconds=after_s),
                    moment if replaced else None,
                )
                for generation in sorted(generations, key=lambda g: (g.scope.namespace, g.document_id, g.number))
            ],
        )

    def due(self, *, limit: int) -> list[Generation]:
        """What is to be dropped now, locked until the transaction ends; what another sweeper holds is left to it.

        While a generation stands here nobody begins to write it anew (see `Ledger.claim`), so the lock must be held
        from before its rows are dropped until ``forget``.
        """
        rows = self._run(
            text(
                "SELECT namespace, document_id, generation FROM retired_generations"
                " WHERE tenant_id = :tenant AND due_at <= :now ORDER BY due_at LIMIT :limit"
                " FOR UPDATE SKIP LOCKED"
            ),
            now=now(),
            limit=limit,
        )
        return [
            Generation(
                scope=Scope(tenant_id=self._tenant_id, namespace=Namespace(namespace)),
                document_id=DocumentId(document_id),
                number=number,
            )
            for namespace, document_id, number in rows
        ]

    def forget(self, generations: Sequence[Generation]) -> None:
        """The rows of these are gone."""
        for namespace in sorted({each.scope.namespace for each in generations}):
            mine = [(str(each.document_id), each.number) for each in generations if each.scope.namespace == namespace]
            for number, ids in by_number(mine):
                self._run(_FORGET, namespace=namespace, ids=ids, generation=number)


_FORGET = text(
    "DELETE FROM retired_generations WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
    " AND generation = :generation"
).bindparams(bindparam("ids", expanding=True))


def tenants_with_retired(connection: Connection) -> list[TenantId]:
    """Whom the sweeper has to visit; reads nothing but their ids."""
    rows = connection.execute(
        text("SELECT DISTINCT tenant_id FROM retired_generations WHERE due_at <= :now"), {"now": now()}
    ).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]
