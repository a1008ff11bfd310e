"""Delete data that was stored for a limited time."""

from __future__ import annotations

import structlog

from pipeline.administration.delete_documents import delete_some
from pipeline.administration.keep_files import forget_file
from pipeline.database.unit_of_work import unit_of_work
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.vector_stores.attachment_store import Attachments, tenants_with_old_marks
from pipeline.vector_stores.collection_store import VectorStores, expired_stores
from pipeline.vector_stores.file_store import expired_files

log = structlog.get_logger(__name__)

_AT_ONCE = 100
_MARKS_AT_ONCE = 1000


def expire(use: Resources) -> int:
    """Delete expired files and empty expired vector stores; return how many. The rest is left to the next run."""
    with unit_of_work(use.mysql) as work:
        files = expired_files(work.connection, limit=_AT_ONCE)
        stores = expired_stores(work.connection, limit=_AT_ONCE)
        for tenant_id in tenants_with_old_marks(work.connection):
            Attachments(work.connection, tenant_id).drop_old_marks(limit=_MARKS_AT_ONCE)
    for tenant_id, file_id in files:
        forget_file(tenant_id, file_id, use)
    for tenant_id, namespace in stores:
        _empty(tenant_id, namespace, use)
    if files or stores:
        log.info("expired", files=len(files), vector_stores=len(stores))
    return len(files) + len(stores)


def _empty(tenant_id: TenantId, namespace: Namespace, use: Resources) -> None:
    """Delete every document of a vector store but keep its name; a crash leaves the rest to the next run."""
    while delete_some(tenant_id, namespace, use, limit=_AT_ONCE):
        pass
    with unit_of_work(use.mysql) as work:
        Attachments(work.connection, tenant_id).detach_all(namespace)
        VectorStores(work.connection, tenant_id).mark_emptied(namespace)
