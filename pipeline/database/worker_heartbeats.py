"""Heartbeats of workers: what one says of itself, and the queues that nobody consumes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

EVERY_S: Final = 0.5
EXPIRES_S: Final = 3.0
MOST_RUNNING: Final = 16  # tasks in one heartbeat, the oldest ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTask:
    """A task that a worker runs. ``work_id``: of its job, query or computation; ``started_at``: epoch seconds."""

    task: str
    work_id: str
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHeartbeat:
    """One worker's last heartbeat. ``queues``: consumed now. ``broker``: without user and password. ``started_at``,
    ``beat_at``: epoch seconds by its clock. ``running``: the oldest tasks that it runs, of ``busy`` in all; ``slots``: how
    many it can run at a time, 0 if unknown. ``taken``: by queue, when the newest message it took was sent."""

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
    running: tuple[RunningTask, ...] = ()
    busy: int = 0
    slots: int = 0
    taken: Mapping[str, float] = field(default_factory=dict)

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
