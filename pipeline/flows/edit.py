"""Take documents away again."""

from __future__ import annotations

from pipeline.flows.resources import Resources
from pipeline.records import DocumentId, Generation, Namespace, TenantId
from pipeline.stores.chunks import Chunks
from pipeline.stores.documents import Documents
from pipeline.stores.keyword import KeywordIndex
from pipeline.stores.work import unit_of_work


def delete_document(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> bool:
    """Delete one document from both stores; False if there is none.

    Searches lose it with the first commit. The rows go afterwards, and where that is interrupted `verify` finds and
    removes them; nothing of them can be returned meanwhile. Uploads accepted before the deletion are not shown either.
    """
    with unit_of_work(use.mysql) as work:
        documents = Documents(work.connection, tenant_id)
        shown = documents.published(namespace, document_id)
        deleted = documents.delete(namespace, document_id)
        if deleted is None:
            return False
        if shown is not None:
            terms = Chunks(work.connection, tenant_id).terms_of(shown)
            KeywordIndex(work.connection, tenant_id).count(namespace, [], terms)
    _forget(deleted, use)
    return True


def _forget(deleted: Generation, use: Resources) -> None:
    tenant_id = deleted.scope.tenant_id
    use.vectors(tenant_id).forget_before([deleted])
    with unit_of_work(use.mysql) as work:
        Documents(work.connection, tenant_id).forget_before(deleted)
