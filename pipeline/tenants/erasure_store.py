"""Count and delete everything of one tenant in any store, in all tables that the databases list, so none is forgotten."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

import redis
from sqlalchemy import Connection, Engine, text

from pipeline.database.engines import mysql_errors, postgres_errors, redis_errors
from pipeline.database.rows import now, to_json
from pipeline.database.statements import TenantsWith, sql
from pipeline.database.tenant_presence import close_tenant
from pipeline.records import TenantId

# Keys of the installation (docs/data-model.md). A tenant that was made before `tenants.RESERVED` may begin like them.
_OF_THE_INSTALLATION = re.compile(
    rb"chordwise:(installation|audit:(waiting|swept|lost)|circuits(:opened)?|ledger:pruned|metrics(:\d+)?|pace:.+"
    rb"|vectors(:[^:]+)?)"
)
_ROWS_AT_ONCE = 5000
_KEYS_AT_ONCE = 1000

# The tenant itself goes with the request: without it nothing is written. Then the ledger, so that workers end soon.
_FIRST, _LAST = ("tenants", "api_keys", "job_items", "jobs"), ("documents", "namespaces")
_KEPT = ("erasures",)


def mysql_tables(connection: Connection) -> list[str]:
    """Return the tables with tenants in them, in the order of erasure."""
    tables = set(connection.execute(_MYSQL_TABLES).scalars()) - set(_KEPT)
    middle = sorted(tables - set(_FIRST) - set(_LAST))
    return [*(name for name in _FIRST if name in tables), *middle, *(name for name in _LAST if name in tables)]


def postgres_tables(postgres: Engine) -> list[str]:
    """Return the tables of the vector store with tenants in them."""
    with postgres_errors(), postgres.connect() as connection:
        return sorted(set(connection.execute(_POSTGRES_TABLES).scalars()) - set(_KEPT))


def erase_some_from_mysql(connection: Connection, tenant_id: TenantId, table: str) -> int:
    """Delete up to some thousand of this tenant's rows of one table, in a running transaction; return how many."""
    statement = f"DELETE FROM `{table}` WHERE tenant_id = :tenant LIMIT {_ROWS_AT_ONCE}"
    return connection.execute(text(statement), {"tenant": tenant_id}).rowcount


def erase_some_from_postgres(postgres: Engine, tenant_id: TenantId, table: str) -> int:
    """Delete up to some thousand of this tenant's rows of one table of the vector store; return how many."""
    statement = (
        f'DELETE FROM "{table}" WHERE ctid = ANY(ARRAY(SELECT ctid FROM "{table}"'
        f" WHERE tenant_id = :tenant LIMIT {_ROWS_AT_ONCE}))"
    )
    with postgres_errors(), postgres.begin() as connection:
        close_tenant(connection, tenant_id)
        return connection.execute(text(statement), {"tenant": tenant_id}).rowcount


def key_batches(client: redis.Redis, tenant_id: TenantId) -> Iterator[list[bytes]]:
    """Yield the keys that begin with the tenant, some thousand at a time."""
    keys = _keys(client, tenant_id)
    while True:
        with redis_errors():
            batch = list(islice(keys, _KEYS_AT_ONCE))
        if not batch:
            return
        yield batch


def unlink(client: redis.Redis, keys: Sequence[bytes]) -> int:
    """Delete keys; return how many there were."""
    with redis_errors():
        return int(client.unlink(*keys))  # type: ignore[arg-type]


def _keys(client: redis.Redis, tenant_id: TenantId) -> Iterator[bytes]:
    """Yield the keys that begin with the tenant, without the installation's own."""
    for key in client.scan_iter(match=f"{tenant_id}:*", count=_KEYS_AT_ONCE):
        if not _OF_THE_INSTALLATION.fullmatch(key):
            yield key


def left_over(mysql: Engine, postgres: Engine, client: redis.Redis, tenant_id: TenantId) -> dict[str, int]:
    """Count the tenant's rows and keys again, by store and table; zeros are omitted."""
    counts: dict[str, int] = {}
    with mysql_errors(), mysql.connect() as connection:
        for table in mysql_tables(connection):
            counts[f"mysql.{table}"] = _count(connection, f"`{table}`", tenant_id)
    tables = postgres_tables(postgres)
    with postgres_errors(), postgres.connect() as connection:
        for table in tables:
            counts[f"postgres.{table}"] = _count(connection, f'"{table}"', tenant_id)
    with redis_errors():
        counts["redis.keys"] = sum(1 for _ in _keys(client, tenant_id))
    return {name: count for name, count in counts.items() if count}


def _count(connection: Connection, table: str, tenant_id: TenantId) -> int:
    statement = text(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = :tenant")
    return int(connection.execute(statement, {"tenant": tenant_id}).scalar_one())


def is_known(connection: Connection, tenant_id: TenantId) -> bool:
    """Return whether the tenant exists or was erased."""
    statement = "SELECT 1 FROM tenants WHERE tenant_id = :tenant UNION SELECT 1 FROM erasures WHERE tenant_id = :tenant"
    return connection.execute(text(statement), {"tenant": tenant_id}).first() is not None


def request_erasure(connection: Connection, tenant_id: TenantId) -> None:
    """Record the request and delete the tenant's row, without which nothing is written for it any more; an earlier report
    stays. The repetition of a request changes nothing."""
    values = {"tenant": tenant_id, "now": now()}
    connection.execute(_REQUEST, values)  # first, so that a tenant that is created again is waited for
    if deleted := connection.execute(_DELETE_TENANT, values).rowcount:
        connection.execute(_BEGIN, values)
        add_erased(connection, tenant_id, {"mysql.tenants": deleted})


def lock_unsettled(connection: Connection, tenant_id: TenantId) -> bool:
    """Lock a tenant's erasure until the transaction ends; until then the tenant is not created again. False if the erasure
    is settled, or there is none."""
    return connection.execute(_LOCK, {"tenant": tenant_id}).first() is not None


def requested_at(connection: Connection, tenant_id: TenantId, *, settled: bool = False) -> datetime | None:
    """Return when the erasure of a tenant without a row was requested; None unless there is one that is, or is not,
    settled."""
    moment: datetime | None = connection.execute(
        _REQUESTED, {"tenant": tenant_id, "settled": settled}
    ).scalar_one_or_none()
    return moment


def add_erased(connection: Connection, tenant_id: TenantId, erased: Mapping[str, int]) -> dict[str, int]:
    """Add to the report of an erasure; return the sums since it was first requested."""
    report = connection.execute(_REPORT, {"tenant": tenant_id}).scalar_one_or_none()
    sums = Counter(json.loads(report) if report else {}) + Counter(erased)
    connection.execute(_ADD, {"tenant": tenant_id, "erased": to_json(sums)})
    return dict(sums)


def settle(connection: Connection, tenant_id: TenantId, *, requested_before: datetime) -> None:
    """Settle an erasure that was requested long enough ago, as a recount has found nothing: the id is free."""
    connection.execute(_SETTLE, {"tenant": tenant_id, "now": now(), "before": requested_before})


def reopen(connection: Connection, tenant_id: TenantId) -> None:
    """Continue a settled erasure, as something of the tenant was found."""
    connection.execute(_REOPEN, {"tenant": tenant_id})


_REQUEST = sql(
    "INSERT INTO erasures (tenant_id, requested_at, erased) VALUES (:tenant, :now, '{}')"
    " ON DUPLICATE KEY UPDATE requested_at = requested_at"
)
_DELETE_TENANT = sql("DELETE FROM tenants WHERE tenant_id = :tenant")
_BEGIN = sql("UPDATE erasures SET requested_at = :now, settled_at = NULL WHERE tenant_id = :tenant")
_REOPEN = sql("UPDATE erasures SET settled_at = NULL WHERE tenant_id = :tenant")

_REQUESTED = sql(
    "SELECT e.requested_at FROM erasures e WHERE e.tenant_id = :tenant AND (e.settled_at IS NOT NULL) = :settled"
    " AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.tenant_id = e.tenant_id)"
)

_LOCK = sql("SELECT 1 FROM erasures WHERE tenant_id = :tenant AND settled_at IS NULL FOR UPDATE")

_ADD = sql("UPDATE erasures SET erased = :erased WHERE tenant_id = :tenant")

_SETTLE = sql(
    "UPDATE erasures SET settled_at = :now WHERE tenant_id = :tenant AND settled_at IS NULL AND requested_at < :before"
)

_REPORT = sql("SELECT erased FROM erasures WHERE tenant_id = :tenant FOR UPDATE")

tenants_with_unsettled_erasure = TenantsWith(
    "SELECT e.tenant_id FROM erasures e WHERE e.settled_at IS NULL AND e.requested_at < :erased_before"
    " AND NOT EXISTS (SELECT 1 FROM tenants t WHERE t.tenant_id = e.tenant_id)"
)

# Both schemas are constants, or the server looks through every other one as well: MariaDB 10.11.19 has crashed in that.
_MYSQL_TABLES = sql(
    "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t"
    " ON t.table_schema = DATABASE() AND t.table_name = c.table_name AND t.table_type = 'BASE TABLE'"
    " WHERE c.table_schema = DATABASE() AND c.column_name = 'tenant_id'"
)

_POSTGRES_TABLES = sql(
    "SELECT c.relname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
    " WHERE a.attname = 'tenant_id' AND NOT a.attisdropped AND c.relkind = 'r'"
    " AND c.relnamespace = current_schema()::regnamespace"
)
