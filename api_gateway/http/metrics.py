"""Metrics for Prometheus: the gateway's own, and those of all processes and of the broker, which every gateway reports
alike.

Labels are templates and numbers, never ids.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import redis
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pipeline.administration.read_metrics import CountMessages, FleetFigures, read_fleet, read_queues
from pipeline.documents.reconciliation import KINDS, Totals
from pipeline.jobs.job_views import BACKLOG_STATES, LedgerBacklog
from pipeline.keyword_index.indexer_facts import IndexerFacts
from pipeline.metrics.definitions import METRICS, Field, MetricSpec, QueueDepth
from pipeline.resources import Resources
from workers.names import Queue


class FleetMetrics:
    """Metrics read for each scrape; none while Redis is unavailable, because old figures would look healthy."""

    def __init__(self) -> None:
        self._figures: FleetFigures | None = None
        self._depths: Mapping[str, QueueDepth] = {}

    def read(self, use: Resources, broker: redis.Redis | None, *, count_messages: CountMessages = lambda _: {}) -> None:
        """Read the figures from Redis. ``broker`` is the broker if it is a Redis; else ``count_messages`` returns the
        number of waiting messages by queue. Raises Unavailable."""
        self._figures, self._depths = None, {}
        self._figures = read_fleet(use)
        self._depths = read_queues(broker, [queue.value for queue in Queue], count_messages=count_messages)

    def collect(self) -> Iterator[Metric]:
        """Yield each metric of the list with its count."""
        figures = self._figures
        series: defaultdict[str, dict[tuple[str, ...], dict[str, float]]] = defaultdict(dict)
        for (name, part, labels), value in (figures.totals if figures else {}).items():
            series[name].setdefault(labels, {})[part] = value
        for spec in METRICS.values():
            yield _family(spec, series[spec.name])
        yield _success_rate(figures.window if figures else {})
        yield from _queue_families(self._depths)
        yield from _process_families(figures)


def _queue_families(depths: Mapping[str, QueueDepth]) -> Iterator[Metric]:
    messages = GaugeMetricFamily("chordwise_queue_messages", "Messages that no worker has taken.", labels=["queue"])
    oldest = GaugeMetricFamily(
        "chordwise_queue_oldest_seconds", "How long the next message of a queue has waited.", labels=["queue"]
    )
    unacked = GaugeMetricFamily(
        "chordwise_queue_unacked",
        "Messages that workers have taken and not done with; those for queries alone write down none.",
    )
    for queue, depth in depths.items():
        messages.add_metric([queue], depth.messages)
        if depth.oldest_s is not None:
            oldest.add_metric([queue], depth.oldest_s)
        unacked.samples = []  # of the whole broker, so the same for each queue
        if depth.unacked is not None:
            unacked.add_metric([], depth.unacked)
    yield from (messages, oldest, unacked)


def _process_families(figures: FleetFigures | None) -> Iterator[Metric]:
    workers = GaugeMetricFamily("chordwise_queue_workers", "Workers that listen to a queue.", labels=["queue"])
    swept = GaugeMetricFamily("chordwise_last_sweep_timestamp_seconds", "When the sweeper last ended a sweep.")
    waiting = GaugeMetricFamily("chordwise_audit_waiting", "Searches that are not in the audit yet.")
    lost = CounterMetricFamily("chordwise_audit_lost", "Searches that the audit has lost, as too many waited.")
    if figures is not None:
        for queue in Queue:
            workers.add_metric([queue.value], sum(queue.value in worker.queues for worker in figures.workers))
        if figures.swept_at is not None:
            swept.add_metric([], figures.swept_at)
        waiting.add_metric([], figures.audit_waiting)
        lost.add_metric([], figures.audit_lost)
    yield from (workers, swept)
    for name, (help_, figure) in _INDEXES.items():
        family = GaugeMetricFamily(f"chordwise_keyword_index_{name}", help_, labels=["host"])
        for indexer in figures.indexers if figures else ():
            family.add_metric([indexer.host], figure(indexer))
        yield family
    yield from (waiting, lost)


_INDEXES: Final[dict[str, tuple[str, Callable[[IndexerFacts], float]]]] = {
    "lag_seconds": ("How long the oldest change waits for a host's keyword index.", lambda found: found.lag_s),
    "lag_revisions": ("Changes that a host's keyword index does not have.", lambda found: found.lag_revisions),
    "built_ratio": ("Share of all chunks in namespaces that a host's index has.", lambda found: found.built),
    "failing_tenants": ("Tenants whose keyword index on a host was not updated.", lambda found: found.failing),
    "disk_bytes": ("What a host's keyword indexes take of its disk.", lambda found: found.disk_bytes),
}


def _family(spec: MetricSpec, series: Mapping[tuple[str, ...], Mapping[str, float]]) -> Metric:
    if spec.kind == "histogram":
        histogram = HistogramMetricFamily(spec.name, spec.help, labels=list(spec.labels))
        for labels, parts in sorted(series.items()):
            so_far, buckets = 0.0, []
            for bound in (*map(str, spec.buckets), "+Inf"):
                so_far += parts.get(bound, 0.0)
                buckets.append((bound, so_far))
            histogram.add_metric(list(labels), buckets, sum_value=parts.get("sum", 0.0))
            if spec.buckets[0] < 0:  # without these, the library omits the sum and the mean cannot be computed
                named = dict(zip(spec.labels, labels, strict=True))
                histogram.add_sample(f"{spec.name}_count", named, so_far)
                histogram.add_sample(f"{spec.name}_sum", named, parts.get("sum", 0.0))
        return histogram
    # prometheus_client appends _total to every counter; these names are part of the interface and must stay.
    exact = spec.kind == "exact_counter"
    family: Metric = (
        Metric(spec.name, spec.help, "unknown")
        if exact
        else CounterMetricFamily(spec.name, spec.help, labels=list(spec.labels))
    )
    name = spec.name if exact else f"{spec.name}_total"
    for labels, parts in sorted(series.items() if series or spec.labels else [((), {"": 0.0})]):
        family.add_sample(name, dict(zip(spec.labels, labels, strict=True)), parts.get("", 0.0))
    return family


def _success_rate(window: Mapping[Field, float]) -> Metric:
    """Return the success rate of the last five minutes, without a sample if there were no queries."""
    family = GaugeMetricFamily("recall_success_rate", "Share of the last five minutes' queries that did not fail.")
    asked = sum(value for (name, _, _), value in window.items() if name == "chordwise_queries")
    good = sum(
        value for (name, _, labels), value in window.items() if name == "chordwise_queries" and labels[0] == "succeeded"
    )
    if asked:
        family.add_metric([], good / asked)
    return family


FLEET = FleetMetrics()
REGISTRY.register(FLEET)


REQUESTS = Counter("chordwise_gateway_requests", "Answered requests.", ["method", "route", "status"])
LATENCY = Histogram(
    "chordwise_gateway_request_seconds",
    "Seconds from the first byte of a request to the end of its answer; waiting that was asked for is included.",
    ["method", "route", "status"],
    buckets=(0.002, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.3, 2.6, 5.2, 10, 30, 60),
)
WAITERS = Gauge("chordwise_gateway_waiters", "Requests that wait for a job or a query.")
LIMITED = Counter("chordwise_gateway_requests_limited", "Requests beyond what their tenant may send.")
WRONG_KEYS = Counter("chordwise_gateway_wrong_keys", "Requests with an API key that is not valid.", ["outcome"])
STORES_MATCH = Gauge(
    "chordwise_installation_matches", "1 if MySQL, PostgreSQL and Redis belong to one installation, else 0."
)
STORES_MATCH.set(1)
LANE_PROCESSES = Gauge("chordwise_gateway_lane_processes", "Own processes for queries that are ready.")
LANE_QUERIES = Gauge("chordwise_gateway_lane_queries", "Queries that they hold.")
STREAMS = Gauge("chordwise_gateway_streams", "Clients that follow a job.")


class AlignmentMetrics:
    """The reconciler's findings as stored in the database, because workers serve no metrics."""

    def __init__(self) -> None:
        self.totals: Totals | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, or nothing before the totals were read for the first time."""
        if self.totals is None:
            return
        found = CounterMetricFamily(
            "chordwise_alignment_found", "Differences between the stores that were found.", labels=["kind"]
        )
        for kind in KINDS:
            found.add_metric([kind], self.totals.counted[kind])
        yield found
        repaired = self.totals.counted["repaired"]
        yield CounterMetricFamily("chordwise_alignment_repaired", "Differences that were mended.", value=repaired)
        checked = self.totals.counted["chunks"]
        yield CounterMetricFamily("chordwise_alignment_chunks", "Chunks that were compared.", value=checked)
        yield GaugeMetricFamily(
            "chordwise_alignment_withheld",
            "Vectors and rows of chunks that are not deleted before an operator confirms it.",
            value=self.totals.withheld,
        )
        if self.totals.last_run is not None:
            yield GaugeMetricFamily(
                "chordwise_alignment_last_run_timestamp_seconds",
                "When the reconciler last compared anything.",
                value=self.totals.last_run,
            )


class BacklogMetrics:
    """The backlog in the ledger, read for each scrape."""

    def __init__(self) -> None:
        self.seen: LedgerBacklog | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics, or nothing while the ledger cannot be read: an old figure would look healthy."""
        if self.seen is None:
            return
        items = GaugeMetricFamily("chordwise_ingest_items", "Documents that are not done, by state.", labels=["state"])
        oldest = GaugeMetricFamily(
            "chordwise_ingest_oldest_seconds", "How long the oldest of them has been so.", labels=["state"]
        )
        for state in BACKLOG_STATES:
            items.add_metric([state], self.seen.items[state])
            oldest.add_metric([state], self.seen.oldest_s[state])
        yield from (items, oldest)
        dead = GaugeMetricFamily(
            "chordwise_dead_letters", "Documents that failed for good and were not replayed.", labels=["reason"]
        )
        for reason, count in self.seen.dead_letters.items():
            dead.add_metric([reason], count)
        yield dead


ALIGNMENT = AlignmentMetrics()
REGISTRY.register(ALIGNMENT)
BACKLOG = BacklogMetrics()
REGISTRY.register(BACKLOG)
