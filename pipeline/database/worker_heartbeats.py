"""Heartbeats of workers: what one says of itself, and the queues that nobody consumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

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
