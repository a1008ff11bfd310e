"""Documents whose standby vectors are behind, noted in the transaction that changed them: ingestion waits for no
standby model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from pipeline.database.rows import TenantStore, insert_many, now, record_of
from pipeline.records import DocumentId, Namespace, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingDocument:
    """A document that waits for its vectors; ``noted_at`` moves when it changes again."""

    namespace: Namespace
    document_id: DocumentId
    noted_at: datetime
    attempts: int


class StandbyBacklog(TenantStore):
    """One tenant's documents that are behind in one space."""

    def __init__(self, connection: Connection, tenant_id: TenantId, space: int) -> None:
        super().__init__(connection, tenant_id)
        self._space = space

    def add(self, documents: Iterable[tuple[Namespace, DocumentId]]) -> None:
        """Note these; one that is noted already counts as noted now."""
        moment = now()
        insert_many(
            self._connection,
            "INSERT INTO embedding_backlog (tenant_id, space, namespace, document_id, noted_at, next_attempt_at)"
            " VALUES (%s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE noted_at = VALUES(noted_at), next_attempt_at = VALUES(next_attempt_at)",
            [(self._tenant_id, self._space, *document, moment, moment) for document in sorted(set(documents))],
        )

    def due(self, *, limit: int) -> list[LaggingDocument]:
        """Return the documents that are due now."""
        rows = self._run(_DUE, space=self._space, now=now(), limit=limit)
        return [record_of(LaggingDocument, row, noted_at=row.noted_at) for row in rows]

    def settle(self, done: Sequence[LaggingDocument], unfinished: Sequence[LaggingDocument]) -> None:
        """Delete finished documents, unless they were noted again meanwhile; postpone the others, up to ten minutes."""
        for document in done:
            self._connection.execute(_FORGET, {**self._key(document), "noted": document.noted_at})
        for document in unfinished:
            wait = timedelta(seconds=min(600, 2 ** min(document.attempts + 1, 10)))
            self._connection.execute(_PUT_OFF, {**self._key(document), "at": now() + wait})

    def _key(self, document: LaggingDocument) -> dict[str, object]:
        return {
            "tenant": self._tenant_id,
            "space": self._space,
            "namespace": document.namespace,
            "document": document.document_id,
        }


def tenants_behind(connection: Connection, space: int) -> list[TenantId]:
    """Return the tenants with due documents; reads only ids."""
    rows = connection.execute(_TENANTS, {"space": space, "now": now()}).scalars()
    return [TenantId(tenant_id) for tenant_id in rows]


def size(connection: Connection, space: int) -> int:
    """Return how many documents of all tenants are behind."""
    return int(connection.execute(_SIZE, {"space": space}).scalar_one())


def clear(connection: Connection, space: int) -> None:
    """Forget all of a space that is given up."""
    connection.execute(text("DELETE FROM embedding_backlog WHERE space = :space"), {"space": space})


_DUE = text(
    "SELECT namespace, document_id, noted_at, attempts FROM embedding_backlog"
    " WHERE tenant_id = :tenant AND space = :space AND next_attempt_at <= :now"
    " ORDER BY namespace, document_id LIMIT :limit"
)
_OF_ONE = " WHERE tenant_id = :tenant AND space = :space AND namespace = :namespace AND document_id = :document"
_FORGET = text(f"DELETE FROM embedding_backlog{_OF_ONE} AND noted_at = :noted")
_PUT_OFF = text(f"UPDATE embedding_backlog SET attempts = attempts + 1, next_attempt_at = :at{_OF_ONE}")
_TENANTS = text("SELECT DISTINCT tenant_id FROM embedding_backlog WHERE space = :space AND next_attempt_at <= :now")
_SIZE = text("SELECT COUNT(*) FROM embedding_backlog WHERE space = :space")
