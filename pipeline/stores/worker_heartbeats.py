"""Heartbeats of workers in Redis: the queues that each worker consumes, on every broker.

A worker writes one key of its own twice a second; the key expires after `EXPIRES_S`. `WorkerHeartbeats.all` therefore
drops a worker that was killed, stopped by a signal or cut off from its broker within that time, and a worker that ends
in order at once. Reading costs two commands, whatever the number of workers, and sends no message to a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import urlsplit

import redis

from pipeline.stores.expiring_records import ExpiringRecords

EVERY_S: Final = 0.5
EXPIRES_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHeartbeat:
    """One worker's last heartbeat. ``queues``: consumed now. ``broker``: without user and password. ``started_at``,
    ``beat_at``: epoch seconds by its clock."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...]
    version: str
    celery: str
    kombu: str
    broker: str
    started_at: float
    beat_at: float

    @property
    def worker_id(self) -> str:
        """Return an id that, unlike ``name``, differs between two workers that were started under one name."""
        return f"{self.name}/{self.pid}"


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
        return [_read(beat) for beat in self._records.all()]

    def listening(self, queue: str) -> list[WorkerHeartbeat]:
        """Return the workers that consume ``queue``; without any, messages there wait."""
        return [heartbeat for heartbeat in self.all() if queue in heartbeat.queues]


_FIELDS: Final = frozenset(field.name for field in fields(WorkerHeartbeat))


def _read(stored: dict[str, Any]) -> WorkerHeartbeat:
    known = {name: value for name, value in stored.items() if name in _FIELDS}  # a newer worker may write more
    return WorkerHeartbeat(**{**known, "queues": tuple(known["queues"])})


def unserved(queues: Sequence[str], workers: Sequence[WorkerHeartbeat]) -> tuple[str, ...]:
    """Return the queues that none of ``workers`` consumes, in the order given."""
    served = {queue for worker in workers for queue in worker.queues}
    return tuple(queue for queue in queues if queue not in served)


def broker_address(url: str) -> str:
    """Return scheme, host, port and path of each broker URL in ``url``, without user, password and options."""
    return ";".join(_without_secrets(one) for one in url.split(";"))


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
