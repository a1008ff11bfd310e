"""Notice that a standby of PostgreSQL was promoted, which may lack the last transactions of the server before it, and mend
at once what was published lately. The reconciler finds older differences in its turn."""

from datetime import timedelta
from typing import Any, Final

import structlog

from pipeline.database.engines import postgres_errors, redis_errors
from pipeline.database.installation import timeline_in
from pipeline.database.rows import slices
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PipelineError
from pipeline.maintenance.compare import NamespaceStores, measure
from pipeline.maintenance.verify import PAGE_DOCUMENTS, AlignmentCounts, compare_documents
from pipeline.outages import tolerate_outage
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.tenants.namespace_store import Publications, tenants_with_late_publications

_TIMELINE: Final = "chordwise:postgres:timeline"  # of the server whose vectors were last compared; in Redis
_LATELY: Final = timedelta(hours=1)  # a standby that was further behind should not have been promoted

log = structlog.get_logger(__name__)


def is_due(use: Resources) -> bool:
    """Return whether PostgreSQL goes on another timeline than before; not while it cannot be asked."""
    with tolerate_outage(log.info, "promotion_not_looked_for"):
        timeline = _timeline(use)
        with redis_errors():
            known = use.redis.get(_TIMELINE)
            if known is None and timeline is not None:
                use.redis.set(_TIMELINE, timeline, nx=True)
        return timeline is not None and known not in (None, timeline.encode())
    return False


def mend_promoted(use: Resources) -> AlignmentCounts:
    """Compare and mend what was published in the last hour if PostgreSQL was promoted since the last call of any process;
    return the counts. After an error the next call begins again. Raises WrongInstallation before any change."""
    timeline = _timeline(use)
    if timeline is None:
        return AlignmentCounts()
    with redis_errors():
        known: Any = use.redis.set(_TIMELINE, timeline, get=True)
    if known in (None, timeline.encode()):
        return AlignmentCounts()
    try:
        use.installation.confirm()
        with unit_of_work(use.mysql) as work:
            tenants = tenants_with_late_publications(work.connection, seconds=_LATELY.total_seconds())
        total = sum((_mend_tenant(tenant_id, use) for tenant_id in tenants), AlignmentCounts())
    except PipelineError:
        with redis_errors():
            use.redis.set(_TIMELINE, known)
        raise
    log.warning("postgres_promoted", timeline=timeline, wrong=total.wrong, repaired=total.repaired)
    return total


def _timeline(use: Resources) -> str | None:
    with postgres_errors(), use.postgres.connect() as connection:
        return timeline_in(connection)


def _mend_tenant(tenant_id: TenantId, use: Resources) -> AlignmentCounts:
    with unit_of_work(use.mysql) as work:
        published = Publications(work.connection, tenant_id).documents_since(_LATELY)
    space, total = use.spaces.live().active, AlignmentCounts()
    limit = measure(tenant_id, use, space)
    for namespace, document_ids in published.items():
        stores = NamespaceStores(tenant_id=tenant_id, namespace=namespace, space=space, use=use)
        for page in slices(document_ids, PAGE_DOCUMENTS):
            total += compare_documents(stores, page, repair=True, limit=limit)
    return total
