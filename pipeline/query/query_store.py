"""Running and answered queries: one expiring Redis hash each, in which the first answer written wins."""

import functools
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import starmap
from typing import Any

import orjson
import redis
from pydantic import TypeAdapter

from pipeline.database.engines import redis_errors
from pipeline.deadline import Deadline
from pipeline.errors import StoreFull
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import ChannelRun, QueryState, Understood
from pipeline.query.wake_names import WAKE_CHANNEL, wake_name
from pipeline.records import JobId, QueryId, TenantId
from pipeline.telemetry.tracing import OutsideCall
from pipeline.tenants.audit import AuditRow
from pipeline.tenants.audit_store import MOST_WAITING, NOTE, list_key, packed

QUERY: TypeAdapter[Query] = TypeAdapter(Query)
_ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)
_UNDERSTOOD: TypeAdapter[Understood] = TypeAdapter(Understood)

# Writes the answer unless there is one, records it for the audit, caches it under the question's key if that is
# allowed, and wakes waiting callers, in one step.
_ANSWER = f"""
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HSETNX', KEYS[1], 'answer', ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'answer_status', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
{NOTE}
if ARGV[9] ~= '0' then redis.call('SET', KEYS[3], ARGV[10], 'EX', ARGV[9]) end
if ARGV[11] ~= '' then
  redis.call('HSET', KEYS[4], 'trace', ARGV[11], 'requested', '1')
  redis.call('EXPIRE', KEYS[4], ARGV[3])
end
return 1
"""

# A plain HSET would recreate a cancelled query, without an expiry. A task may run twice: a failure of one run does not
# replace the result of the other.
_REPORT = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[5] ~= 'ok' and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[8], ARGV[9], ARGV[10], ARGV[11])
redis.call('PUBLISH', ARGV[6], ARGV[7])
return 1
"""

# Stores the model's understanding of an existing query, and an element on the list that waiting callers block on.
_UNDERSTAND = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'understood', ARGV[1], 'elapsed:understand', ARGV[2])
redis.call('DEL', KEYS[2])
redis.call('RPUSH', KEYS[2], '1')
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""

_WORD_KEPT_S = 120  # longer than any query runs
_CANCELLED_KEPT_S = 120
_WAITED_AT_ONCE_S = 0.5  # below the socket's own timeout


class Queries:
    """One tenant's queries."""

    def __init__(self, client: redis.Redis, tenant_id: TenantId, *, ttl_s: int) -> None:
        self._redis = client
        self._tenant_id = tenant_id
        self._ttl_s = ttl_s

    def open(self, query: Query) -> None:
        """Store a query before it is sent to the channels."""
        key = self._key(query.query_id)
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(key, mapping={"query": QUERY.dump_json(query), "opened": f"{time.time():.4f}"})
            pipe.expire(key, self._ttl_s)
            pipe.execute()

    def load(self, query_id: QueryId) -> Query | None:
        """Return the stored query, or None if it is gone or answered."""
        with redis_errors():
            raw, answered = self._redis.hmget(self._key(query_id), ["query", "answer_status"])  # type: ignore[misc]
        return None if raw is None or answered is not None else read_query(raw)

    def report(
        self,
        query: Query,
        envelope: Envelope,
        *,
        elapsed_ms: float,
        worker: str = "",
        calls: Sequence[OutsideCall] = (),
    ) -> None:
        """Store the result of a channel, in case the chord does not complete. A failure does not replace an earlier
        result. ``worker``: the name of the worker that asked the channel; ``calls``: its calls meanwhile."""
        with redis_errors():
            self._redis.eval(
                _REPORT,
                1,
                self._key(query.query_id),
                f"envelope:{envelope.channel}",
                _ENVELOPE.dump_json(envelope),  # type: ignore[arg-type]  # bytes are sent as they are
                f"elapsed:{envelope.channel}",
                f"{elapsed_ms:.3f}",
                envelope.status,
                WAKE_CHANNEL,
                wake_name("query-step", self._tenant_id, query.query_id),
                f"ran:{envelope.channel}",
                f"{time.time() - elapsed_ms / 1000:.4f} {worker}",
                f"calls:{envelope.channel}",
                orjson.dumps([tuple(call) for call in calls]),  # type: ignore[arg-type]
            )

    def report_understood(self, query_id: QueryId, understood: Understood, *, elapsed_ms: float) -> None:
        """Store the model's understanding of a query, and wake the waiting callers."""
        with redis_errors():
            self._redis.eval(
                _UNDERSTAND,
                2,
                self._key(query_id),
                self._word(query_id),
                _UNDERSTOOD.dump_json(understood).decode(),
                f"{elapsed_ms:.3f}",
                str(_WORD_KEPT_S),
            )

    def await_understood(self, query_id: QueryId, deadline: Deadline) -> Understood | None:
        """Return the model's understanding of a query as soon as it is there; None if it is not by ``deadline``. Blocks
        on a list, whose element stays for other waiting callers."""
        word = self._word(query_id)
        while (left_s := deadline.left_s()) > 0:  # a timeout of 0 would wait forever
            with redis_errors():
                if self._redis.brpoplpush(word, word, timeout=min(left_s, _WAITED_AT_ONCE_S)) is not None:
                    break
        with redis_errors():
            raw = self._redis.hget(self._key(query_id), "understood")
        return None if raw is None else _UNDERSTOOD.validate_json(raw)  # type: ignore[arg-type]

    def answer(
        self,
        query_id: QueryId,
        answer: bytes,
        *,
        status: str = "succeeded",
        note: AuditRow | None = None,
        keep: tuple[str, int] | None = None,
        trace: bytes | None = None,
    ) -> bool:
        """Store the answer and wake waiting callers; False if there was one, or the query is gone. ``note``: its row
        for the audit; ``keep``: its cache key and lifetime in seconds; ``trace``: stored beside it."""
        with redis_errors():
            written = self._redis.eval(*self._answering(query_id, answer, status, note, keep, trace))
        return bool(written)

    def open_answered(self, query: Query, answer: bytes, *, note: AuditRow) -> None:
        """Store a query together with its answer, in one round trip."""
        key = self._key(query.query_id)
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.hset(key, mapping={"query": QUERY.dump_json(query)})
            pipe.expire(key, self._ttl_s)
            pipe.eval(*self._answering(query.query_id, answer, "succeeded", note, None))
            pipe.execute()

    def cached_answer(self, cache_key: str) -> bytes | None:
        """Return the cached answer under this key, or None if it has expired."""
        with redis_errors():
            first: bytes | None = self._redis.get(self._cache_key(cache_key))  # type: ignore[assignment]
        return None if first is None else self.field(QueryId(first.decode()), "answer")

    def _answering(
        self,
        query_id: QueryId,
        answer: bytes,
        status: str,
        note: AuditRow | None,
        keep: tuple[str, int] | None,
        trace: bytes | None = None,
    ) -> tuple[Any, ...]:
        """Return the arguments of the script that stores an answer."""
        cache_key, seconds = keep or ("", 0)
        return (
            _ANSWER,
            4,
            self._key(query_id),
            list_key(self._tenant_id),
            self._cache_key(cache_key),
            trace_key(self._tenant_id, query_id),
            answer,
            status,
            str(max(self._ttl_s, seconds)),
            WAKE_CHANNEL,
            wake_name("query", self._tenant_id, query_id),
            b"" if note is None else packed(note),
            self._tenant_id,
            str(MOST_WAITING),
            str(seconds),
            query_id,
            trace or b"",
        )

    def state(self, query_id: QueryId) -> QueryState | None:
        """Return the whole state of a query, or None if it is gone."""
        with redis_errors():
            raw: dict[bytes, bytes] = self._redis.hgetall(self._key(query_id))  # type: ignore[assignment]
        return None if b"query" not in raw else _state(raw)

    def field(self, query_id: QueryId, name: str) -> bytes | None:
        """Return the field of this name, or None."""
        with redis_errors():
            value: bytes | None = self._redis.hget(self._key(query_id), name)  # type: ignore[assignment]
        return value

    def stored(self, query_id: QueryId) -> Query | None:
        """Return the stored query, answered or not; None if it is gone."""
        raw = self.field(query_id, "query")
        return None if raw is None else read_query(raw)

    def cancel(self, query_id: QueryId) -> bool:
        """Delete a query with its answer and its trace, so that its tasks do nothing. False if there is none. The id
        of a stored query is marked as cancelled first, unless Redis has no space for it; see `is_lost`."""
        with suppress(StoreFull), redis_errors():
            if self._redis.exists(self._key(query_id)):
                self._redis.set(self._cancelled(query_id), b"1", ex=_CANCELLED_KEPT_S)
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.delete(self._key(query_id))
            pipe.delete(trace_key(self._tenant_id, query_id))
            pipe.delete(self._word(query_id))
            pipe.zrem(traces_key(self._tenant_id), query_id)
            pipe.hdel(trace_entries_key(self._tenant_id), query_id)
            pipe.publish(WAKE_CHANNEL, wake_name("query", self._tenant_id, query_id))
            deleted, traced, *_ = pipe.execute()
        return bool(deleted or traced)

    def is_lost(self, query_id: QueryId) -> bool:
        """Return whether a query that was stored is gone although nobody cancelled it, as after a restart of Redis."""
        with redis_errors():
            return not self._redis.exists(self._key(query_id), self._cancelled(query_id))

    def _key(self, query_id: QueryId) -> str:
        return query_key(self._tenant_id, query_id)

    def _cache_key(self, cache_key: str) -> str:
        return f"{self._tenant_id}:answer:{cache_key}"

    def _cancelled(self, query_id: QueryId) -> str:
        return f"{self._tenant_id}:cancelled:{query_id}"

    def _word(self, query_id: QueryId) -> str:
        return f"{self._key(query_id)}:understood"


def query_key(tenant_id: TenantId, query_id: QueryId) -> str:
    """Return the key of a query."""
    return f"{tenant_id}:query:{query_id}"


def traces_key(tenant_id: TenantId) -> str:
    """Return the key of the ids of a tenant's kept traces, by time."""
    return f"{tenant_id}:traces"


def trace_entries_key(tenant_id: TenantId) -> str:
    """Return the key of the entries of a tenant's kept traces, by id."""
    return f"{tenant_id}:traces:entries"


def trace_key(tenant_id: TenantId, query_id: QueryId) -> str:
    """Return the key of a query's trace."""
    return f"{tenant_id}:trace:{query_id}"


def announce_job(client: redis.Redis, tenant_id: TenantId, job_id: JobId) -> None:
    """Wake callers that wait for a job. A missed message is harmless: callers also poll."""
    with redis_errors():
        client.publish(WAKE_CHANNEL, wake_name("job", tenant_id, job_id))


@functools.lru_cache(maxsize=32)  # every part of a query reads the same
def read_query(document: bytes) -> Query:
    """Parse a stored query. A plan of the next release may have further fields: during an upgrade they have no effect here."""
    return QUERY.validate_json(document, extra="ignore")


def _state(raw: dict[bytes, bytes]) -> QueryState:
    envelopes, elapsed, ran = [], {}, {}
    calls = {name: value for name, value in raw.items() if name.startswith(b"calls:")}
    for name, value in sorted(raw.items()):
        kind, _, channel = name.decode().partition(":")
        if kind == "envelope":
            envelopes.append(_ENVELOPE.validate_json(value))
        elif kind == "elapsed":
            elapsed[channel] = float(value)
        elif kind == "ran":
            started_at, _, worker = value.decode().partition(" ")
            made = orjson.loads(calls.get(f"calls:{channel}".encode(), b"[]"))
            ran[channel] = ChannelRun(float(started_at), worker, tuple(starmap(OutsideCall, made)))
    return QueryState(
        query=read_query(raw[b"query"]),
        status=raw.get(b"answer_status", b"running" if envelopes else b"queued").decode(),
        envelopes=tuple(envelopes),
        elapsed_ms=elapsed,
        ran=ran,
        opened_at=float(raw[b"opened"]) if b"opened" in raw else None,
        answer=raw.get(b"answer"),
        understood=_UNDERSTOOD.validate_json(raw[b"understood"]) if b"understood" in raw else None,
    )
