"""Reconcile the stores continuously: a bounded piece of one tenant at a time, mended at once."""

from dataclasses import asdict

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.documents.alignment_store import Deletions
from pipeline.embedding.migration_store import Cursor
from pipeline.maintenance.compare import DeletionLimit, NamespaceStores, measure
from pipeline.maintenance.erase import finish_erasures
from pipeline.maintenance.verify import (
    AlignmentCounts,
    all_namespaces,
    compare,
    documents_by_namespace,
    recount,
    remaining,
)
from pipeline.records import TenantId
from pipeline.resources import Resources

_MOST_CHUNKS = 50_000  # compared before a run ends

log = structlog.get_logger(__name__)


def reconcile(use: Resources) -> AlignmentCounts:
    """Compare and mend some chunks of the tenant that waited longest; return the counts. The next
    run continues here; a crash repeats one page. Raises WrongInstallation before any change."""
    use.installation.confirm()
    finish_erasures(use)
    with unit_of_work(use.mysql) as work:
        tenant_id = alignment_store.next_tenant(work.connection)
    return AlignmentCounts() if tenant_id is None else reconcile_tenant(tenant_id, use)


def reconcile_tenant(tenant_id: TenantId, use: Resources, *, most: int = _MOST_CHUNKS) -> AlignmentCounts:
    """Reconcile up to ``most`` chunks of the given tenant, and the rest of the page; see `reconcile`."""
    use.installation.confirm()
    with unit_of_work(use.mysql) as work:
        position = alignment_store.position_of(work.connection, tenant_id)
    limit = _limit(tenant_id, position, use)
    documents = documents_by_namespace(tenant_id, use)
    names = all_namespaces(tenant_id, documents, use, space=use.spaces.live().active)
    namespaces = remaining(names, position)
    total = AlignmentCounts()
    for namespace, start in namespaces:
        stores = NamespaceStores(tenant_id=tenant_id, namespace=namespace, space=use.spaces.live().active, use=use)
        for following, counts in compare(stores, repair=True, start=start, limit=limit):
            if following is None:
                counts += recount(tenant_id, namespace, use, repair=True)
                next_name = min((name for name in names if name > namespace), default=None)
                position = Cursor(namespace=next_name)
            else:
                position = following
            total += counts
            _record_progress(tenant_id, position, counts, limit, use)
            if total.chunks >= most:
                return _log_result(tenant_id, total, limit)
    if not namespaces:
        _record_progress(tenant_id, Cursor(), AlignmentCounts(), limit, use)
    return _log_result(tenant_id, total, limit)


def _limit(tenant_id: TenantId, position: Cursor, use: Resources) -> DeletionLimit:
    """Return the limit of the pass that begins or continues at ``position``."""
    with unit_of_work(use.mysql) as work:
        before = alignment_store.deletions_of(work.connection, tenant_id)
    if position.namespace is None:
        before = Deletions(withheld=before.withheld)
    limit = measure(tenant_id, use, use.spaces.live().active)
    spent = before.pass_deleted + before.pass_withheld
    limit.vectors -= spent
    limit.rows -= spent
    limit.is_open = limit.is_open and not before.pass_withheld
    limit.before = before
    return limit


def _record_progress(
    tenant_id: TenantId, position: Cursor, counts: AlignmentCounts, limit: DeletionLimit, use: Resources
) -> None:
    deletions = limit.deletions(ended=position.namespace is None)
    with unit_of_work(use.mysql) as work:
        alignment_store.store(work.connection, tenant_id, position, asdict(counts), deletions)


def _log_result(tenant_id: TenantId, total: AlignmentCounts, limit: DeletionLimit) -> AlignmentCounts:
    write = log.warning if total.wrong or limit.withheld else log.info
    write("reconciled", tenant_id=tenant_id, wrong=total.wrong, withheld=limit.withheld, **asdict(total))
    return total
