"""Take documents away again."""

from __future__ import annotations

from pipeline.flows.resources import Resources
from pipeline.records import DocumentId, Namespace, TenantId
from pipeline.stores.chunks import Chunks
from pipeline.stores.documents import Documents
from pipeline.stores.retired import Retired
from pipeline.stores.statistics import Statistics
from pipeline.stores.work import unit_of_work


def delete_document(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> bool:
    """Delete one document; False if there is none.

    Searches lose it with the commit, and uploads accepted before it are not shown either. Its rows in both stores are
    dropped by the sweeper.
    """
    with unit_of_work(use.mysql) as work:
        documents = Documents(work.connection, tenant_id)
        shown = documents.published(namespace, document_id)
        deleted = documents.delete(namespace, document_id)
        if deleted is None:
            return False
        if shown is not None:
            terms = Chunks(work.connection, tenant_id).terms_of([shown])
            Statistics(work.connection, tenant_id).count(namespace, [], terms)
        Retired(work.connection, tenant_id).add(deleted)
    return True
