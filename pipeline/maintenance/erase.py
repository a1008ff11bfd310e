"""Erase a whole namespace or a whole tenant from every store, and prove it by counting again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog
from sqlalchemy import Connection

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
from pipeline.tenants.placement import Placement, PlacementState
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
    """The rows erased since the first request, by store, and those that a recount still finds: normally none, and never
    those of a new tenant of the same id."""

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
    placement = _placement(tenant_id, use)
    if placement.state is not PlacementState.SETTLED:
        raise PlacementRefused(
            f"tenant {tenant_id} is moving between {placement.pair} and {placement.target}: continue or undo that first"
        )
    with unit_of_work(use.mysql) as work:
        if not erasure_store.is_known(work.connection, tenant_id):
            return None
        erasure_store.request_erasure(work.connection, tenant_id)
    return _erase(tenant_id, use)


def finish_erasures(use: Resources) -> int:
    """Continue interrupted erasures, and check finished ones for documents taken with a cached key; return how many. The
    erasures of tenants that move or are on another pair of stores are left out: the rows here may be a copy's."""
    with unit_of_work(use.mysql) as work:
        waiting = erasure_store.unsettled(work.connection)
    continued = 0
    for tenant_id in waiting:
        try:
            placement, stores = _placement(tenant_id, use), use.placed(tenant_id)
            if placement.state is PlacementState.SETTLED and placement.pair == stores.pair == use.pair:
                _erase(tenant_id, stores)
                continued += 1
        except Unavailable as error:
            log.warning("erasure_postponed", tenant_id=tenant_id, code=error.code)
    return continued


def _placement(tenant_id: TenantId, use: Resources) -> Placement:
    with unit_of_work(use.of_pair(DEFAULT_PAIR).mysql) as work:
        return Placements(work.connection, tenant_id).find()


class _Settled(Exception):
    """The erasure was settled meanwhile: rows under the tenant's id are those of a new tenant."""


def _erase(tenant_id: TenantId, use: Resources) -> TenantErased:
    settles_before, remaining = now() - _SETTLES_AFTER, dict[str, int]()
    try:
        _erase_everywhere(tenant_id, use)
        remaining = erasure_store.left_over(use.mysql, use.postgres, use.redis, tenant_id)
    except _Settled:
        log.info("erasure_superseded", tenant_id=tenant_id)
    with unit_of_work(use.mysql) as work:
        if not erasure_store.lock_unsettled(work.connection, tenant_id):
            remaining = {}
        elif not remaining:
            erasure_store.settle(work.connection, tenant_id, requested_before=settles_before)
        erased = erasure_store.add_erased(work.connection, tenant_id, {})
    log.info("tenant_erased", tenant_id=tenant_id, remaining=sum(remaining.values()))
    return TenantErased(tenant_id=tenant_id, erased=erased, remaining=remaining)


def _erase_everywhere(tenant_id: TenantId, use: Resources) -> None:
    with unit_of_work(use.mysql) as work:
        *tables, tenants = erasure_store.mysql_tables(work.connection)
    for table in tables:
        _erase_from_mysql(tenant_id, table, use)
    use.installation.confirm()
    drop_indexes(tenant_id, use)
    for table in erasure_store.postgres_tables(use.postgres):
        _erase_from_postgres(tenant_id, table, use)
    use.installation.confirm_redis()
    for keys in erasure_store.key_batches(use.redis, tenant_id):
        _unlink(tenant_id, keys, use)
    _erase_from_mysql(tenant_id, tenants, use)


def _erase_from_mysql(tenant_id: TenantId, table: str, use: Resources) -> None:
    erase = partial(erasure_store.erase_some_from_mysql, tenant_id=tenant_id, table=table)
    while _erase_some(tenant_id, f"mysql.{table}", erase, use):
        pass


def _erase_from_postgres(tenant_id: TenantId, table: str, use: Resources) -> None:
    def erase(_: Connection) -> int:
        return erasure_store.erase_some_from_postgres(use.postgres, tenant_id, table)

    while _erase_some(tenant_id, f"postgres.{table}", erase, use):
        pass


def _unlink(tenant_id: TenantId, keys: Sequence[bytes], use: Resources) -> None:
    _erase_some(tenant_id, "redis.keys", lambda _: erasure_store.unlink(use.redis, keys), use)


@retry_conflicts(attempts=8)
def _erase_some(tenant_id: TenantId, name: str, erase: Callable[[Connection], int], use: Resources) -> int:
    """Erase some rows or keys and add them to the report, while the erasure is locked; return how many. Raises _Settled
    once it is settled, and TenantMoving once the tenant is elsewhere."""
    with unit_of_work(use.mysql) as work:
        if not erasure_store.lock_unsettled(work.connection, tenant_id):
            raise _Settled
        if count := erase(work.connection):
            erasure_store.add_erased(work.connection, tenant_id, {name: count})
        return count
