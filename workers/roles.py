"""The roles of processes: one row per kind of worker, and the command line that each role runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workers.names import Queue

EVENT_HEARTBEAT_S = 10  # for Flower, which takes a worker for offline after twice this time


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One kind of worker. ``concurrency``: processes (prefork) or threads by default. ``events``: whether Celery reports
    its tasks to Flower; queries are reported by `workers.query_events` instead."""

    queues: tuple[Queue, ...]
    pool: str
    concurrency: int
    events: bool = True


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        # Parsing and embedding use the processor, and a document may take down its process.
        "ingest": Role(queues=(Queue.INGEST,), pool="prefork", concurrency=3),
        # The same for documents that take long, so that other tenants' batches have processes that are free.
        "long": Role(queues=(Queue.LONG,), pool="prefork", concurrency=1),
        # Queries wait for databases, in threads; start one per processor, because threads share an interpreter.
        "queries": Role(queues=(Queue.RECALL, Queue.ANSWER, Queue.BATCH), pool="threads", concurrency=4, events=False),
        # Previews, books of examples, edits and comparisons, in processes that a time limit can stop. One tenant occupies
        # at most two of them for long.
        "compute": Role(queues=(Queue.COMPUTE,), pool="prefork", concurrency=3),
        # These wait for models and the clock: many threads, so that slow models leave some to the sweeper.
        "upkeep": Role(queues=(Queue.UPKEEP, Queue.RERANK), pool="threads", concurrency=16),
    }
)

# The role of the workers that listen to each queue.
ROLE_OF: Mapping[str, str] = MappingProxyType(
    {queue.value: name for queue in Queue for name, role in ROLES.items() if queue in role.queues}
)

# The environment of their processes, unless it is set. Small matrices are multiplied faster by one thread. Memory arenas of
# each thread, glibc's default, took a third of the memory of gateways and workers under an hour of mixed load.
LEAN: Mapping[str, str] = MappingProxyType({"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"})


def worker_command(role: str, *, name: str = "", concurrency: int = 0, clock: str = "") -> list[str]:
    """Return the Celery command of a worker. ``name`` must be unique on its host; by default the role's. ``clock``: the
    file of the clock that it is as well.

    Prefetch 1: no task waits behind a slow one. Gossip and mingle cost messages and bring nothing here.
    """
    row = ROLES[role]
    flags = ["--prefetch-multiplier", "1", "--without-gossip", "--without-mingle", "-l", "INFO"]
    flags += ["--heartbeat-interval", str(EVENT_HEARTBEAT_S), *(["--clock", clock] if clock else [])]
    return [
        *("celery", "-A", "workers.app", "worker", "-n", f"{name or role}@%h", "-Q", ",".join(row.queues)),
        *("--pool", row.pool, "-c", str(concurrency or row.concurrency), *flags, *(["-E"] if row.events else [])),
    ]


def clock_command(schedule: str) -> list[str]:
    """Return the Celery command of the clock; ``schedule``: the file for the times of the last messages."""
    scheduler = "workers.clock:SingleClock"
    return ["celery", "-A", "workers.app", "beat", "-S", scheduler, "-s", schedule, "--pidfile=", "-l", "INFO"]
