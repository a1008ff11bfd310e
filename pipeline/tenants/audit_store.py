"""The audit: actor, action and time, in rows that never change.

A write is recorded in its own transaction, a search in a Redis list of its tenant by the call that stores its answer;
`pipeline.retrieval.record_search` brings it here. A loss of Redis loses the waiting searches.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import astuple, fields
from datetime import datetime
from typing import Any, Final

import orjson
import redis
from sqlalchemy import select

from chordwise.contract.tenant import AuditActor, AuditEntry
from pipeline.database.engines import redis_errors
from pipeline.database.mysql_tables import audit
from pipeline.database.rows import TenantStore, follows, insert_many, now, record_of, to_json, to_naive
from pipeline.database.statements import TenantsWith, sql
from pipeline.records import TenantId
from pipeline.tenants.audit import acting

MOST_COMPARED = 200_000  # newest searches that are read to compare an experiment's arms: about a second's work
MOST_IDS = 100  # ids in one row; `count` is of all

SEARCH = "search"


class Audit(TenantStore):
    """One tenant's audit."""

    def wrote(
        self,
        action: str,
        *,
        namespaces: Sequence[str] = (),
        ids: Sequence[str] = (),
        count: int | None = None,
        **detail: Any,
    ) -> None:
        """Record a write in the transaction that makes it. The actor comes from the context (``act_as``)."""
        actor, request_id = acting()
        row = AuditEntry(
            audit_id=str(uuid.uuid4()),
            at=now(),
            tenant_id=self._tenant_id,
            action=action,
            actor=actor,
            request_id=request_id,
            namespaces=tuple(namespaces),
            ids=tuple(ids[:MOST_IDS]),
            count=len(ids) if count is None else count,
            detail=detail,
        )
        self.add([row])

    def add(self, rows: Sequence[AuditEntry]) -> None:
        """Store these rows; existing ones stay as they are."""
        insert_many(
            self._connection,
            _ADD,
            [
                (
                    self._tenant_id,
                    to_naive(row.at),
                    row.audit_id,
                    row.action,
                    row.actor.key_id,
                    row.actor.key_name,
                    " ".join(row.actor.scopes),
                    row.request_id.encode("ascii", "replace").decode()[:128],
                    to_json(list(row.namespaces)),
                    to_json(list(row.ids)),
                    row.count,
                    row.status,
                    row.query_hash,
                    row.query_text,
                    to_json(row.detail),
                )
                for row in rows
            ],
        )

    def page(
        self,
        *,
        action: str | None = None,
        key_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[AuditEntry]:
        """Return rows that fit every filter, newest first, before the given position. ``since`` is inclusive, ``until``
        exclusive; ``key_id``: of the actor."""
        at, audit_id = audit.c.at, audit.c.audit_id
        statement = select(audit).where(self._own(audit)).order_by(at.desc(), audit_id.desc()).limit(limit)
        if action is not None:
            statement = statement.where(audit.c.action == action)
        if key_id is not None:
            statement = statement.where(audit.c.key_id == key_id)
        if since is not None:
            statement = statement.where(at >= to_naive(since))
        if until is not None:
            statement = statement.where(at < to_naive(until))
        if before is not None:
            statement = statement.where(follows(at, audit_id, before))
        return [_row(row) for row in self._connection.execute(statement)]

    def arms(self, experiment_id: str) -> dict[str, dict[str, Any]]:
        """Return the outcomes of searches by arm, in order of name, among the tenant's newest 200,000 searches, as fields of
        ArmResult."""
        return {
            row.bucket: {
                **{name: int(getattr(row, name)) for name in ("searches", "failed", "empty", "degraded", "cached")},
                "mean_latency_ms": None if row.mean_latency_ms is None else round(float(row.mean_latency_ms), 3),
            }
            for row in self._run(_ARMS, search=SEARCH, experiment=experiment_id, most=MOST_COMPARED)
        }

    def forget(self, before: datetime, *, limit: int) -> int:
        """Delete some rows older than ``before``; return how many."""
        return self._run(_FORGET, before=to_naive(before), limit=limit).rowcount


tenants_with_audit = TenantsWith("SELECT DISTINCT tenant_id FROM audit")


def _row(row: Any) -> AuditEntry:
    return record_of(
        AuditEntry,
        row,
        actor=AuditActor(key_id=row.key_id, key_name=row.key_name, scopes=tuple(row.scopes.split())),
        namespaces=tuple(json.loads(row.namespaces)),
        ids=tuple(json.loads(row.ids)),
        count=row.entries,
        detail=json.loads(row.detail),
    )


def _of_detail(name: str) -> str:
    return f"JSON_UNQUOTE(JSON_EXTRACT(detail, '$.{name}'))"


_COLUMNS = (
    "at, audit_id, action, key_id, key_name, scopes, request_id, namespaces, ids, entries, status, query_hash,"
    " query_text, detail"
)

_ADD = f"INSERT IGNORE INTO audit (tenant_id, {_COLUMNS}) VALUES ({', '.join(['%s'] * 15)})"

# MariaDB reads JSON's null as NULL and MySQL as the word "null"; an arm of that name equals no arm there. To MySQL, empty is a
# reserved word.
_ARMS = sql(
    "SELECT bucket, COUNT(*) AS searches, SUM(outcome = 'failed') AS failed, SUM(outcome = 'empty') AS `empty`,"
    " SUM(degraded = 'true') AS degraded, SUM(cached = 'true') AS cached,"
    " AVG(IF(cached = 'true', NULL, latency_ms + 0.0)) AS mean_latency_ms FROM ("
    f" SELECT {', '.join(f'{_of_detail(name)} AS {name}' for name in ('outcome', 'degraded', 'cached', 'latency_ms'))},"
    f" {_of_detail('experiment_id')} AS experiment, {_of_detail('experiment_bucket')} AS bucket"
    " FROM audit WHERE tenant_id = :tenant AND action = :search ORDER BY at DESC, audit_id DESC LIMIT :most"
    ") AS newest WHERE experiment = :experiment AND bucket <> 'null' GROUP BY bucket ORDER BY bucket"
)

_FORGET = sql("DELETE FROM audit WHERE tenant_id = :tenant AND at < :before LIMIT :limit")


WAITING: Final = "chordwise:audit:waiting"  # the tenants that have something in their list
LOST: Final = "chordwise:audit:lost"
# Rows of a tenant's list, some 60 MB; while MySQL is away for longer, the oldest are dropped and counted.
MOST_WAITING: Final = 100_000

# Part of the script that stores an answer. KEYS[2]: the tenant's list.
NOTE: Final = """
if ARGV[6] ~= '' then
  local waiting = redis.call('RPUSH', KEYS[2], ARGV[6])
  if waiting > tonumber(ARGV[8]) then
    redis.call('LPOP', KEYS[2])
    redis.call('INCR', 'chordwise:audit:lost')
  end
  if waiting == 1 then redis.call('SADD', 'chordwise:audit:waiting', ARGV[7]) end
end
"""

# Another process that drained the same rows has removed them already; then the first row is another one.
_TAKE_AWAY = """
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
redis.call('LTRIM', KEYS[1], ARGV[2], -1)
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[3]) end
return 1
"""

_FORGET_TENANT = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
return 1
"""


def list_key(tenant_id: TenantId) -> str:
    """Return the key of a tenant's waiting rows; it is deleted with the tenant's other keys on erasure."""
    return f"{tenant_id}:audit"


def packed(row: AuditEntry) -> bytes:
    """Return a row as it waits in Redis."""
    columns = {field.name: getattr(row, field.name) for field in fields(row)}
    converted = {"at": row.at.isoformat(), "actor": astuple(row.actor)}
    return orjson.dumps(columns | converted, option=orjson.OPT_NON_STR_KEYS)


def unpacked(raw: bytes) -> AuditEntry:
    """Return the row that `packed` wrote."""
    columns: dict[str, Any] = orjson.loads(raw)
    key_id, key_name, scopes = columns["actor"]
    converted = {
        "at": datetime.fromisoformat(columns["at"]),
        "actor": AuditActor(key_id=key_id, key_name=key_name, scopes=tuple(scopes)),
        "namespaces": tuple(columns["namespaces"]),
        "ids": tuple(columns["ids"]),
    }
    return AuditEntry(**columns | converted)


class AuditQueue:
    """The rows that wait to be written to MySQL."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def tenants(self) -> list[TenantId]:
        """Return the tenants with waiting rows."""
        with redis_errors():
            members: set[bytes] = self._redis.smembers(WAITING)  # type: ignore[assignment]
        return [TenantId(member.decode()) for member in sorted(members)]

    def oldest(self, tenant_id: TenantId, *, limit: int) -> list[bytes]:
        """Return the oldest waiting rows, as they were packed."""
        with redis_errors():
            rows: list[bytes] = self._redis.lrange(list_key(tenant_id), 0, limit - 1)  # type: ignore[assignment]
            if not rows:
                self._redis.eval(_FORGET_TENANT, 2, list_key(tenant_id), WAITING, tenant_id)
        return rows

    def take_away(self, tenant_id: TenantId, rows: list[bytes]) -> None:
        """Remove rows that are in MySQL, unless another process did."""
        with redis_errors():
            self._redis.eval(_TAKE_AWAY, 2, list_key(tenant_id), WAITING, rows[0], str(len(rows)), tenant_id)  # type: ignore[arg-type]

    def discard(self, tenant_id: TenantId) -> None:
        """Delete the waiting rows of an erased tenant."""
        with redis_errors(), self._redis.pipeline(transaction=True) as pipe:
            pipe.delete(list_key(tenant_id))
            pipe.srem(WAITING, tenant_id)
            pipe.execute()

    def waiting(self) -> int:
        """Return the number of waiting rows of all tenants."""
        tenants = self.tenants()
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            for tenant_id in tenants:
                pipe.llen(list_key(tenant_id))
            return sum(pipe.execute())

    def lost(self) -> int:
        """Return how many rows were dropped because too many waited."""
        with redis_errors():
            return int(self._redis.get(LOST) or 0)  # type: ignore[arg-type]
