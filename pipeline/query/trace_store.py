"""The kept traces of one tenant: the newest ones, in a list with the question and the outcome of each. A trace is a Redis
hash of its own with the query, so that it can be read and asked again after the answer has expired."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import orjson
import redis

from chordwise.contract.explanation import TraceSummary
from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import UNLIMITED, ReadMemory
from pipeline.query.query_store import (
    DROP_ENTRY,
    QUERY,
    query_key,
    read_query,
    trace_entries_key,
    trace_key,
    traces_key,
)
from pipeline.query.request import Query
from pipeline.query.trace_entry import TraceFilter
from pipeline.records import QueryId, TenantId
from pipeline.tenants.answer_memory_store import LEAST_KEPT_S

# Adds a trace, and drops the oldest beyond the limits of number and bytes and those that have expired. A requested trace
# leaves the list alone and lives on for as long as its answer.
_KEEP = f"""{DROP_ENTRY}
if redis.call('EXISTS', KEYS[4]) == 0 then return end
local bytes = math.max(#ARGV[6], redis.call('HSTRLEN', KEYS[1], 'trace')) + #ARGV[7] + #ARGV[5]
if bytes > tonumber(ARGV[10]) / 4 then return end
drop_entry(KEYS[2], KEYS[3], ARGV[2])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'trace', ARGV[6]) end
redis.call('HSET', KEYS[1], 'query', ARGV[7])
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[2], ARGV[5], 'bytes:' .. ARGV[2], bytes)
local sum = redis.call('HINCRBY', KEYS[3], 'bytes', bytes)
redis.call('EXPIRE', KEYS[2], ARGV[4])
redis.call('EXPIRE', KEYS[3], ARGV[4])
local old = redis.call('ZRANGE', KEYS[2], 0, -1 - tonumber(ARGV[3]))
if #old == 0 and sum > tonumber(ARGV[10]) then
  local excess = sum - tonumber(ARGV[10])
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, 99)) do
    if excess <= 0 or id == ARGV[2] then break end
    old[#old + 1] = id
    excess = excess - tonumber(redis.call('HGET', KEYS[3], 'bytes:' .. id) or '0')
  end
end
if #old == 0 then old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', tonumber(ARGV[1]) - tonumber(ARGV[4]), 'LIMIT', 0, 100) end
for _, id in ipairs(old) do
  local key = ARGV[8] .. id
  if redis.call('HEXISTS', key, 'requested') == 1 then redis.call('EXPIRE', key, ARGV[9]) else redis.call('DEL', key) end
  drop_entry(KEYS[2], KEYS[3], id)
end
"""

_MOST_BYTES: Final = 8 * 1024 * 1024  # of one tenant's kept traces; one alone may take a quarter

_KEPT_S: Final = 24 * 3600
_READ_AT_ONCE: Final = 200


class KeptTraces:
    """One tenant's kept traces. ``most``: the length of the list, ``most_bytes`` its size; ``ttl_s``: the lifetime of a
    trace, ``requested_ttl_s`` of a requested one that has left the list. Both shrink as ``memory`` fills, and a Redis that
    is nearly full gets no trace. Every method raises StoreUnavailable."""

    def __init__(
        self,
        client: redis.Redis,
        tenant_id: TenantId,
        *,
        most: int,
        ttl_s: int = _KEPT_S,
        requested_ttl_s: int,
        most_bytes: int = _MOST_BYTES,
        memory: ReadMemory = lambda: UNLIMITED,
    ) -> None:
        self._redis = client
        self._tenant_id = tenant_id
        self._most, self._most_bytes = most, most_bytes
        self._memory = memory
        self._ttl_s = ttl_s
        self._requested_ttl_s = requested_ttl_s

    def keep(self, entry: TraceSummary, query: Query, trace: bytes) -> None:
        """Keep a trace and list it, unless the query was deleted. An empty ``trace`` is stored already."""
        query_id, memory = QueryId(entry.query_id), self._memory()
        if memory.is_nearly_full:
            return
        with redis_errors():
            self._redis.eval(
                _KEEP,
                4,
                trace_key(self._tenant_id, query_id),
                traces_key(self._tenant_id),
                trace_entries_key(self._tenant_id),
                query_key(self._tenant_id, query_id),
                _score(entry.asked_at),
                query_id,
                str(self._most),
                str(memory.scaled(self._ttl_s, LEAST_KEPT_S)),
                orjson.dumps(asdict(entry)),  # type: ignore[arg-type]  # bytes are sent as they are
                trace,  # type: ignore[arg-type]
                QUERY.dump_json(query),  # type: ignore[arg-type]
                trace_key(self._tenant_id, QueryId("")),
                str(memory.scaled(self._requested_ttl_s, LEAST_KEPT_S)),
                str(self._most_bytes),
            )

    def page(self, chosen: TraceFilter, *, before: tuple[datetime, str] | None, limit: int) -> list[TraceSummary]:
        """Return entries older than the (asked_at, query_id) cursor, newest first."""
        entries: list[TraceSummary] = []
        for entry in self._listed(chosen, before):
            if chosen.matches(entry):
                entries.append(entry)
                if len(entries) == limit:
                    break
        return entries

    def trace(self, query_id: QueryId) -> bytes | None:
        """Return the trace of a query as it was stored, None if it has none."""
        return self._field(query_id, "trace")

    def query(self, query_id: QueryId) -> Query | None:
        """Return the query of a kept trace, None if there is none."""
        raw = self._field(query_id, "query")
        return None if raw is None else read_query(raw)

    def _field(self, query_id: QueryId, name: str) -> bytes | None:
        with redis_errors():
            value: bytes | None = self._redis.hget(trace_key(self._tenant_id, query_id), name)  # type: ignore[assignment]
        return value

    def _listed(self, chosen: TraceFilter, before: tuple[datetime, str] | None) -> Iterator[TraceSummary]:
        """Yield the entries of the filter's time, newest first; equal times in the descending order of ids."""
        latest = "+inf" if chosen.until is None else f"({_score(chosen.until)}"
        if before is not None and (chosen.until is None or before[0] < chosen.until):
            latest = _score(before[0])
        oldest = max(0.0 if chosen.since is None else chosen.since.timestamp(), time.time() - self._ttl_s)
        offset = 0
        while True:
            with redis_errors():
                ids: Any = self._redis.zrevrangebyscore(
                    traces_key(self._tenant_id), latest, f"{oldest:.6f}", start=offset, num=_READ_AT_ONCE
                )
                rows: Any = self._redis.hmget(trace_entries_key(self._tenant_id), ids) if ids else []
            for row in rows:
                entry = None if row is None else _entry(orjson.loads(row))
                if entry is not None and (before is None or (entry.asked_at, entry.query_id) < before):
                    yield entry
            if len(ids) < _READ_AT_ONCE:
                return
            offset += _READ_AT_ONCE


def _score(moment: datetime) -> str:
    return f"{moment.timestamp():.6f}"


def _entry(row: dict[str, Any]) -> TraceSummary:
    lists = {name: tuple(row[name]) for name in ("namespaces", "marks")}
    return TraceSummary(**row | lists | {"asked_at": datetime.fromisoformat(row["asked_at"])})
