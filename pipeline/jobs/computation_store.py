"""Computations in Redis while a caller waits: one expiring hash each, a large body in expiring rows of MySQL.

A computation, its steps and its answer are each written once, so duplicate messages and late workers change nothing.
"""

from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

import orjson
import redis
from sqlalchemy import Connection, Engine

from chordwise.contract.tenant import AuditActor
from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import UNLIMITED, ReadMemory
from pipeline.database.rows import TenantStore, now
from pipeline.database.statements import TenantsWith, sql
from pipeline.database.unit_of_work import unit_of_work
from pipeline.jobs.computation import (
    LIMITS,
    MOST_IN_REDIS,
    Computation,
    ComputationId,
    ComputationKind,
    ComputationProgress,
    Done,
    Failed,
    error_as_json,
    error_from_json,
)
from pipeline.query.wake_names import WAKE_CHANNEL
from pipeline.records import TenantId
from pipeline.tenants.answer_memory_store import too_many_answers

_PIECE: Final = 1024 * 1024  # bytes per row in MySQL, so that no statement is large
_SPARE_S: Final = 60.0  # seconds that a hash outlives the last possible wait for it
_ANSWER_KEPT_S: Final = 60  # the gateway fetches an answer at once and deletes the hash
_DROPPED_AT_ONCE: Final = 1000

# The step is marked as begun in the same command that reads it.
_TAKE = """
if redis.call('HEXISTS', KEYS[1], 'request') == 0 or redis.call('HEXISTS', KEYS[1], 'outcome') == 1 then return nil end
if redis.call('HGET', KEYS[1], 'step') ~= ARGV[1] or redis.call('HGET', KEYS[1], 'begun') == ARGV[1] then return nil end
redis.call('HSET', KEYS[1], 'begun', ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('PUBLISH', ARGV[3], ARGV[4])
return redis.call('HMGET', KEYS[1], 'request', 'body', 'state')
"""

_ADVANCE = """
if redis.call('HEXISTS', KEYS[1], 'outcome') == 1 or redis.call('HGET', KEYS[1], 'step') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'step', ARGV[2], 'state', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 1
"""

_SAY = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], 'outcome') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'text', ARGV[1])
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
"""

_SETTLE = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HSETNX', KEYS[1], 'outcome', ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'answer', ARGV[2])
redis.call('HDEL', KEYS[1], 'request', 'body', 'state', 'text')
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""


class Computations:
    """One tenant's computations."""

    def __init__(
        self,
        client: redis.Redis,
        mysql: Callable[[], Engine],
        tenant_id: TenantId,
        *,
        memory: ReadMemory = lambda: UNLIMITED,
    ) -> None:
        """Set the stores. ``mysql`` is called only for large bodies; ``memory`` returns the memory of Redis."""
        self._redis = client
        self._memory = memory
        self._mysql = mysql
        self._tenant_id = tenant_id

    def open(self, computation: Computation, *, begin_s: float) -> None:
        """Store a computation before it is sent to a worker, which has ``begin_s`` seconds to take it."""
        keep_s = begin_s + LIMITS[computation.kind].step_s + _SPARE_S
        in_mysql = len(computation.body) > MOST_IN_REDIS
        request = {
            "kind": computation.kind,
            "request_id": computation.request_id,
            "actor": asdict(computation.actor),
            "asked": computation.asked,
            "in_mysql": in_mysql,
        }
        if in_mysql:
            with unit_of_work(self._mysql()) as work:
                bodies = _Bodies(work.connection, self._tenant_id)
                bodies.put(computation.computation_id, computation.body, keep_s=keep_s)
        fields: dict[str, bytes | str] = {
            "request": orjson.dumps(request),
            "step": str(computation.step),
            "body": b"" if in_mysql else computation.body,
        }
        key = self.wake_name(computation.computation_id)
        with redis_errors(), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=fields)
            pipe.expire(key, round(keep_s))
            pipe.execute()

    def take(self, computation_id: ComputationId, step: int, *, keep_s: float) -> Computation | None:
        """Begin a step and return its computation; None if it has begun, is elsewhere, has ended or nobody waits."""
        taken = self._eval(_TAKE, computation_id, str(step), str(round(keep_s + _SPARE_S)))
        if taken is None:
            return None
        raw, body, state = taken
        request = orjson.loads(raw)
        return Computation(
            tenant_id=self._tenant_id,
            computation_id=computation_id,
            kind=ComputationKind(request["kind"]),
            asked=request["asked"],
            body=self._fetch(computation_id) if request["in_mysql"] else body,
            request_id=request["request_id"],
            actor=AuditActor(**{**request["actor"], "scopes": tuple(request["actor"]["scopes"])}),
            step=step,
            state=None if state is None else orjson.loads(state),
        )

    def advance(self, computation: Computation, state: Any) -> bool:
        """End a step and store ``state`` for the next one; return False if the computation has ended or is gone."""
        keep_s = LIMITS[computation.kind].step_s + _SPARE_S
        step = computation.step
        values = (str(step), str(step + 1), orjson.dumps(state), str(round(keep_s)))
        return bool(self._eval(_ADVANCE, computation.computation_id, *values))

    def say(self, computation_id: ComputationId, text: str) -> bool:
        """Store the beginning of a text and wake the gateway; False if the computation ended or its caller is gone."""
        return bool(self._eval(_SAY, computation_id, text))

    def finish(self, computation_id: ComputationId, outcome: Done | Failed) -> bool:
        """Store the outcome and wake the gateway. False if there is one already, or no caller waits. An answer that would
        take more than a quarter of the free memory becomes a failure with QuotaExceeded."""
        answer = b""
        if isinstance(outcome, Done) and (free := self._memory().free) is not None and len(outcome.body) > free // 4:
            outcome = Failed(error=too_many_answers(len(outcome.body), free // 4, _SPARE_S))
        if isinstance(outcome, Done):
            reply: dict[str, Any] = {"about": outcome.about}
            answer = outcome.body
        else:
            reply = {"error": None if outcome.error is None else error_as_json(outcome.error)}
        return bool(self._eval(_SETTLE, computation_id, orjson.dumps(reply), answer, str(_ANSWER_KEPT_S)))

    def progress(self, computation_id: ComputationId) -> ComputationProgress | None:
        """Return the progress of a computation, with the outcome once there is one; None if the computation is gone."""
        with redis_errors():
            step, begun, outcome, answer, text = self._redis.hmget(  # type: ignore[misc]
                self.wake_name(computation_id), ["step", "begun", "outcome", "answer", "text"]
            )
        if step is None:
            return None
        return ComputationProgress(
            step=int(step),
            begun=begun == step,
            outcome=None if outcome is None else _outcome(outcome, answer),
            text=(text or b"").decode(),
        )

    def drop(self, computation: Computation) -> None:
        """Delete a computation: its worker then finds no step to do, or no caller for the outcome."""
        with redis_errors():
            self._redis.unlink(self.wake_name(computation.computation_id))
        if len(computation.body) > MOST_IN_REDIS:
            with unit_of_work(self._mysql()) as work:
                _Bodies(work.connection, self._tenant_id).drop(computation.computation_id)

    def wake_name(self, computation_id: ComputationId) -> str:
        """Return the key of the computation, which is also the message on the wake channel when a step begins or ends."""
        return f"{self._tenant_id}:computation:{computation_id}"

    def _eval(self, script: str, computation_id: ComputationId, *values: str | bytes) -> Any:
        """Run a script on the computation's hash, which publishes on the wake channel if it changes anything."""
        key = self.wake_name(computation_id)
        with redis_errors():
            return self._redis.eval(script, 1, key, *values, WAKE_CHANNEL, self.wake_name(computation_id))  # type: ignore[arg-type]  # bytes are sent as they are

    def _fetch(self, computation_id: ComputationId) -> bytes:
        with unit_of_work(self._mysql()) as work:
            return _Bodies(work.connection, self._tenant_id).body(computation_id)


class _Bodies(TenantStore):
    """Large bodies of one tenant's computations."""

    def put(self, computation_id: ComputationId, body: bytes, *, keep_s: float) -> None:
        """Store a body in pieces."""
        values = {"tenant": self._tenant_id, "computation": computation_id}
        expires_at = now() + timedelta(seconds=keep_s)
        for piece, start in enumerate(range(0, len(body), _PIECE)):
            row = {**values, "piece": piece, "expires": expires_at, "body": body[start : start + _PIECE]}
            self._connection.execute(_PUT, row)

    def body(self, computation_id: ComputationId) -> bytes:
        """Return a stored body."""
        rows = self._run(_BODY, computation=computation_id)
        return b"".join(row.body for row in rows)

    def drop(self, computation_id: ComputationId) -> None:
        """Delete a body."""
        self._run(_DROP, computation=computation_id)


# That have a body with no waiting caller, because its gateway died.
tenants_with_expired_bodies = TenantsWith(
    "SELECT DISTINCT tenant_id FROM computation_bodies WHERE expires_at < :now LIMIT 1000"
)


def drop_expired_bodies(connection: Connection, tenant_id: TenantId) -> int:
    """Delete up to a thousand rows of a tenant's expired bodies; return the number of rows."""
    values = {"tenant": tenant_id, "now": now(), "limit": _DROPPED_AT_ONCE}
    return int(connection.execute(_DROP_EXPIRED, values).rowcount)


def _outcome(stored: bytes, answer: bytes | None) -> Done | Failed:
    fields = orjson.loads(stored)
    if "error" in fields:
        return Failed(error=None if fields["error"] is None else error_from_json(fields["error"]))
    return Done(body=answer or b"", about=fields["about"])


_PUT = sql(
    "INSERT INTO computation_bodies (tenant_id, computation_id, piece, body, expires_at)"
    " VALUES (:tenant, :computation, :piece, :body, :expires)"
)
_BODY = sql(
    "SELECT body FROM computation_bodies WHERE tenant_id = :tenant AND computation_id = :computation ORDER BY piece"
)
_DROP = sql("DELETE FROM computation_bodies WHERE tenant_id = :tenant AND computation_id = :computation")
_DROP_EXPIRED = sql("DELETE FROM computation_bodies WHERE tenant_id = :tenant AND expires_at < :now LIMIT :limit")
