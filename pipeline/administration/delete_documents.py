"""Take documents away again."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.database.unit_of_work import UnitOfWork, unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.document_store import Documents
from pipeline.documents.retention_store import Retired
from pipeline.keyword.statistics_store import Statistics
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit


def delete_document(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> bool:
    """Delete one document; False if there is none. Searches and earlier uploads lose it at the commit; the sweeper
    drops its rows."""
    with unit_of_work(use.mysql) as work:
        return bool(delete_within(work, tenant_id, namespace, [document_id]))


def delete_within(
    work: UnitOfWork, tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId]
) -> int:
    """Delete these documents in a transaction that is under way. Gives how many there were."""
    deleted = Documents(work.connection, tenant_id).delete(namespace, document_ids)
    shown = [each.shown for each in deleted.values() if each.shown is not None]
    terms = Chunks(work.connection, tenant_id).terms_of(shown)
    Statistics(work.connection, tenant_id).count(namespace, [], terms, document_ids=list(deleted))
    Retired(work.connection, tenant_id).add([generation for each in deleted.values() for generation in each.gone])
    if deleted:
        Audit(work.connection, tenant_id).wrote("delete", namespaces=[namespace], ids=list(deleted))
    return len(deleted)
