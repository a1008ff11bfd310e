"""Reconcile the stores continuously: a bounded piece of one tenant at a time, mended at once."""

from dataclasses import asdict, dataclass

import structlog

from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents import alignment_store
from pipeline.documents.alignment_store import Deletions
from pipeline.embedding.migration_store import Cursor
from pipeline.maintenance.compare import DeletionLimit, measure
from pipeline.maintenance.erase import finish_erasures
from pipeline.maintenance.verify import AlignmentCounts, mend_pages
from pipeline.records import TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)


def reconcile(use: Resources) -> AlignmentCounts:
    """Compare and mend up to ``reconcile_chunks`` chunks of the tenant that waited longest; return the counts. The next
    run continues here; a crash repeats one page. Raises WrongInstallation before any change."""
    use.installation.confirm()
    finish_erasures(use)
    with unit_of_work(use.mysql) as work:
        tenant_id = alignment_store.next_tenant(work.connection)
    return AlignmentCounts() if tenant_id is None else reconcile_tenant(tenant_id, use.placed(tenant_id))


def reconcile_tenant(tenant_id: TenantId, use: Resources) -> AlignmentCounts:
    """Reconcile the given tenant; see `reconcile`."""
    use.installation.confirm()
    with unit_of_work(use.mysql) as work:
        position = alignment_store.position_of(work.connection, tenant_id)
    limit = _limit(tenant_id, position, use)
    total = AlignmentCounts()
    pages = mend_pages(tenant_id, position, use, space=lambda: use.spaces.live().active, limit=limit.now, recounts=True)
    for after, counts in pages:
        total += counts
        deletions = limit.deletions(ended=after.namespace is None)
        with unit_of_work(use.mysql) as work:
            alignment_store.store(work.connection, tenant_id, after, asdict(counts), deletions)
        if total.chunks >= use.settings.reconcile_chunks:
            break
    write = log.warning if total.wrong or limit.now.withheld else log.info
    write("reconciled", tenant_id=tenant_id, wrong=total.wrong, withheld=limit.now.withheld, **asdict(total))
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class _PassLimit:
    """The deletion limit of one pass: ``before`` counts its earlier runs, ``now`` is the rest of the limit."""

    before: Deletions
    now: DeletionLimit

    def deletions(self, *, ended: bool) -> Deletions:
        """Return the counts to store after a page, or at the end of the pass."""
        deleted = self.before.pass_deleted + self.now.deleted
        withheld = self.before.pass_withheld + self.now.withheld
        if ended:
            return Deletions(withheld=withheld if self.now.is_exceeded else 0)
        withheld_most = max(self.before.withheld, withheld if self.now.is_exceeded else 0)
        return Deletions(pass_deleted=deleted, pass_withheld=withheld, withheld=withheld_most)


def _limit(tenant_id: TenantId, position: Cursor, use: Resources) -> _PassLimit:
    """Return the limit of the pass that begins or continues at ``position``."""
    with unit_of_work(use.mysql) as work:
        before = alignment_store.deletions_of(work.connection, tenant_id)
    if position.namespace is None:
        before = Deletions(withheld=before.withheld)
    rest = measure(tenant_id, use, use.spaces.live().active)
    spent = before.pass_deleted + before.pass_withheld
    rest.vectors -= spent
    rest.rows -= spent
    rest.is_open = rest.is_open and not before.pass_withheld
    return _PassLimit(before=before, now=rest)
