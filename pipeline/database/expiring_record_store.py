"""Expiring records in Redis, of workers and of indexers. A worker writes its heartbeat with its queues twice a second.
The heartbeat of a killed worker disappears after `EXPIRES_S`, that of a stopping worker at once."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

import orjson
import redis

from pipeline.database.engines import redis_errors
from pipeline.database.worker_heartbeats import EXPIRES_S, RunningTask, WorkerHeartbeat
from pipeline.errors import StoreFull, StoreUnavailable


class ExpiringRecords:
    """Records by id that expire ``expires_s`` after the last write. ``registry``: the key of the set of ids; ``key``: a
    record's, with a blank for the id. Thread-safe. Methods raise StoreUnavailable."""

    def __init__(self, client: redis.Redis, *, registry: str, key: str, expires_s: float) -> None:
        self._redis = client
        self._registry = registry
        self._key = key
        self._expires_ms = int(expires_s * 1000)

    def write(self, record_id: str, record: Any) -> None:
        """Store a record for ``expires_s`` seconds."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.sadd(self._registry, record_id)
            pipe.set(self._key.format(record_id), orjson.dumps(record), px=self._expires_ms)
            pipe.execute()

    def withdraw(self, record_id: str) -> None:
        """Delete a record at once."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.srem(self._registry, record_id)
            pipe.delete(self._key.format(record_id))
            pipe.execute()

    def all(self) -> list[Any]:
        """Return the records that have not expired, by id, and delete the others' ids. Costs two commands."""
        with redis_errors():
            ids = sorted(member.decode() for member in self._redis.smembers(self._registry))  # type: ignore[union-attr]
            if not ids:
                return []
            records: Sequence[bytes | None] = self._redis.mget(map(self._key.format, ids))  # type: ignore[assignment]
            gone = [record_id for record_id, record in zip(ids, records, strict=True) if record is None]
            if gone:
                self._redis.srem(self._registry, *gone)  # a slow process adds itself again with its next record
        return [orjson.loads(record) for record in records if record is not None]


class WorkerHeartbeats:
    """The heartbeats of an installation. Thread-safe. Every method raises StoreUnavailable without Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._records = ExpiringRecords(
            client, registry="chordwise:workers", key="chordwise:worker:{}", expires_s=EXPIRES_S
        )

    def beat(self, heartbeat: WorkerHeartbeat) -> None:
        """Report a worker as listening for the next `EXPIRES_S` seconds."""
        self._records.write(heartbeat.worker_id, heartbeat)

    def withdraw(self, worker_id: str) -> None:
        """Report a worker as gone, at once."""
        self._records.withdraw(worker_id)

    def all(self) -> list[WorkerHeartbeat]:
        """Return every worker with a heartbeat in the last `EXPIRES_S` seconds, by name."""
        return [_heartbeat(record) for record in self._records.all()]

    def listening(self, queue: str) -> list[WorkerHeartbeat]:
        """Return the workers that consume ``queue``; without any, messages there wait."""
        return [heartbeat for heartbeat in self.all() if queue in heartbeat.queues]


class FullStores:
    """The stores that refused a write because they were full, reported by every process for two minutes: reading works
    on a full disk, so no probe of a store would find it. Thread-safe."""

    def __init__(self, client: redis.Redis) -> None:
        self._records = ExpiringRecords(client, registry="chordwise:full", key="chordwise:full:{}", expires_s=120.0)

    def note(self, error: BaseException) -> None:
        """Report a store if the error says that it is full. Does nothing without Redis."""
        if isinstance(error, StoreFull):
            with suppress(StoreUnavailable):
                self._records.write(error.server, str(error))

    def all(self) -> list[str]:
        """Return a sentence for each store that was full. Raises StoreUnavailable."""
        return [str(sentence) for sentence in self._records.all()]


def _heartbeat(record: dict[str, Any]) -> WorkerHeartbeat:
    """Return a heartbeat; an older worker writes fewer fields, a newer one more."""
    known = {name: record[name] for name in _FIELDS if name in record}
    running = tuple(RunningTask(**task) for task in record.get("running", ()))
    return WorkerHeartbeat(**known | {"queues": tuple(record["queues"]), "running": running})


_FIELDS: Final = frozenset(field.name for field in fields(WorkerHeartbeat))
