"""Erase a whole namespace or a whole tenant from every store, and prove it by counting again."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy import Connection

from chordwise.contract.namespace import NamespaceDeleted
from chordwise.contract.tenant import TenantErased
from pipeline.administration.delete_documents import delete_some
from pipeline.administration.drop_replaced import drop_retired
from pipeline.database.rows import now
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.errors import ErasureUnfinished
from pipeline.keyword.dictionary_store import Dictionaries
from pipeline.maintenance.build_indexes import drop_indexes
from pipeline.outages import tolerate_outage
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants import erasure_store
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces

log = structlog.get_logger(__name__)

_DOCUMENTS_AT_ONCE = 100
_KEYS_KNOWN_S = 5.0  # longer than a gateway goes on accepting the key of a tenant that is gone


def delete_namespace(tenant_id: TenantId, namespace: Namespace, use: Resources) -> NamespaceDeleted | None:
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
    return NamespaceDeleted(namespace=namespace, documents=documents, generations=dropped)


@retry_conflicts(attempts=8)
def _close(tenant_id: TenantId, namespace: Namespace, use: Resources, *, documents: int) -> bool:
    """Delete the namespace itself with its dictionary, unless a document was uploaded since; uploads wait meanwhile."""
    with unit_of_work(use.mysql) as work:
        closed = Namespaces(work.connection, tenant_id).close(namespace)
        if closed:
            Dictionaries(work.connection, tenant_id).delete(namespace)
            Audit(work.connection, tenant_id).wrote("namespace_delete", namespaces=[namespace], count=documents)
        return closed


def erase_tenant(tenant_id: TenantId, use: Resources) -> TenantErased | None:
    """Erase a tenant from every store; None if there never was one.

    The request deletes the tenant's row, so that its keys are refused and nothing is written for it any more; the record
    of the erasure holds the id. `finish_erasures` continues after a crash, and frees the id once the last writer to
    Redis has ended and a whole pass has found nothing. Raises WrongInstallation before any change.
    """
    use.installation.refuse_wrong()
    with unit_of_work(use.mysql) as work:
        if not erasure_store.is_known(work.connection, tenant_id):
            return None
        erasure_store.request_erasure(work.connection, tenant_id)
    return _erase(tenant_id, use)


def finish_erasures(use: Resources, *, due: bool = False) -> int:
    """Continue the erasures that are not settled, ``due``: that may be settled by now; return how many."""
    before = now() - settling_time(use) if due else datetime.max.replace(microsecond=0)
    with unit_of_work(use.mysql) as work:
        waiting = erasure_store.tenants_with_unsettled_erasure(work.connection, erased_before=before)
    continued = 0
    for tenant_id in waiting:
        with tolerate_outage(log.warning, "erasure_postponed", tenant_id=tenant_id):
            _erase(tenant_id, use)
            continued += 1
    return continued


def settling_time(use: Resources) -> timedelta:
    """Return how long after the request an erasure may be settled: as long as a gateway knows the tenant's keys, and then
    as long as a query or a call of a model lasts, which writes to Redis at its end."""
    limits = use.settings
    models_s = max(limits.embedding_timeout_s, limits.llm_timeout_s, limits.rerank_timeout_s)
    return timedelta(seconds=_KEYS_KNOWN_S + max(models_s, limits.query_deadline_ms / 1000))


def refuse_unfinished(tenant_id: TenantId, use: Resources) -> None:
    """Raise ErasureUnfinished while the id belongs to an erased tenant of which something may be left."""
    with unit_of_work(use.mysql) as work:
        asked = erasure_store.requested_at(work.connection, tenant_id)
        if asked is None and erasure_store.requested_at(work.connection, tenant_id, settled=True) is None:
            return
    remaining = erasure_store.left_over(use.mysql, use.postgres, use.redis, tenant_id)
    if asked is None and not remaining:
        return
    if asked is None:
        with unit_of_work(use.mysql) as work:
            erasure_store.reopen(work.connection, tenant_id)
    wait_s = max(1.0, ((asked or now()) + settling_time(use) - now()).total_seconds() + use.settings.sweep_interval_s)
    left = sum(remaining.values())
    raise ErasureUnfinished(
        f"The id {tenant_id!r} belongs to a tenant that is being erased"
        + (f", of which {left} rows and keys are left" if left else "")
        + f": repeat the request in {math.ceil(wait_s)} seconds.",
        retry_after_s=wait_s,
    )


class _Settled(Exception):
    """The erasure was settled meanwhile: rows under the tenant's id are those of a new tenant."""


def _erase(tenant_id: TenantId, use: Resources) -> TenantErased:
    settles_before, remaining, found = now() - settling_time(use), dict[str, int](), 0
    try:
        found = _erase_everywhere(tenant_id, use)
        remaining = erasure_store.left_over(use.mysql, use.postgres, use.redis, tenant_id)
    except _Settled:
        log.info("erasure_superseded", tenant_id=tenant_id)
    with unit_of_work(use.mysql) as work:
        if not erasure_store.lock_unsettled(work.connection, tenant_id):
            remaining = {}
        elif not found and not remaining:
            erasure_store.settle(work.connection, tenant_id, requested_before=settles_before)
        erased = erasure_store.add_erased(work.connection, tenant_id, {})
    log.info("tenant_erased", tenant_id=tenant_id, erased=found, remaining=sum(remaining.values()))
    return TenantErased(tenant_id=tenant_id, erased=erased, remaining=remaining)


def _erase_everywhere(tenant_id: TenantId, use: Resources) -> int:
    with unit_of_work(use.mysql) as work:
        tables = erasure_store.mysql_tables(work.connection)
    found = sum(_erase_from_mysql(tenant_id, table, use) for table in tables)
    use.installation.confirm()
    drop_indexes(tenant_id, use)
    found += sum(_erase_from_postgres(tenant_id, table, use) for table in erasure_store.postgres_tables(use.postgres))
    use.installation.confirm_redis()
    batches = erasure_store.key_batches(use.redis, tenant_id)
    return found + sum(_unlink(tenant_id, keys, use) for keys in batches)


def _erase_from_mysql(tenant_id: TenantId, table: str, use: Resources) -> int:
    erase = partial(erasure_store.erase_some_from_mysql, tenant_id=tenant_id, table=table)
    return _erase_all(tenant_id, f"mysql.{table}", erase, use)


def _erase_from_postgres(tenant_id: TenantId, table: str, use: Resources) -> int:
    def erase(_: Connection) -> int:
        return erasure_store.erase_some_from_postgres(use.postgres, tenant_id, table)

    return _erase_all(tenant_id, f"postgres.{table}", erase, use)


def _erase_all(tenant_id: TenantId, name: str, erase: Callable[[Connection], int], use: Resources) -> int:
    found = 0
    while some := _erase_some(tenant_id, name, erase, use):
        found += some
    return found


def _unlink(tenant_id: TenantId, keys: Sequence[bytes], use: Resources) -> int:
    return _erase_some(tenant_id, "redis.keys", lambda _: erasure_store.unlink(use.redis, keys), use)


@retry_conflicts(attempts=8)
def _erase_some(tenant_id: TenantId, name: str, erase: Callable[[Connection], int], use: Resources) -> int:
    """Erase some rows or keys and add them to the report, while the erasure is locked; return how many. Raises _Settled
    once it is settled."""
    with unit_of_work(use.mysql) as work:
        if not erasure_store.lock_unsettled(work.connection, tenant_id):
            raise _Settled
        if count := erase(work.connection):
            erasure_store.add_erased(work.connection, tenant_id, {name: count})
        return count
