"""Record the installation's figures once a minute, and read them as series over time."""

import math
import time
from collections.abc import Callable, Collection, Mapping

import structlog

from pipeline.administration.read_metrics import read_ledger
from pipeline.database.unit_of_work import unit_of_work
from pipeline.metrics.definitions import QueueDepth
from pipeline.metrics.history import RANGES, HistoryRange, sample_of, series_of
from pipeline.metrics.history_store import mysql_bytes, postgres_bytes, redis_bytes
from pipeline.metrics.meter_store import read_totals
from pipeline.outages import tolerate_outage
from pipeline.resources import Resources

log = structlog.get_logger(__name__)


def record_history(
    use: Resources, read_depths: Callable[[], Mapping[str, QueueDepth]], *, query_queues: Collection[str]
) -> bool:
    """Record a sample unless one was recorded within the last minute, by this or another process; return whether it was.
    ``read_depths`` reads the backlog of each queue. Figures of a store that does not answer are left out. Raises
    StoreUnavailable without Redis."""
    now = time.time()
    if not use.metric_history.is_due(now):
        return False
    gauges: dict[str, float] = {}
    for read in (_ledger_gauges, _size_gauges, lambda _: _queue_gauges(read_depths(), query_queues)):
        with tolerate_outage(log.info, "history_incomplete"):
            gauges |= read(use)
    return use.metric_history.add(sample_of(read_totals(use.quick_redis), gauges, at=now))


def read_history(
    use: Resources, span: HistoryRange, *, now: float
) -> tuple[list[float], dict[str, list[float | None]]]:
    """Return the ends of the steps of ``span``, in epoch seconds, and each series' values; the last holds ``now``."""
    resolution = RANGES[span]
    step_s = resolution.step_s
    end = math.ceil(now / step_s) * step_s  # whole steps, so that a value does not change from one look to the next
    steps = resolution.span_s // step_s
    samples = use.metric_history.between(end - resolution.span_s - 2 * step_s, now, resolution)
    ends = [float(end - step_s * (steps - 1 - number)) for number in range(steps)]
    return ends, series_of(samples, resolution, end=end)


def _ledger_gauges(use: Resources) -> dict[str, float]:
    backlog, _ = read_ledger(use)
    return {
        "ingest_wait_s": backlog.oldest_s["due"],
        "waiting_documents": sum(backlog.items.values()),
        "dead_letters": sum(backlog.dead_letters.values()),
    }


def _size_gauges(use: Resources) -> dict[str, float]:
    with unit_of_work(use.mysql) as work:
        mysql = mysql_bytes(work.connection)
    with unit_of_work(use.postgres) as work:
        postgres = postgres_bytes(work.connection)
    index = sum(indexer.disk_bytes for indexer in use.indexer_reports.all())
    return {
        "mysql_bytes": mysql,
        "postgres_bytes": postgres,
        "redis_bytes": redis_bytes(use.quick_redis),
        "keyword_index_bytes": index,
    }


def _queue_gauges(depths: Mapping[str, QueueDepth], query_queues: Collection[str]) -> dict[str, float]:
    ages = [depth.oldest_s for queue, depth in depths.items() if queue in query_queues]
    return {"query_wait_s": max(ages)} if ages else {}
