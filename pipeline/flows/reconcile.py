"""Look after the agreement of the stores all the time: a bounded piece of one tenant at a time, mended at once."""

from __future__ import annotations

from dataclasses import asdict

import structlog

from pipeline.flows.erase import finish_erasures
from pipeline.flows.resources import Resources
from pipeline.flows.verify import DOCUMENTS, Counts, Spot, all_namespaces, compare, documents_by_namespace, recounted
from pipeline.records import Namespace, TenantId
from pipeline.stores import reconciling
from pipeline.stores.reconciling import Place
from pipeline.stores.work import unit_of_work

log = structlog.get_logger(__name__)


def reconcile(use: Resources) -> Counts:
    """Compare and mend up to ``reconcile_chunks`` chunks of the tenant that has waited longest. Gives what was found.

    Where it stops, the next run for this tenant goes on; dying in here repeats a page.
    """
    finish_erasures(use)
    with unit_of_work(use.mysql) as work:
        tenant_id = reconciling.next_tenant(work.connection)
    return Counts() if tenant_id is None else reconcile_tenant(tenant_id, use)


def reconcile_tenant(tenant_id: TenantId, use: Resources) -> Counts:
    """The same for a given tenant."""
    with unit_of_work(use.mysql) as work:
        place = reconciling.place_of(work.connection, tenant_id)
    known = documents_by_namespace(tenant_id, use)
    names = sorted(all_namespaces(tenant_id, known, use))
    waiting = [name for name in names if place.namespace is None or name >= place.namespace]
    total = Counts()
    for namespace in waiting:
        resumed = namespace == place.namespace and place.phase is not None
        start = Spot(phase=place.phase or DOCUMENTS, after=place.after or "") if resumed else Spot()
        for spot, counts in compare(tenant_id, namespace, use, repair=True, start=start):
            if spot is None:
                found = counts + recounted(tenant_id, namespace, use, repair=True)
                following = _after(namespace, names)
            else:
                found, following = counts, Place(namespace=namespace, phase=spot.phase, after=spot.after)
            total += found
            _note(tenant_id, following, found, use)
            if total.chunks >= use.settings.reconcile_chunks:
                return _told(tenant_id, total)
    if not waiting:
        _note(tenant_id, Place(namespace=None, phase=None, after=None), Counts(), use)
    return _told(tenant_id, total)


def _after(namespace: Namespace, names: list[Namespace]) -> Place:
    """The beginning of the next namespace, or of the whole when this was the last."""
    following = next((name for name in names if name > namespace), None)
    return Place(namespace=following, phase=None, after=None)


def _note(tenant_id: TenantId, place: Place, counts: Counts, use: Resources) -> None:
    with unit_of_work(use.mysql) as work:
        reconciling.note(work.connection, tenant_id, place, asdict(counts))


def _told(tenant_id: TenantId, total: Counts) -> Counts:
    (log.warning if total.wrong else log.info)("reconciled", tenant_id=tenant_id, wrong=total.wrong, **asdict(total))
    return total
