"""Take a source away with every document that came from it."""

from __future__ import annotations

import structlog

from pipeline.administration.delete_documents import delete_within
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.source_view_store import SourceViews
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit

log = structlog.get_logger(__name__)

_DOCUMENTS_AT_ONCE = 100


def delete_source(tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources) -> int | None:
    """Delete a source's documents, also those under way, some hundred at a time; return how many, None without such a
    source. May be repeated after a crash; a document handed in meanwhile may stay. Raises StoreUnavailable."""
    deleted, after = 0, ""
    while some := _delete_some(tenant_id, namespace, source_id, after, use):
        deleted, after = deleted + some[0], some[1]
    if not deleted:
        return None
    with unit_of_work(use.mysql) as work:
        Audit(work.connection, tenant_id).wrote("source_delete", namespaces=[namespace], ids=[source_id], count=deleted)
    log.info("source_deleted", tenant_id=tenant_id, documents=deleted)
    return deleted


@retry_conflicts(attempts=8)
def _delete_some(
    tenant_id: TenantId, namespace: Namespace, source_id: str, after: str, use: Resources
) -> tuple[int, DocumentId] | None:
    """Delete the source's next documents; return how many and the last id, None after the end. Documents moved before
    the lock stay."""
    with unit_of_work(use.mysql) as work:
        views = SourceViews(work.connection, tenant_id)
        found = views.documents(namespace, source_id, after=after, limit=_DOCUMENTS_AT_ONCE)
        if not found:
            return None
        views.lock(namespace, found)
        ids = views.documents(namespace, source_id, among=found, limit=len(found))
        return delete_within(work, tenant_id, namespace, ids), found[-1]
