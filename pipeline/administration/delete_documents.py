"""Delete documents by id, or all documents of a source."""

from collections.abc import Sequence

import structlog

from pipeline.database.rows import slices
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.documents.chunk_store import Chunks
from pipeline.documents.document_store import Documents
from pipeline.documents.document_view_store import SourceViews
from pipeline.documents.generation_store import Retired
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces

log = structlog.get_logger(__name__)

_DOCUMENTS_AT_ONCE = 100


def delete_document(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> bool:
    """Delete one document; False if there is none. Searches lose it at the commit; the sweeper drops its rows."""
    return bool(_delete(tenant_id, namespace, [document_id], use))


def delete_documents(
    tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId], use: Resources
) -> int:
    """Delete these documents, some hundred in a transaction; return how many there were."""
    return sum(_delete(tenant_id, namespace, ids, use) for ids in slices(sorted(document_ids), _DOCUMENTS_AT_ONCE))


@retry_conflicts(attempts=8)
def _delete(tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId], use: Resources) -> int:
    with unit_of_work(use.mysql) as work:
        return delete_within(work, tenant_id, namespace, document_ids)


def delete_within(
    work: UnitOfWork, tenant_id: TenantId, namespace: Namespace, document_ids: Sequence[DocumentId]
) -> int:
    """Delete these documents in a running transaction; return how many there were."""
    deleted = Documents(work.connection, tenant_id).delete(namespace, document_ids)
    shown = [published for published, _ in deleted.values() if published is not None]
    removed = Chunks(work.connection, tenant_id).lengths_of(shown)
    Namespaces(work.connection, tenant_id).revise(namespace, list(deleted), removed=removed)
    retired = [generation for _, gone in deleted.values() for generation in gone]
    Retired(work.connection, tenant_id).add(retired)
    if deleted:
        Audit(work.connection, tenant_id).wrote("delete", namespaces=[namespace], ids=list(deleted))
    return len(deleted)


@retry_conflicts(attempts=8)
def delete_some(tenant_id: TenantId, namespace: Namespace, use: Resources, *, limit: int) -> int:
    """Delete up to ``limit`` documents of a namespace, shown or under way, in one transaction; return how many."""
    with unit_of_work(use.mysql) as work:
        return delete_some_within(work, tenant_id, namespace, limit=limit)


def delete_some_within(work: UnitOfWork, tenant_id: TenantId, namespace: Namespace, *, limit: int) -> int:
    """Delete up to ``limit`` documents of a namespace in a running transaction; return how many."""
    ids = Namespaces(work.connection, tenant_id).living_documents(namespace, limit=limit)
    delete_within(work, tenant_id, namespace, [DocumentId(document_id) for document_id in ids])
    return len(ids)


def delete_source(tenant_id: TenantId, namespace: Namespace, source_id: str, use: Resources) -> int | None:
    """Delete a source's documents, also those under way, some hundred at a time; return how many, None without such a
    source. May be repeated after a crash; a document handed in meanwhile may stay. Raises StoreUnavailable."""
    deleted, last = 0, ""
    while page := _delete_page(tenant_id, namespace, source_id, last, use):
        count, last = page
        deleted += count
    if not deleted:
        return None
    with unit_of_work(use.mysql) as work:
        Audit(work.connection, tenant_id).wrote("source_delete", namespaces=[namespace], ids=[source_id], count=deleted)
    log.info("source_deleted", tenant_id=tenant_id, documents=deleted)
    return deleted


@retry_conflicts(attempts=8)
def _delete_page(
    tenant_id: TenantId, namespace: Namespace, source_id: str, after: str, use: Resources
) -> tuple[int, DocumentId] | None:
    """Delete the next documents of the source; return how many and the last id, None after the end."""
    with unit_of_work(use.mysql) as work:
        views = SourceViews(work.connection, tenant_id)
        candidates = views.documents(namespace, source_id, after=after, limit=_DOCUMENTS_AT_ONCE)
        if not candidates:
            return None
        views.lock(namespace, candidates)
        ids = views.documents(namespace, source_id, among=candidates, limit=len(candidates))
        return delete_within(work, tenant_id, namespace, ids), candidates[-1]
