"""The publication log: which documents changed with which revision of a namespace, written in the changing transaction
under the namespace's lock, so without gaps. Indexes outside MySQL follow it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from pipeline.database.rows import TenantStore, now, to_json
from pipeline.database.statements import sql, tenant_ids
from pipeline.records import DocumentId, Namespace, TenantId

KEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The documents that changed after a revision. ``complete``: the log has every revision since then."""

    document_ids: tuple[DocumentId, ...]
    complete: bool


class Publications(TenantStore):
    """One tenant's part of the log."""

    def add(self, namespace: Namespace, document_ids: Sequence[DocumentId]) -> None:
        """Record that these documents changed with the namespace's present revision; also for none, so that no gap
        appears."""
        ids = to_json(list(dict.fromkeys(document_ids)) or [""])
        self._run(_ADD, namespace=namespace, ids=ids)

    def since(self, namespace: Namespace, revision: int, revised_at: datetime | None) -> Changes:
        """Return changes after ``revision``, made at ``revised_at`` (None: unchanged so far). Not complete if the log
        lacks it or has another under its number: pruned, or MySQL restored."""
        rows = self._run(_SINCE, namespace=namespace, revision=revision).all()
        later = {row.revision for row in rows if row.revision > revision}
        is_known = revised_at is None or any((row.revision, row.revised_at) == (revision, revised_at) for row in rows)
        ids = (DocumentId(row.document_id) for row in rows if row.document_id and row.revision > revision)
        return Changes(
            document_ids=tuple(dict.fromkeys(ids)),
            complete=is_known and bool(later) and len(later) == max(later) - revision,
        )

    def prune(self, *, limit: int) -> int:
        """Delete up to ``limit`` rows older than `KEPT_FOR`, but not of a present revision; return how many."""
        return self._run(_PRUNE, before=now() - KEPT_FOR, limit=limit).rowcount


def tenants_with_old_publications(connection: Connection) -> list[TenantId]:
    """Return the tenants of which rows are older than `KEPT_FOR`."""
    statement = "SELECT tenant_id FROM publications GROUP BY tenant_id HAVING MIN(revised_at) < :before"
    return tenant_ids(connection, statement, before=now() - KEPT_FOR)


_ADD = sql(
    "INSERT INTO publications (tenant_id, namespace, revision, document_id, revised_at)"
    " SELECT n.tenant_id, n.namespace, n.revision, changed.document_id, n.revised_at FROM namespaces n"
    " JOIN JSON_TABLE(:ids, '$[*]' COLUMNS ("
    "document_id VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$')) AS changed"
    " WHERE n.tenant_id = :tenant AND n.namespace = :namespace"
)
_SINCE = sql(
    "SELECT revision, document_id, revised_at FROM publications"
    " WHERE tenant_id = :tenant AND namespace = :namespace AND revision >= :revision"
)
_PRUNE = sql(
    "DELETE FROM publications WHERE tenant_id = :tenant AND revised_at < :before AND NOT EXISTS (SELECT 1 FROM namespaces n"
    " WHERE n.tenant_id = publications.tenant_id AND n.namespace = publications.namespace"
    " AND n.revision = publications.revision) LIMIT :limit"
)
