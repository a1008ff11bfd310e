"""Expiring records in Redis, of workers, indexers and hosts. A worker writes its heartbeat with its queues once a second.
The heartbeat of a killed worker disappears after `EXPIRES_S`, that of a stopping worker at once."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from typing import Any, Final

import orjson
import redis

from pipeline.database.clock_skew import distance, seconds_ahead
from pipeline.database.engines import redis_errors
from pipeline.database.store_errors import MYSQL, POSTGRES
from pipeline.database.worker_heartbeats import (
    EXPIRES_S,
    FORGOTTEN_S,
    MOST_SILENT,
    SIGN_EVERY_S,
    SILENT_S,
    DiskSpace,
    HostState,
    ProcessSign,
    ProcessState,
    RunningTask,
    WorkerHeartbeat,
    host_states,
)
from pipeline.errors import StoreFull, StoreUnavailable


class ExpiringRecords:
    """Records by id that expire ``expires_s`` after the last write. ``registry``: the key of the set of ids; ``key``: a
    record's, with a blank for the id. Thread-safe. Methods raise StoreUnavailable."""

    def __init__(self, client: redis.Redis, *, registry: str, key: str, expires_s: float) -> None:
        self._redis = client
        self._registry = registry
        self._key = key
        self._expires_ms = int(expires_s * 1000)
        self._registered_at: dict[str, float] = {}

    def write(self, record_id: str, record: Any) -> None:
        """Store a record for ``expires_s`` seconds. Costs one command; two in one round trip every few seconds, and if there
        was no record before: a reader that found none may just be deleting the id."""
        key, value, now = self._key.format(record_id), orjson.dumps(record), time.monotonic()
        is_registered = now - self._registered_at.get(record_id, -math.inf) < SIGN_EVERY_S
        with redis_errors():
            if is_registered and self._redis.set(key, value, px=self._expires_ms, get=True) is not None:
                return
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.set(key, value, px=self._expires_ms)
                pipe.sadd(self._registry, record_id)
                pipe.execute()
            self._registered_at[record_id] = now

    def withdraw(self, record_id: str) -> None:
        """Delete a record at once."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.srem(self._registry, record_id)
            pipe.delete(self._key.format(record_id))
            pipe.execute()

    def all(self) -> list[Any]:
        """Return the records that have not expired, by id, and delete the others' ids. Costs two commands."""
        return list(self._by_id().values())

    def aged(self) -> list[tuple[Any, float]]:
        """Return the records with the seconds since each was written, by the clock of Redis alone."""
        records = self._by_id()
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            for record_id in records:
                pipe.pttl(self._key.format(record_id))
            left_ms = pipe.execute()
        return [
            (record, (self._expires_ms - left) / 1000) for record, left in zip(records.values(), left_ms, strict=True)
        ]

    def _by_id(self) -> dict[str, Any]:
        with redis_errors():
            ids = sorted(member.decode() for member in self._redis.smembers(self._registry))  # type: ignore[union-attr]
            if not ids:
                return {}
            records: Sequence[bytes | None] = self._redis.mget(map(self._key.format, ids))  # type: ignore[assignment]
            found = dict(zip(ids, records, strict=True))
            gone = [record_id for record_id, record in found.items() if record is None]
            if gone:
                self._redis.srem(self._registry, *gone)  # a slow process adds itself again with its next record
        return {record_id: orjson.loads(record) for record_id, record in found.items() if record is not None}


class WorkerHeartbeats:
    """The heartbeats of an installation's workers, and the signs of life of all its processes, which stay for a week
    unless the process ends in order or an operator dismisses it. Thread-safe. Every method raises StoreUnavailable
    without Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._signs = ExpiringRecords(
            client, registry="chordwise:processes", key="chordwise:process:{}", expires_s=FORGOTTEN_S
        )
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

    def sign(self, sign: ProcessSign, *, clock: Callable[[], float] = time.monotonic) -> float:
        """Write a process's sign of life. Return the least number of seconds that the clock of Redis is ahead of this host's.

        The sign holds this distance: its own time tells nothing of the clock, since a server that stood still carries out a
        write late."""
        resumed_s = _resumed(sign.process_id, clock())
        with redis_errors():
            ahead_s = seconds_ahead(self._redis)
        record = asdict(sign) | {"ahead_s": ahead_s, "resumed_s": resumed_s, "kept_s": FORGOTTEN_S}
        self._signs.write(sign.process_id, record)
        _signed[sign.process_id] = clock()
        return distance(0.0, *ahead_s)

    def withdraw_sign(self, sign: ProcessSign) -> None:
        """Delete the sign of a process that ends in order, so that nobody misses it."""
        self._signs.withdraw(sign.process_id)

    def dismiss(self, *, host: str, name: str) -> bool:
        """Forget a silent process. Returns False if there is none of this name: a living one cannot be dismissed."""
        found = [
            each.sign
            for each in self.processes()
            if (each.sign.host, each.sign.name) == (host, name) and each.is_silent
        ]
        for sign in found:
            self.withdraw_sign(sign)
        return bool(found)

    def processes(self) -> list[ProcessState]:
        """Return the last sign of each process that did not end in order, by host and name. Forget the longest silent
        beyond `MOST_SILENT`."""
        states = [_state(record, age_s) for record, age_s in self._aged()]
        silent = sorted((state for state in states if state.is_silent), key=lambda state: state.silent_s)
        forgotten = [state.sign for state in silent[MOST_SILENT:]]
        for sign in forgotten:
            self.withdraw_sign(sign)
        return [state for state in states if state.sign not in forgotten] if forgotten else states

    def disks(self) -> list[tuple[str, DiskSpace]]:
        """Return the space of the disks that living processes see, with their host."""
        living = (state.sign for state in self.processes() if not state.is_silent)
        return [(sign.host, disk) for sign in living for disk in sign.disks]

    def hosts(self) -> list[HostState]:
        """Return the hosts of the last week, by name."""
        return host_states(self.processes())

    def skews(self, *, clock: Callable[[], float] = time.time) -> dict[str, float]:
        """Return by how many seconds the clock of each process that gave a sign lately is ahead of this host's, at least. Both
        have measured that of Redis, so no third clock matters."""
        with redis_errors():
            own_least, own_most = seconds_ahead(self._redis, clock=clock)
        signs = [(_name(record), record["ahead_s"]) for record, age_s in self._aged() if age_s <= SILENT_S]
        return {name: distance(0.0, own_least - most, own_most - least) for name, (least, most) in signs}

    def _aged(self) -> list[tuple[dict[str, Any], float]]:
        """Return each sign with its age, whose measure is the lifetime that its writer gave it."""
        return [(record, age_s - FORGOTTEN_S + record["kept_s"]) for record, age_s in self._signs.aged()]


# By process: when it last gave a sign, and since when it does so again after a gap. Of this process alone.
_signed: dict[str, float] = {}
_resumed_at: dict[str, float] = {}


def _resumed(process_id: str, now: float) -> float | None:
    """Return for how long the process has been giving signs since its last gap; None if there was none."""
    if now - _signed.get(process_id, now) > SILENT_S - SIGN_EVERY_S:
        _resumed_at[process_id] = now
    return now - _resumed_at[process_id] if process_id in _resumed_at else None


class FullStores:
    """The databases that refused a write because they were full, reported by every process for two minutes: reading works
    on a full disk, so no probe would find it. Those of Redis and the broker write, and know when it is over. Thread-safe."""

    def __init__(self, client: redis.Redis) -> None:
        self._records = ExpiringRecords(client, registry="chordwise:full", key="chordwise:full:{}", expires_s=120.0)

    def note(self, error: BaseException) -> None:
        """Report a database if the error says that it is full. Does nothing without Redis."""
        if isinstance(error, StoreFull) and error.server in (MYSQL.server, POSTGRES.server):
            with suppress(StoreUnavailable):
                self._records.write(error.server, str(error))

    def all(self) -> list[str]:
        """Return a sentence for each store that was full. Raises StoreUnavailable."""
        return [str(sentence) for sentence in self._records.all()]


def _state(record: dict[str, Any], age_s: float) -> ProcessState:
    disks = tuple(DiskSpace(**disk) for disk in record.get("disks", ()))
    sign = ProcessSign(host=record["host"], name=record["name"], serves=tuple(record["serves"]), disks=disks)
    resumed_s = record["resumed_s"]
    return ProcessState(sign=sign, silent_s=age_s, resumed_s=float("inf") if resumed_s is None else resumed_s)


def _name(record: dict[str, Any]) -> str:
    name = str(record["name"])
    return name if "@" in name else f"{name} on {record['host']}"


def _heartbeat(record: dict[str, Any]) -> WorkerHeartbeat:
    """Return a heartbeat; an older worker writes fewer fields, a newer one more."""
    known = {name: record[name] for name in _FIELDS if name in record}
    running = tuple(RunningTask(**task) for task in record.get("running", ()))
    return WorkerHeartbeat(**known | {"queues": tuple(record["queues"]), "running": running})


_FIELDS: Final = frozenset(field.name for field in fields(WorkerHeartbeat))
