"""Change the readers of documents in place: nothing is parsed or embedded again."""

import time
from collections.abc import Sequence
from typing import Final

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.reader_store import DocumentReaders
from pipeline.records import DocumentId, Filters, Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces

_AT_ONCE: Final = 200  # documents in one transaction
_LONGEST_S: Final = 20.0  # of one call, after which the caller repeats it


def set_readers(
    tenant_id: TenantId,
    namespace: Namespace,
    readers: tuple[str, ...] | None,
    use: Resources,
    *,
    document_ids: Sequence[DocumentId] | None = None,
    source_id: str | None = None,
    filters: Filters | None = None,
) -> tuple[int, bool]:
    """Give the selected documents these readers, as `filters.readers.stored_readers` returns them. Return how many had others,
    and whether all were reached in time; to continue, repeat the call. Both indexes and the answer cache follow at once. Raises
    StoreUnavailable, after which some documents may be changed and the others are not."""
    changed, after, ends_at = 0, "", time.monotonic() + _LONGEST_S
    while True:
        with unit_of_work(use.mysql) as work:
            chosen, last = DocumentReaders(work.connection, tenant_id).others(
                namespace,
                readers,
                document_ids=document_ids,
                source_id=source_id,
                filters=filters,
                after=after,
                limit=_AT_ONCE,
            )
        if chosen:
            _set(tenant_id, namespace, chosen, readers, use)
            changed += len(chosen)
        if last is None:
            return changed, True
        if time.monotonic() > ends_at:
            return changed, False
        after = last


@retry_conflicts(attempts=8)
def _set(
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    readers: tuple[str, ...] | None,
    use: Resources,
) -> None:
    with unit_of_work(use.mysql) as work:
        DocumentReaders(work.connection, tenant_id).set(namespace, document_ids, readers)
        # Before the commit: where PostgreSQL is away nothing changes. Texts are read by MySQL's readers in any case.
        use.vectors(tenant_id).set_readers(namespace, document_ids, readers)
        Namespaces(work.connection, tenant_id).revise(namespace, document_ids)
        Audit(work.connection, tenant_id).wrote("readers", namespaces=[namespace], ids=document_ids)


@retry_conflicts()
def set_default(tenant_id: TenantId, namespace: Namespace, readers: tuple[str, ...] | None, use: Resources) -> None:
    """Set the readers of a namespace's new documents that name none. A missing namespace is created."""
    with unit_of_work(use.mysql) as work:
        DocumentReaders(work.connection, tenant_id).set_default(namespace, readers)
        Audit(work.connection, tenant_id).wrote("readers", namespaces=[namespace])
