"""Replaced generations kept for a while for rollback: their bytes and fields only, so searches never pay for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Connection, bindparam, text

from pipeline.records import DocumentId, Generation, Namespace, Scope, TenantId
from pipeline.stores.rows import TenantStore, insert_many, now


class Kept(TenantStore):
    """One tenant's kept generations: of each document at most the one that was shown before."""

    def keep(self, replaced: Sequence[Generation], *, for_s: float) -> None:
        """Keep these for ``for_s`` seconds, 0 for not at all, and forget what was kept of their documents before."""
        for namespace in sorted({generation.scope.namespace for generation in replaced}):
            ids = sorted({g.document_id for g in replaced if g.scope.namespace == namespace})
            self._run(_FORGET, namespace=namespace, ids=ids)
        if for_s <= 0:
            return
        until = now() + timedelta(seconds=for_s)
        insert_many(
            self._connection,
            "INSERT INTO kept_generations (tenant_id, namespace, document_id, generation, kept_until)"
            " VALUES (%s, %s, %s, %s, %s) ON DUPLICATE KEY UPDATE kept_until = VALUES(kept_until)",
            [
                (self._tenant_id, each.scope.namespace, each.document_id, each.number, until)
                for each in sorted(replaced, key=lambda g: (g.scope.namespace, g.document_id))
            ],
        )

    def expired(self, *, limit: int) -> list[Generation]:
        """Forget those whose time is up, and say which they were: retire them in the same transaction."""
        rows = self._run(_EXPIRED, now=now(), limit=limit).all()
        found = [
            Generation(
                scope=Scope(tenant_id=self._tenant_id, namespace=Namespace(namespace)),
                document_id=DocumentId(document_id),
                number=number,
            )
            for namespace, document_id, number in rows
        ]
        for each in found:
            self._run(_FORGET_ONE, namespace=each.scope.namespace, document=each.document_id, generation=each.number)
        return found


def tenants_with_expired(connection: Connection) -> list[TenantId]:
    """Whom the sweeper has to visit; reads nothing but their ids."""
    return [TenantId(tenant_id) for tenant_id in connection.execute(_UNTIDY, {"now": now()}).scalars()]


_FORGET = text(
    "DELETE FROM kept_generations WHERE tenant_id = :tenant AND namespace = :namespace AND document_id IN :ids"
).bindparams(bindparam("ids", expanding=True))

# One look into the index for each tenant: what is kept may be as many rows as there are documents.
_UNTIDY = text(
    "SELECT t.tenant_id FROM tenants t WHERE EXISTS (SELECT 1 FROM kept_generations k"
    " WHERE k.tenant_id = t.tenant_id AND k.kept_until <= :now)"
)

_EXPIRED = text(
    "SELECT namespace, document_id, generation FROM kept_generations"
    " WHERE tenant_id = :tenant AND kept_until <= :now ORDER BY kept_until LIMIT :limit FOR UPDATE SKIP LOCKED"
)

_FORGET_ONE = text(
    "DELETE FROM kept_generations WHERE tenant_id = :tenant AND namespace = :namespace AND document_id = :document"
    " AND generation = :generation"
)
