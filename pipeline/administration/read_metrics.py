"""Read the figures of the whole fleet for one scrape of the metrics."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import redis

from pipeline.database.unit_of_work import unit_of_work
from pipeline.database.worker_heartbeats import HostState, WorkerHeartbeat
from pipeline.documents import alignment_store
from pipeline.documents.document_views import Totals
from pipeline.jobs.job_views import LedgerBacklog
from pipeline.jobs.turn_store import backlog
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.metrics.definitions import Field, QueueDepth
from pipeline.metrics.meter_store import read_totals, read_window
from pipeline.metrics.queue_depth_store import counted_depths, queue_depths
from pipeline.resources import Resources
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
    open_circuits: Mapping[str, int]
    swept_at: float | None


def read_fleet(use: Resources) -> FleetFigures:
    """Return the figures in Redis. Raises StoreUnavailable."""
    queue = AuditQueue(use.quick_redis)
    age_s = use.last_sweep.age_s()
    return FleetFigures(
        totals=read_totals(use.quick_redis),
        window=read_window(use.quick_redis, now=time.time()),
        audit_waiting=queue.waiting(),
        audit_lost=queue.lost(),
        workers=use.heartbeats.all(),
        indexers=use.indexer_reports.all(),
        hosts=use.heartbeats.hosts(),
        open_circuits=_open_circuits(use),
        swept_at=None if age_s is None else time.time() - age_s,
    )


def _open_circuits(use: Resources) -> dict[str, int]:
    states = use.breakers.circuits()
    return Counter(name.partition("/")[0] for name, circuit in states.items() if circuit.open_until is not None)


def read_queues(
    use: Resources, broker: redis.Redis | None, queues: Sequence[str], *, count_messages: CountMessages
) -> dict[str, QueueDepth]:
    """Return the backlog of each queue. ``broker``: the broker if it is a Redis; else ``count_messages`` returns the
    number of waiting messages by queue. Raises Unavailable."""
    if broker is not None:
        return queue_depths(broker, queues, now=time.time())
    return counted_depths(use.quick_redis, count_messages(queues), use.heartbeats.all(), now=time.time())


def read_ledger(use: Resources) -> tuple[LedgerBacklog, Totals]:
    """Return the backlog of the ledger and the reconciler's counts. Raises StoreUnavailable."""
    read: list[tuple[LedgerBacklog, Totals]] = []
    for stores in use.pairs:
        with unit_of_work(stores.mysql) as work:
            totals = alignment_store.totals(work.connection)
            read.append((backlog(work.connection), totals))
    return reduce(_added, read)


def _added(one: tuple[LedgerBacklog, Totals], other: tuple[LedgerBacklog, Totals]) -> tuple[LedgerBacklog, Totals]:
    (here, counted), (there, more) = one, other
    ledger = LedgerBacklog(
        items={state: count + there.items[state] for state, count in here.items.items()},
        oldest_s={state: max(age_s, there.oldest_s[state]) for state, age_s in here.oldest_s.items()},
        dead_letters={reason: count + there.dead_letters[reason] for reason, count in here.dead_letters.items()},
    )
    runs = [run for run in (counted.last_run, more.last_run) if run is not None]
    totals = Totals(
        counted={name: count + more.counted[name] for name, count in counted.counted.items()},
        last_run=max(runs, default=None),
        withheld=counted.withheld + more.withheld,
    )
    return ledger, totals
