"""Read the figures of the whole fleet for one scrape of the metrics."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import redis

from pipeline.database.engines import postgres_errors
from pipeline.database.redis_memory import RedisMemory
from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.worker_heartbeats import (
    DiskSpace,
    HostState,
    ProcessState,
    WorkerHeartbeat,
    host_states,
    silent_processes,
)
from pipeline.documents import alignment_store
from pipeline.documents.document_views import Totals
from pipeline.jobs.job_views import LedgerBacklog
from pipeline.jobs.turn_store import backlog
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.metrics.definitions import Field, IndexSummary, QueueDepth
from pipeline.metrics.meter_store import read_totals, read_window
from pipeline.metrics.queue_depth_store import counted_depths, queue_depths
from pipeline.resources import Resources
from pipeline.semantic.vector_index_store import summaries
from pipeline.tenants.audit_store import AuditQueue

CountMessages = Callable[[Sequence[str]], Mapping[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFigures:
    """Figures of all processes. ``window``: counts of the last minutes. ``audit_waiting``, ``audit_lost``: searches.
    ``open_circuits``: by part, those that refuse calls. ``swept_at``: Unix time of the last sweep, None if none is known."""

    totals: Mapping[Field, float]
    window: Mapping[Field, float]
    audit_waiting: int
    audit_lost: int
    workers: Sequence[WorkerHeartbeat]
    indexers: Sequence[IndexerFacts]
    hosts: Sequence[HostState]
    silent: Sequence[ProcessState]
    disks: Sequence[tuple[str, DiskSpace]]
    open_circuits: Mapping[str, int]
    swept_at: float | None
    redis_memory: RedisMemory


def read_fleet(use: Resources) -> FleetFigures:
    """Return the figures in Redis. Raises StoreUnavailable."""
    queue = AuditQueue(use.quick_redis)
    age_s = use.last_sweep.age_s()
    processes = use.heartbeats.processes()
    return FleetFigures(
        totals=read_totals(use.quick_redis),
        window=read_window(use.quick_redis, now=time.time()),
        audit_waiting=queue.waiting(),
        audit_lost=queue.lost(),
        workers=use.heartbeats.all(),
        indexers=use.indexer_reports.all(),
        hosts=host_states(processes),
        silent=silent_processes(processes),
        disks=use.heartbeats.disks(),
        open_circuits=use.breakers.open_parts(),
        swept_at=None if age_s is None else time.time() - age_s,
        redis_memory=use.redis_memory(),
    )


def read_queues(
    use: Resources, broker: redis.Redis | None, queues: Sequence[str], *, count_messages: CountMessages
) -> dict[str, QueueDepth]:
    """Return the backlog of each queue. ``broker``: the broker if it is a Redis; else ``count_messages`` returns the
    number of waiting messages by queue. Raises Unavailable."""
    if broker is not None:
        return queue_depths(broker, queues, now=time.time())
    return counted_depths(use.quick_redis, count_messages(queues), use.heartbeats.all(), now=time.time())


def read_vector_indexes(use: Resources) -> list[IndexSummary]:
    """Return the vector indexes of all tenants, by table and kind. Raises StoreUnavailable."""
    with postgres_errors(), use.postgres.connect() as connection:
        return summaries(connection)


def read_ledger(use: Resources) -> tuple[LedgerBacklog, Totals]:
    """Return the backlog of the ledger and the reconciler's counts. Raises StoreUnavailable."""
    with unit_of_work(use.mysql) as work:
        return backlog(work.connection), alignment_store.totals(work.connection)
