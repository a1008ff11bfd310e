"""Running and answered queries: one expiring Redis hash each, in which the first answer written wins.

A query and its answer are compressed. The scripts count its bytes for the tenant's limit
(`tenants.answer_memory_store`), and shorten its life as the memory of Redis or the tenant's share of it fills.
"""

import functools
import math
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise, starmap
from typing import Any, Final

import numpy as np
import orjson
import redis
from pydantic import TypeAdapter

from chordwise.contract.tenant import AuditEntry
from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import NEARLY_FULL, UNLIMITED, ReadMemory
from pipeline.deadline import Deadline
from pipeline.errors import StoreFull
from pipeline.query.compression import compressed, decompressed
from pipeline.query.place_store import GIVE_BACK_PLACE, TAKE_PLACE
from pipeline.query.places import Place, Verdict, place_id, pool_key
from pipeline.query.request import Envelope, Query
from pipeline.query.understanding import ChannelRun, ChannelStep, QueryState, Understood
from pipeline.query.wake_names import WAKE_CHANNEL, wake_name
from pipeline.records import ChannelName, ChunkId, JobId, QueryId, TenantId
from pipeline.telemetry.tracing import OutsideCall
from pipeline.tenants.answer_memory_store import (
    ACCOUNT,
    CHARGED,
    LEAST_KEPT_S,
    account_key,
    answer_limit,
    too_many_answers,
)
from pipeline.tenants.audit_store import MOST_WAITING, NOTE, list_key, packed

QUERY: TypeAdapter[Query] = TypeAdapter(Query)
_ENVELOPE: TypeAdapter[Envelope] = TypeAdapter(Envelope)
_UNDERSTOOD: TypeAdapter[Understood] = TypeAdapter(Understood)

_STEP: TypeAdapter[ChannelStep] = TypeAdapter(ChannelStep)

# Bytes of stored values, and the estimate for an open query: without chunks and context, for each chunk that it asks for,
# and for each token of its context.
_SPREAD: Final = 1.15  # of the allocator
_OVERHEAD_BYTES: Final = 1_500  # a hash of few fields, the key of the answer cache
_OPEN_BYTES: Final = 16 * 1024
_CHUNK_BYTES: Final = 2048
_TOKEN_BYTES: Final = 2
_OPEN_KEPT_S: Final = 60  # after the deadline
_MOST_SENT_BYTES: Final = 64 * 1024  # of an answer to the gateway that waits; Redis holds them until they are read

# A function of scripts: takes a trace off the list of kept ones and its bytes off their sum. A full Redis refuses the new
# sum; then it stays too large for a while.
DROP_ENTRY: Final = """
local function drop_entry(listed, entries, id)
  redis.call('ZREM', listed, id)
  local bytes = redis.call('HGET', entries, 'bytes:' .. id)
  redis.call('HDEL', entries, id, 'bytes:' .. id)
  local left = tonumber(redis.call('HGET', entries, 'bytes') or '0') - tonumber(bytes or '0')
  if left > 0 then redis.pcall('HSET', entries, 'bytes', left) else redis.call('HDEL', entries, 'bytes') end
end
"""

# Stores a query with an estimate of the bytes that it will take and the number of its parts, unless the bytes are more
# than the tenant has left, the place that it needs is taken, or it needs none and is open. Returns nothing, the bytes in use
# and the seconds until there is space, or a `Verdict`.
_OPEN = f"""{ACCOUNT}{TAKE_PLACE}
if not KEYS[3] and redis.call('EXISTS', KEYS[1]) == 1 then return {Verdict.NOT_NEEDED:d} end
local used, slots = used_of(KEYS[2])
local limit, reserved = tonumber(ARGV[6]), tonumber(ARGV[7]) + #ARGV[1]
if limit > 0 and used + reserved > limit then return {{used, wait_for(slots, used + reserved - limit)}} end
local kept_s = lifetime(tonumber(ARGV[3]), tonumber(ARGV[4]), fill(tonumber(ARGV[5]), used, limit))
kept_s = math.max(kept_s, tonumber(ARGV[8]))
local place = ''
if KEYS[3] then
  local taken = take(KEYS[3], ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13]), clock)
  if taken ~= 1 then return taken end
  place = KEYS[3] .. ' ' .. ARGV[11]
end
local charged = charge(KEYS[2], kept_s, reserved)
redis.call(
  'HSET', KEYS[1], 'query', ARGV[1], 'opened', ARGV[2], 'left', ARGV[9], 'place', place, 'charged', charged, 'kept', kept_s,
  'waits', ARGV[10]
)
redis.call('EXPIRE', KEYS[1], kept_s)
return nil
"""

# Writes the answer unless there is one, and does in one step all that follows: bytes, place, audit, answer cache (not while
# Redis is nearly full), waiting callers. The gateway that waits for an answer of usual size gets it on its own channel;
# others are woken if they follow the query. The query expires when it would have without an answer.
_ANSWER = f"""{CHARGED}{GIVE_BACK_PLACE}
local opened, answered, charged, place, kept_s, query, waits, followed = unpack(redis.call(
  'HMGET', KEYS[1], 'opened', 'answer_status', 'charged', 'place', 'kept', 'query', 'waits', 'followed'
))
if not opened or answered then return 0 end
redis.call('HDEL', KEYS[1], unpack(ARGV, 12))
local bytes = math.ceil((#ARGV[1] + #ARGV[10] + #query) * {_SPREAD}) + {_OVERHEAD_BYTES}
redis.call(
  'HSET', KEYS[1], 'answer', ARGV[1], 'answer_status', ARGV[2], 'charged', recharge(KEYS[5], charged, bytes)
)
give_back(place)
local is_sent = waits and waits ~= '' and #ARGV[1] <= {_MOST_SENT_BYTES}
if is_sent then redis.call('PUBLISH', waits, ARGV[5] .. '\\n' .. ARGV[1]) end
if followed or not is_sent then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
{NOTE}
kept_s = tonumber(kept_s)
if ARGV[3] ~= '0' and tonumber(ARGV[11]) < {NEARLY_FULL} then
  redis.call('SET', KEYS[3], ARGV[9], 'EX', math.min(tonumber(ARGV[3]), kept_s))
end
if ARGV[10] ~= '' then
  redis.call('HSET', KEYS[4], 'trace', ARGV[10], 'requested', '1')
  redis.call('EXPIRE', KEYS[4], kept_s)
end
return 1
"""

# Deletes a query with its trace, also where Redis has no space left.
_CANCEL = f"""{CHARGED}{DROP_ENTRY}{GIVE_BACK_PLACE}
local charged, place = unpack(redis.call('HMGET', KEYS[1], 'charged', 'place'))
give_back(place)
local deleted = redis.call('DEL', KEYS[1]) + redis.call('DEL', KEYS[2])
redis.call('DEL', KEYS[3])
redis.call('PUBLISH', ARGV[2], ARGV[3])
drop_entry(KEYS[4], KEYS[5], ARGV[1])
discharge(KEYS[6], charged)
return deleted
"""

# Notes that a worker begins a channel, unless it has a result. Returns nothing if a worker has begun it since its header was
# sent again.
_LOAD = """
local query, answered, result, ran =
  unpack(redis.call('HMGET', KEYS[1], 'query', 'answer_status', 'envelope:' .. ARGV[1], 'ran:' .. ARGV[1]))
if ran and tonumber(ARGV[3]) > 0 and tonumber(string.match(ran, '^%S+')) >= tonumber(ARGV[3]) then
  return {false, answered}
end
if ARGV[1] ~= '' and query and not answered and not result then
  redis.call('HSET', KEYS[1], 'ran:' .. ARGV[1], ARGV[2])
end
return {query, answered}
"""

# Stores a result of a channel, or nothing for a part that has none; the last result of a run ends the part. Returns all fields
# of the query once all parts have ended, also when called again. A cancelled query is not recreated. A task may run twice: a
# failure of one run does not replace the result of the other.
_REPORT = """
local all, stored = redis.call('HGETALL', KEYS[1]), {}
for at = 1, #all, 2 do stored[all[at]] = all[at + 1] end
if not stored.opened or stored.answer_status then return nil end
local fields, left = {}, tonumber(stored.left or 1)
if ARGV[2] == 'ok' or not stored[ARGV[6]] then
  for at = 6, #ARGV do fields[#fields + 1] = ARGV[at] end
end
if ARGV[3] == '1' and not stored['ended:' .. ARGV[1]] then
  left = left - 1
  for _, value in ipairs({'left', tostring(left), 'ended:' .. ARGV[1], '1'}) do fields[#fields + 1] = value end
end
if #fields > 0 then redis.call('HSET', KEYS[1], unpack(fields)) end
if stored.followed then redis.call('PUBLISH', ARGV[4], ARGV[5]) end
if left > 0 then return nil end
for _, value in ipairs(fields) do all[#all + 1] = value end
return all
"""

# Has the reports and the answer of a running query announced to all gateways from now on.
_FOLLOW = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'followed', '1') end"

# Stores the model's understanding of an existing query, and an element on the list that waiting callers block on.
_UNDERSTAND = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'answer') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'understood', ARGV[1], 'elapsed:understand', ARGV[2])
redis.call('DEL', KEYS[2])
redis.call('RPUSH', KEYS[2], '1')
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""

_BINARY: Final = b"\0"  # ends the JSON of a packed envelope, in which it cannot occur
_ID_BYTES: Final = 16
_IDS: Final = re.compile("(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})*")
_ID_LENGTH: Final = 36
_GROUPS: Final = (0, 8, 12, 16, 20, 32)  # where the groups of an id's digits begin
_SCORE: Final = np.dtype("<f8")
_WORD_KEPT_S = 120  # longer than any query runs
_CANCELLED_KEPT_S = 120
_WAITED_AT_ONCE_S = 0.5  # below the socket's own timeout


class Queries:
    """One tenant's queries. ``ttl_s``: how long a query is kept with its answer while there is space; ``cached_s``: how long
    if others may get the answer from the answer cache; ``quota``: the bytes that the tenant's queries may occupy, 0 for any
    number; ``memory`` returns the memory of Redis."""

    def __init__(
        self,
        client: redis.Redis,
        tenant_id: TenantId,
        *,
        ttl_s: int,
        cached_s: int = 0,
        quota: int = 0,
        memory: ReadMemory = lambda: UNLIMITED,
    ) -> None:
        self._redis = client
        self._tenant_id = tenant_id
        self._ttl_s = ttl_s
        self._cached_s = cached_s
        self._quota = quota
        self._memory = memory

    def open(self, query: Query, place: Place | None = None, *, waits: str = "") -> Verdict:
        """Store a query before it is sent to the channels, unless the ``place`` that it needs is taken; without one, unless
        it is stored. ``waits``: the channel of the gateway whose client waits for the answer, on which it is sent
        (`wake_names.own_channel`). Raises QuotaExceeded if the tenant has no space for it, StoreFull if nobody has."""
        ttl_s = max(self._ttl_s, self._cached_s) if query.cache_key else self._ttl_s
        with redis_errors():
            refused = self._redis.eval(*self._opening(query, place, ttl_s=ttl_s, waits=waits))
        if isinstance(refused, int):
            return Verdict(refused)
        self._admit(query, refused)
        return Verdict.TAKEN

    def load(
        self, query_id: QueryId, *, begins: ChannelName | None = None, worker: str = "", again_since: float = 0.0
    ) -> Query | None:
        """Return the stored query, or None if it is gone or answered. ``begins``: the channel that ``worker`` asks now, noted
        so that one that never returns is known to be that worker's. ``again_since``: when its header was sent again, in seconds
        since the epoch; return None if a worker has begun since."""
        with redis_errors():
            found: list[bytes | None] = self._redis.eval(  # type: ignore[assignment]
                _LOAD, 1, self._key(query_id), begins or "", f"{time.time():.4f} {worker}", f"{again_since:.4f}"
            )
        raw, answered = found
        return None if raw is None or answered is not None else read_query(decompressed(raw))

    def report(
        self,
        query: Query,
        envelope: Envelope,
        *,
        elapsed_ms: float,
        worker: str = "",
        calls: Sequence[OutsideCall] = (),
        more: bool = False,
    ) -> QueryState | None:
        """Store the result of a channel, in case the chord does not complete, and return the state of the query if every
        channel of it has reported. A failure does not replace an earlier result. ``worker``: the name of the worker that
        asked the channel; ``calls``: its calls meanwhile; ``more``: the same run will report again."""
        channel = envelope.channel
        part = query.channels.index(channel) if channel in query.channels else channel
        with redis_errors():
            fields: list[bytes] | None = self._redis.eval(  # type: ignore[assignment]
                _REPORT,
                1,
                self._key(query.query_id),
                str(part),
                envelope.status,
                "0" if more else "1",
                WAKE_CHANNEL,
                wake_name("query-step", self._tenant_id, query.query_id),
                f"envelope:{channel}",
                _envelope_as_stored(envelope),  # type: ignore[arg-type]  # bytes are sent as they are
                f"elapsed:{channel}",
                f"{elapsed_ms:.3f}",
                f"ran:{channel}",
                f"{time.time() - elapsed_ms / 1000:.4f} {worker}",
                f"calls:{channel}",
                orjson.dumps([tuple(call) for call in calls]),  # type: ignore[arg-type]
                f"step:{channel}",
                _STEP.dump_json(ChannelStep.of(envelope)),  # type: ignore[arg-type]
            )
        return None if fields is None else _state(dict(zip(fields[::2], fields[1::2], strict=True)))

    def end_part(self, query_id: QueryId, index: int) -> bool:
        """Count the part of the channel at this place of the query's as ended without a result, unless it has ended; return
        whether every part has."""
        with redis_errors():
            fields = self._redis.eval(_REPORT, 1, self._key(query_id), str(index), "failed", "1", "", "")
        return fields is not None

    def follow(self, query_id: QueryId) -> None:
        """Have the reports and the answer of a running query announced to all gateways from now on."""
        with redis_errors():
            self._redis.eval(_FOLLOW, 1, self._key(query_id))

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
        query: Query,
        answer: bytes,
        *,
        status: str = "succeeded",
        note: AuditEntry | None = None,
        keep: bool = False,
        trace: bytes | None = None,
    ) -> bool:
        """Store the answer to a query, as it was opened, and wake waiting callers; False if there was one, or the query is
        gone. ``note``: its row for the audit; ``keep``: cache it under the query's key; ``trace``: stored beside it."""
        with redis_errors():
            return bool(self._redis.eval(*self._answering(query, answer, status, note, keep, trace)))

    def open_answered(self, query: Query, answer: bytes, *, note: AuditEntry) -> None:
        """Store a query together with its answer, in one round trip, or the answer alone to one that is open. Raises as `open`
        does."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.eval(*self._opening(query, ttl_s=self._ttl_s))
            pipe.eval(*self._answering(query, answer, "succeeded", note))  # does nothing if it was not opened
            refused, _ = pipe.execute()
        if not isinstance(refused, int):
            self._admit(query, refused)

    def cached_answer(self, cache_key: str) -> bytes | None:
        """Return the cached answer under this key, or None if it has expired."""
        with redis_errors():
            first: bytes | None = self._redis.get(self._cache_key(cache_key))  # type: ignore[assignment]
        return None if first is None else self.field(QueryId(first.decode()), "answer")

    def _opening(self, query: Query, place: Place | None = None, *, ttl_s: int, waits: str = "") -> tuple[Any, ...]:
        """Return the arguments of the script that stores a query."""
        memory = self._memory()
        keys: tuple[str, ...] = (self._key(query.query_id), account_key(self._tenant_id))
        taking: tuple[str, ...] = ()
        if place is not None:
            keys += (pool_key(place.pool),)
            taking = (place_id(self._tenant_id, query.query_id), f"{place.left_s:.3f}", str(place.most))
        return (
            _OPEN,
            len(keys),
            *keys,
            compressed(QUERY.dump_json(query)),
            f"{time.time():.4f}",
            str(ttl_s),
            str(LEAST_KEPT_S),
            f"{memory.share:.4f}",
            str(answer_limit(memory, self._quota)),
            str(_expected_bytes(query)),
            str(max(1, math.ceil(query.deadline_at - time.time())) + _OPEN_KEPT_S),
            str(len(query.channels)),
            waits,
            *taking,
        )

    def _admit(self, query: Query, refused: Any) -> None:
        """Raise QuotaExceeded if the script that stores a query has refused it, or StoreFull where others have filled
        Redis: the tenant then uses less than this query needs, and cannot free that much itself."""
        if refused is None:
            return
        used, wait_s = int(refused[0]), float(refused[1])
        limit = answer_limit(self._memory(), self._quota)
        if used < _expected_bytes(query) and limit != self._quota:
            raise StoreFull("Redis has no memory left for the answer of a query", server="Redis")
        raise too_many_answers(used, limit, wait_s)

    def _answering(
        self,
        query: Query,
        answer: bytes,
        status: str,
        note: AuditEntry | None,
        keep: bool = False,
        trace: bytes | None = None,
    ) -> tuple[Any, ...]:
        """Return the arguments of the script that stores an answer."""
        memory = self._memory()
        return (
            _ANSWER,
            5,
            self._key(query.query_id),
            list_key(self._tenant_id),
            self._cache_key(query.cache_key),
            trace_key(self._tenant_id, query.query_id),
            account_key(self._tenant_id),
            compressed(answer),
            status,
            str(self._cached_s if keep else 0),
            WAKE_CHANNEL,
            wake_name("query", self._tenant_id, query.query_id),
            b"" if note is None else packed(note),
            self._tenant_id,
            str(memory.scaled(MOST_WAITING, MOST_WAITING // 20)),
            query.query_id,
            trace or b"",
            f"{memory.share:.4f}",
            *_only_running(query),
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
        return None if value is None else decompressed(value)

    def compressed_answer(self, query_id: QueryId) -> bytes | None:
        """Return the answer to a query as it is stored, for `query.compression`; None without one."""
        with redis_errors():
            value: bytes | None = self._redis.hget(self._key(query_id), "answer")  # type: ignore[assignment]
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
        keys = (
            self._key(query_id),
            trace_key(self._tenant_id, query_id),
            self._word(query_id),
            traces_key(self._tenant_id),
            trace_entries_key(self._tenant_id),
            account_key(self._tenant_id),
        )
        woken = (WAKE_CHANNEL, wake_name("query", self._tenant_id, query_id))
        with redis_errors():
            return bool(self._redis.eval(_CANCEL, len(keys), *keys, query_id, *woken))

    def is_lost(self, query_id: QueryId) -> bool:
        """Return whether a query that was stored is gone although nobody cancelled it, as after a restart of Redis."""
        with redis_errors():
            return not self._redis.exists(self._key(query_id), self._cancelled(query_id))

    def hears(self, channel: str) -> bool:
        """Return whether somebody listens to a wake channel at the server that is read, and not at its predecessor."""
        with redis_errors():
            listeners: Any = self._redis.pubsub_numsub(channel)
        return any(count for _, count in listeners)

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


def _expected_bytes(query: Query) -> int:
    """Return an estimate of the memory of a query and its answer."""
    return _OPEN_BYTES + query.top_k * _CHUNK_BYTES + _context_tokens(query) * _TOKEN_BYTES


def _context_tokens(query: Query) -> int:
    return 0 if query.plan.context is None else query.plan.context.max_tokens


@functools.lru_cache(maxsize=32)  # every part of a query reads the same
def read_query(document: bytes) -> Query:
    """Parse a stored query. A plan of the next release may have further fields: during an upgrade they have no effect here."""
    return QUERY.validate_json(document, extra="ignore")


def _only_running(query: Query) -> list[str]:
    """Return the fields that only a running query needs."""
    of_channels = [f"{kind}:{channel}" for kind in ("envelope", "calls", "ran") for channel in query.channels]
    return [*of_channels, *(f"ended:{part}" for part in range(len(query.channels))), "understood"]


def _envelope_as_stored(envelope: Envelope) -> bytes:
    """Return an envelope as JSON, packed with its hits behind it in binary: the ids, then the scores."""
    ids = _packed_ids(envelope.chunk_ids)
    if ids is None:
        return _ENVELOPE.dump_json(envelope)
    others = _ENVELOPE.dump_json(replace(envelope, chunk_ids=(), scores=()))
    return others + _BINARY + ids + np.array(envelope.scores, _SCORE).tobytes()


def _stored_envelope(value: bytes) -> Envelope:
    others, binary, hits = value.partition(_BINARY)
    envelope = _ENVELOPE.validate_json(others)
    if not binary:
        return envelope
    count = len(hits) // (_ID_BYTES + _SCORE.itemsize)
    scores = np.frombuffer(hits, _SCORE, count, count * _ID_BYTES).tolist()
    return replace(envelope, chunk_ids=_ids_of(hits[: count * _ID_BYTES]), scores=tuple(scores))


def _packed_ids(chunk_ids: Sequence[ChunkId]) -> bytes | None:
    """Return ids as 16 bytes each; None unless all are UUIDs as we write them, as those of a business interface may not be."""
    written = "".join(chunk_ids)
    if not _IDS.fullmatch(written) or not {_ID_LENGTH}.issuperset(map(len, chunk_ids)):
        return None
    return bytes.fromhex(written.replace("-", ""))


def _ids_of(packed: bytes) -> tuple[ChunkId, ...]:
    count = len(packed) // _ID_BYTES
    digits = np.frombuffer(packed.hex().encode(), np.uint8).reshape(count, 2 * _ID_BYTES)
    written = np.full((count, _ID_LENGTH), ord("-"), np.uint8)
    for dashes, (first, end) in enumerate(pairwise(_GROUPS)):
        written[:, first + dashes : end + dashes] = digits[:, first:end]
    ids = written.tobytes().decode()
    return tuple([ChunkId(ids[at : at + _ID_LENGTH]) for at in range(0, len(ids), _ID_LENGTH)])


def _state(raw: dict[bytes, bytes]) -> QueryState:
    envelopes, elapsed, ran = [], {}, {}
    steps: dict[str, ChannelStep] = {}
    calls = {name: value for name, value in raw.items() if name.startswith(b"calls:")}
    for name, value in sorted(raw.items()):
        kind, _, channel = name.decode().partition(":")
        if kind == "envelope":
            envelopes.append(_stored_envelope(value))
        elif kind == "step":
            steps[channel] = _STEP.validate_json(value)
        elif kind == "elapsed":
            elapsed[channel] = float(value)
        elif kind == "ran":
            started_at, _, worker = value.decode().partition(" ")
            made = orjson.loads(calls.get(f"calls:{channel}".encode(), b"[]"))
            ran[channel] = ChannelRun(float(started_at), worker, tuple(starmap(OutsideCall, made)))
    return QueryState(
        query=read_query(decompressed(raw[b"query"])),
        status=raw.get(b"answer_status", b"running" if envelopes else b"queued").decode(),
        envelopes=tuple(envelopes),
        steps=tuple(steps[name] for name in sorted(steps)),
        elapsed_ms=elapsed,
        ran=ran,
        opened_at=float(raw[b"opened"]) if b"opened" in raw else None,
        answer=decompressed(raw[b"answer"]) if b"answer" in raw else None,
        understood=_UNDERSTOOD.validate_json(raw[b"understood"]) if b"understood" in raw else None,
    )
