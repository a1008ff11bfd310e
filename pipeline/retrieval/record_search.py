"""Move searches from Redis into the audit, and delete rows older than the audit's retention."""

from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from pydantic import SecretStr

from chordwise.contract.tenant import AuditEntry
from pipeline.answer.result import Answer, outcome
from pipeline.database.engines import redis_errors
from pipeline.database.rows import now
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import TenantGone
from pipeline.query.request import Query
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.retrieval.measure import answer_fields
from pipeline.tenants.audit import query_hash
from pipeline.tenants.audit_store import MOST_IDS, SEARCH, WAITING, Audit, AuditQueue, tenants_with_audit, unpacked
from pipeline.tenants.tenant_store import Tenants

log = structlog.get_logger(__name__)

_ROWS_AT_ONCE: Final = 500
_FORGOTTEN_AT_ONCE: Final = 5000
_FORGET_EVERY_S: Final = 600
_SWEPT: Final = "chordwise:audit:swept"
_CLOCKS_APART: Final = timedelta(seconds=2)  # far less than passes between an erasure and the next tenant of the id
_EVER: Final = datetime.min.replace(tzinfo=UTC)
_AUDITED_FIELDS: Final = (
    *("source_share", "degraded", "degradations", "latency_ms", "cached", "profile", "config_version"),
    *("experiment_id", "experiment_bucket"),
)


def search_row(query: Query, answer: Answer, use: Resources) -> AuditEntry:
    """Return the audit row of an answered search. Its id is the query's, so that a search is recorded once."""
    fields = answer_fields(query, answer)
    secret: SecretStr | None = use.settings.secret_key
    documents = tuple(dict.fromkeys(chunk.document_id for chunk in answer.chunks))
    return AuditEntry(
        audit_id=query.query_id,
        tenant_id=query.tenant_id,
        at=datetime.now(UTC),
        action=SEARCH,
        actor=query.asked_by,
        request_id=query.request_id,
        namespaces=tuple(query.namespaces),
        ids=documents[:MOST_IDS],
        count=len(answer.chunks),
        status=answer.status,
        query_hash=query_hash(
            query.tenant_id, query.query_text, secret=None if secret is None else secret.get_secret_value()
        ),
        query_text=query.query_text if use.settings.audit_query_text else None,
        detail={
            "query_id": query.query_id,
            "channels": [channel.value for channel in query.channels],
            "hits": dict(answer.stats.hits),
            "masked": query.plan.privacy.mask_answers,
            "outcome": outcome(answer),
            **{name: fields[name] for name in _AUDITED_FIELDS},
        },
    )


def drain(use: Resources) -> int:
    """Write waiting rows from Redis to MySQL, a few hundred at a time, and return how many. Rows are removed after the
    commit and never written twice, so a crash or concurrent runs lose and repeat none. Those of an erased tenant are
    deleted, also those that come after its id was given to a new one."""
    queue = AuditQueue(use.redis)
    drained = 0
    for tenant_id in queue.tenants():
        while rows := queue.oldest(tenant_id, limit=_ROWS_AT_ONCE):
            try:
                with unit_of_work(use.mysql) as work:
                    tenant = Tenants(work.connection, tenant_id).find()
                    since = tenant.created_at - _CLOCKS_APART if tenant is not None else _EVER
                    Audit(work.connection, tenant_id).add([row for row in map(unpacked, rows) if row.at >= since])
            except TenantGone:
                queue.discard(tenant_id)
                break
            queue.take_away(tenant_id, rows)
            drained += len(rows)
            if len(rows) < _ROWS_AT_ONCE:
                break
    if drained:
        log.info("audit_drained", rows=drained)
    return drained


def forget_old(use: Resources) -> int:
    """Delete rows older than the audit's retention, for every tenant, in small transactions. Returns how many."""
    before = now() - timedelta(days=use.settings.audit_keep_days)
    with unit_of_work(use.mysql) as work:
        tenants = tenants_with_audit(work.connection)
    if forgotten := sum(_forget_old_of(tenant_id, before, use) for tenant_id in tenants):
        log.info("audit_rows_expired", rows=forgotten)
    return forgotten


def is_due(use: Resources) -> bool:
    """Return whether `maintain` has something to do. Raises StoreUnavailable."""
    with redis_errors(), use.redis.pipeline(transaction=False) as pipe:
        pipe.exists(WAITING)
        pipe.exists(_SWEPT)
        waiting, swept = pipe.execute()
    return bool(waiting) or not swept


def maintain(use: Resources) -> None:
    """Drain the queue and, every ten minutes in one process of the fleet, delete old rows. The sweeper enqueues this."""
    drain(use)
    with redis_errors():
        due = use.redis.set(_SWEPT, 1, nx=True, ex=_FORGET_EVERY_S)
    if due:
        forget_old(use)


def _forget_old_of(tenant_id: TenantId, before: datetime, use: Resources) -> int:
    forgotten = 0
    while True:
        with unit_of_work(use.mysql) as work:
            some = Audit(work.connection, tenant_id).forget(before, limit=_FORGOTTEN_AT_ONCE)
        forgotten += some
        if some < _FORGOTTEN_AT_ONCE:
            return forgotten
