"""Erase a whole namespace or a whole tenant from every store, and prove it by counting again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from pipeline.administration.delete_documents import delete_some
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.rows import now
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.errors import PlacementRefused, Unavailable
from pipeline.maintenance.build_indexes import drop_indexes
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.setting_values import DEFAULT_PAIR
from pipeline.tenants import erasure_store
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces
from pipeline.tenants.placement import PlacementState
from pipeline.tenants.placement_store import Placements

log = structlog.get_logger(__name__)

_DOCUMENTS_AT_ONCE = 100
_SETTLES_AFTER = timedelta(minutes=2)  # longer than a key goes on working, and than a worker goes on without its lease


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceErased:
    """The counts of an erased namespace. ``generations``: those whose rows this call dropped in both stores."""

    namespace: str
    documents: int
    generations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantErased:
    """The rows erased since the first request, by store, and those that a recount still finds (normally none)."""

    tenant_id: str
    erased: dict[str, int]
    remaining: dict[str, int]


def delete_namespace(tenant_id: TenantId, namespace: Namespace, use: Resources) -> NamespaceErased | None:
    """Delete a namespace with all its documents, also those under way, some hundred at a time; None if there is none.
    May be repeated after a crash. Later uploads make a new namespace."""
    with unit_of_work(use.mysql) as work:
        if not Namespaces(work.connection, tenant_id).existing([namespace]):
            return None
    documents = 0
    while True:
        deleted = delete_some(tenant_id, namespace, use, limit=_DOCUMENTS_AT_ONCE)
        documents += deleted
        if not deleted and _close(tenant_id, namespace, use, documents=documents):
            break
    dropped = drop_retired(tenant_id, use)
    log.info("namespace_deleted", tenant_id=tenant_id, documents=documents)
    return NamespaceErased(namespace=namespace, documents=documents, generations=dropped)


@retry_conflicts(attempts=8)
def _close(tenant_id: TenantId, namespace: Namespace, use: Resources, *, documents: int) -> bool:
    """Delete the namespace itself, unless a document was uploaded since; uploads wait meanwhile."""
    with unit_of_work(use.mysql) as work:
        closed = Namespaces(work.connection, tenant_id).close(namespace)
        if closed:
            Audit(work.connection, tenant_id).wrote("namespace_delete", namespaces=[namespace], count=documents)
        return closed


def erase_tenant(tenant_id: TenantId, use: Resources) -> TenantErased | None:
    """Erase a tenant from every store; None if there never was one.

    The request is recorded first and disables the tenant; the reconciler or a repetition continues after a crash. Keys
    and ledger are erased early, so that no worker writes; the tenant's row last, so that its id is not reused before.
    Raises WrongInstallation before any change, and PlacementRefused while a move has rows of it on two pairs.
    """
    use.installation.refuse_wrong()
    with unit_of_work(use.of_pair(DEFAULT_PAIR).mysql) as work:
        placement = Placements(work.connection, tenant_id).find()
    if placement.state is not PlacementState.SETTLED:
        raise PlacementRefused(
            f"tenant {tenant_id} is moving between {placement.pair} and {placement.target}: continue or undo that first"
        )
    with unit_of_work(use.mysql) as work:
        if not erasure_store.is_known(work.connection, tenant_id):
            return None
        erasure_store.request_erasure(work.connection, tenant_id)
    return _erase(tenant_id, use, settled=False)


def finish_erasures(use: Resources) -> int:
    """Continue interrupted erasures, and check finished ones for documents taken with a cached key. Return how many."""
    with unit_of_work(use.mysql) as work:
        waiting = erasure_store.unsettled(work.connection)
    for erasure in waiting:
        try:
            _erase(
                erasure.tenant_id, use.placed(erasure.tenant_id), settled=now() - erasure.requested_at > _SETTLES_AFTER
            )
        except Unavailable as error:
            log.warning("erasure_postponed", tenant_id=erasure.tenant_id, code=error.code)
    return len(waiting)


def _erase(tenant_id: TenantId, use: Resources, *, settled: bool) -> TenantErased:
    with unit_of_work(use.mysql) as work:
        *tables, tenants = erasure_store.mysql_tables(work.connection)
    for table in tables:
        _step(tenant_id, f"mysql.{table}", partial(erasure_store.erase_from_mysql, use.mysql, tenant_id, table), use)
    use.installation.confirm()
    drop_indexes(tenant_id, use)
    for table in erasure_store.postgres_tables(use.postgres):
        delete = partial(erasure_store.erase_from_postgres, use.postgres, tenant_id, table)
        _step(tenant_id, f"postgres.{table}", delete, use)
    use.installation.confirm_redis()
    _step(tenant_id, "redis.keys", partial(erasure_store.erase_from_redis, use.redis, tenant_id), use)
    _step(tenant_id, f"mysql.{tenants}", partial(erasure_store.erase_from_mysql, use.mysql, tenant_id, tenants), use)
    remaining = erasure_store.left_over(use.mysql, use.postgres, use.redis, tenant_id)
    with unit_of_work(use.mysql) as work:
        erased = erasure_store.add_erased(work.connection, tenant_id, {}, settled=settled and not remaining)
    log.info("tenant_erased", tenant_id=tenant_id, remaining=sum(remaining.values()))
    return TenantErased(tenant_id=tenant_id, erased=erased, remaining=remaining)


@retry_conflicts(attempts=8)
def _step(tenant_id: TenantId, name: str, erase: Callable[[], int], use: Resources) -> None:
    count = erase()
    with unit_of_work(use.mysql) as work:
        erasure_store.add_erased(work.connection, tenant_id, {name: count}, settled=False)
