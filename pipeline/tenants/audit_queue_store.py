"""Answered searches not yet in the audit: a Redis list per tenant, filled by the call that stores the answer. A loss of
Redis loses them."""

from __future__ import annotations

from dataclasses import astuple, fields
from datetime import datetime
from typing import Any, Final

import orjson
import redis

from pipeline.database.engines import redis_errors
from pipeline.records import Actor, TenantId
from pipeline.tenants.audit import AuditRow

WAITING: Final = "chordwise:audit:waiting"  # the tenants that have something in their list
LOST: Final = "chordwise:audit:lost"
# Rows of a tenant's list, some 60 MB; while MySQL is away for longer, the oldest are dropped and counted.
MOST_WAITING: Final = 100_000

# Part of the script that stores an answer. KEYS[2]: the tenant's list.
NOTE: Final = """
if ARGV[6] ~= '' then
  if redis.call('RPUSH', KEYS[2], ARGV[6]) > tonumber(ARGV[8]) then
    redis.call('LPOP', KEYS[2])
    redis.call('INCR', 'chordwise:audit:lost')
  end
  redis.call('SADD', 'chordwise:audit:waiting', ARGV[7])
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


def packed(row: AuditRow) -> bytes:
    """Return a row as it waits in Redis."""
    columns = {field.name: getattr(row, field.name) for field in fields(row)}
    converted = {"at": row.at.isoformat(), "actor": astuple(row.actor)}
    return orjson.dumps(columns | converted, option=orjson.OPT_NON_STR_KEYS)


def unpacked(raw: bytes) -> AuditRow:
    """Return the row that `packed` wrote."""
    columns: dict[str, Any] = orjson.loads(raw)
    key_id, key_name, scopes = columns["actor"]
    converted = {
        "at": datetime.fromisoformat(columns["at"]),
        "actor": Actor(key_id=key_id, key_name=key_name, scopes=tuple(scopes)),
        "namespaces": tuple(columns["namespaces"]),
        "ids": tuple(columns["ids"]),
    }
    return AuditRow(**columns | converted)


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
