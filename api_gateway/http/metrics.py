"""Metrics for Prometheus: the gateway's own, and those of all processes and of the broker, which every gateway reports
alike.

Labels are templates and numbers, never ids.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import redis
from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from pipeline.administration.read_metrics import CountMessages, FleetFigures, read_fleet, read_queues
from pipeline.database.worker_heartbeats import ProcessState
from pipeline.documents.document_views import KINDS, Totals
from pipeline.jobs.job_views import LedgerBacklog
from pipeline.metrics.definitions import METRICS, Field, IndexSummary, MetricSpec, QueueDepth
from pipeline.resources import Resources
from workers.names import Queue
from workers.roles import ROLE_OF, ROLES


class FleetMetrics:
    """Metrics read for each scrape; none while Redis is unavailable, because old figures would look healthy."""

    def __init__(self) -> None:
        self._figures: FleetFigures | None = None
        self._depths: Mapping[str, QueueDepth] = {}

    def read(self, use: Resources, broker: redis.Redis | None, *, count_messages: CountMessages = lambda _: {}) -> None:
        """Read the figures from Redis. ``broker`` is the broker if it is a Redis; else ``count_messages`` returns the
        number of waiting messages by queue. Raises Unavailable."""
        self.clear()
        self._figures = read_fleet(use)
        self._depths = read_queues(use, broker, [queue.value for queue in Queue], count_messages=count_messages)

    def clear(self) -> None:
        """Forget the figures of the last scrape: Redis does not answer."""
        self._figures, self._depths = None, {}

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
        if figures is not None:
            yield from _process_families(figures)


def _gauge(name: str, help: str, label: str, samples: Mapping[str, float]) -> Metric:
    """Return a gauge with one sample for each value of its label."""
    family = GaugeMetricFamily(name, help, labels=[label])
    for value, number in samples.items():
        family.add_metric([value], number)
    return family


def _queue_families(depths: Mapping[str, QueueDepth]) -> Iterator[Metric]:
    messages = {queue: depth.messages for queue, depth in depths.items()}
    yield _gauge("chordwise_queue_messages", "Messages that no worker has taken.", "queue", messages)
    ages = {queue: depth.oldest_s for queue, depth in depths.items()}
    yield _gauge("chordwise_queue_oldest_seconds", "How long the next message of a queue has waited.", "queue", ages)
    waits = {name: max(ages[queue] for queue in role.queues) for name, role in ROLES.items() if ages}
    yield _gauge(
        "chordwise_role_oldest_seconds", "The same of the role's queues, the longest: to scale by.", "role", waits
    )
    yield GaugeMetricFamily(
        "chordwise_queue_unacked",
        "Messages that workers have taken and not done with; those for queries alone write down none.",
        value=next((depth.unacked for depth in depths.values()), None),  # of the whole broker: alike for every queue
    )


def _process_families(figures: FleetFigures) -> Iterator[Metric]:
    workers = {queue.value: sum(queue.value in worker.queues for worker in figures.workers) for queue in Queue}
    yield _gauge("chordwise_queue_workers", "Workers that listen to a queue.", "queue", workers)
    silent = "How long no process of a host has given a sign of life; serves: all that they served."
    hosts = GaugeMetricFamily("chordwise_host_silent_seconds", silent, labels=["host", "serves"])
    for state in figures.hosts:
        hosts.add_metric([state.host, " ".join(state.serves)], state.silent_s)
    yield hosts
    absent = "Processes that neither give signs of life nor ended in order, by role."
    yield _gauge("chordwise_workers_silent", absent, "role", _silent_by_role(figures.silent))
    space = "Free share of the disk under a folder that the installation writes, as its processes see it."
    disks = GaugeMetricFamily("chordwise_disk_free_ratio", space, labels=["host", "holds"])
    free: dict[tuple[str, str], float] = {}
    for host, disk in figures.disks:
        free[host, disk.holds] = min(disk.free_ratio, free.get((host, disk.holds), 1.0))
    for labels, ratio in sorted(free.items()):
        disks.add_metric(list(labels), ratio)
    yield disks
    circuits = "Circuits that refuse calls after failures in a row."
    yield _gauge("chordwise_circuits_open", circuits, "part", figures.open_circuits)
    swept = "When the sweeper last ended a sweep."
    yield GaugeMetricFamily("chordwise_last_sweep_timestamp_seconds", swept, value=figures.swept_at)
    for name, (attribute, help_) in _INDEXES.items():
        by_host = {indexer.host: getattr(indexer, attribute) for indexer in figures.indexers}
        yield _gauge(f"chordwise_keyword_index_{name}", help_, "host", by_host)
    used, limit = figures.redis_memory.used, figures.redis_memory.limit
    yield GaugeMetricFamily("chordwise_redis_used_bytes", "Memory that Redis uses.", value=used if limit else None)
    yield GaugeMetricFamily("chordwise_redis_max_bytes", "maxmemory of Redis.", value=limit or None)
    waiting = "Searches that are not in the audit yet."
    yield GaugeMetricFamily("chordwise_audit_waiting", waiting, value=figures.audit_waiting)
    lost = "Searches that the audit has lost, as too many waited."
    yield CounterMetricFamily("chordwise_audit_lost", lost, value=figures.audit_lost)


def _silent_by_role(silent: Sequence[ProcessState]) -> dict[str, float]:
    """Return the number of silent processes of each role, also of those that miss none."""
    roles = [ROLE_OF.get(one, one) for state in silent for one in state.sign.serves[:1]]
    return {role: roles.count(role) for role in dict.fromkeys((*ROLES, *_OTHER_ROLES, *roles))}


_OTHER_ROLES: Final = ("gateway", "indexer", "clock")

# Metric: attribute of a host's report, description.
_INDEXES: Final = {
    "lag_seconds": ("lag_s", "How long the oldest change waits for a host's keyword index."),
    "lag_revisions": ("lag_revisions", "Changes that a host's keyword index does not have."),
    "built_ratio": ("built", "Share of all chunks in namespaces that a host's index has."),
    "failing_tenants": ("failing", "Tenants whose keyword index on a host was not updated."),
    "disk_bytes": ("disk_bytes", "Disk space of a host's keyword indexes, in bytes."),
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
    by_status: defaultdict[str, float] = defaultdict(float)
    for (name, _, labels), count in window.items():
        if name == "chordwise_queries":
            by_status[labels[0]] += count
    total = sum(by_status.values())
    return GaugeMetricFamily(
        "recall_success_rate",
        "Share of the last five minutes' queries that did not fail.",
        value=by_status["succeeded"] / total if total else None,
    )


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
STORES_UP = Gauge("chordwise_store_up", "1 if a store answered this scrape, else 0.", ["store"])
STORES_MATCH = Gauge(
    "chordwise_installation_matches",
    "1 if MySQL, PostgreSQL and Redis belong to one installation, 0 if they do not, NaN while one does not answer.",
)
STORES_MATCH.set(1)
LANE_PROCESSES = Gauge("chordwise_gateway_lane_processes", "Own processes for queries that are ready.")
LANE_QUERIES = Gauge("chordwise_gateway_lane_queries", "Queries that they hold.")
PLACES = Gauge("chordwise_gateway_places", "Places for work under way, of all gateways together.", ["pool"])
PLACES_HELD = Gauge("chordwise_gateway_places_held", "Places that work under way holds, of all gateways.", ["pool"])
PLACES_AWAITED = Gauge("chordwise_gateway_places_awaited", "Requests that wait in this gateway for a place.", ["pool"])
REFUSED = Counter(
    "chordwise_gateway_refused", "Requests refused as more was asked than can be answered in time.", ["pool", "reason"]
)
STREAMS = Gauge("chordwise_gateway_streams", "Clients that follow a job.")


class LedgerMetrics:
    """The ledger's backlog and the reconciler's findings, read from MySQL for each scrape, because workers serve no
    metrics."""

    def __init__(self) -> None:
        self._totals: Totals | None = None
        self._backlog: LedgerBacklog | None = None

    def take(self, backlog: LedgerBacklog, totals: Totals) -> None:
        """Show what was read."""
        self._backlog, self._totals = backlog, totals

    def clear(self) -> None:
        """Forget the backlog: an old one would look healthy. The findings stay, because a counter may not fall."""
        self._backlog = None

    def collect(self) -> Iterator[Metric]:
        """Yield the findings once they were read, and the backlog while it can be read."""
        if self._totals is not None:
            yield from _alignment(self._totals)
        if (backlog := self._backlog) is not None:
            yield _gauge("chordwise_ingest_items", "Documents that are not done, by state.", "state", backlog.items)
            oldest = "How long the oldest of them has been so."
            yield _gauge("chordwise_ingest_oldest_seconds", oldest, "state", backlog.oldest_s)
            failed = "Documents that failed for good and were not replayed."
            yield _gauge("chordwise_dead_letters", failed, "reason", backlog.dead_letters)


class VectorIndexMetrics:
    """The vector indexes of large tenants, read from PostgreSQL for each scrape; none while it does not answer."""

    def __init__(self) -> None:
        self._summaries: Sequence[IndexSummary] = ()

    def take(self, summaries: Sequence[IndexSummary]) -> None:
        """Show these."""
        self._summaries = summaries

    def collect(self) -> Iterator[Metric]:
        """Yield a sample for each table and kind, of recall and time once they were measured."""
        for name, (attribute, help_) in _VECTOR_INDEXES.items():
            family = GaugeMetricFamily(f"chordwise_vector_{name}", help_, labels=["table", "kind"])
            for each in self._summaries:
                if (value := getattr(each, attribute)) is not None:
                    family.add_metric([each.table, each.kind], value)
            yield family


# Metric: attribute of a summary, description.
_VECTOR_INDEXES: Final = {
    "indexes": ("indexes", "Vector indexes that searches use."),
    "index_rows": ("rows", "Vectors in their ranges."),
    "index_disk_bytes": ("disk_bytes", "Their size, in bytes."),
    "index_lowest_recall": ("recall", "The lowest recall@10 that one of them was measured to have."),
    "index_slowest_ms": ("search_ms", "The longest time that a search through one of them took, in milliseconds."),
}


def _alignment(totals: Totals) -> Iterator[Metric]:
    found = "Differences between the stores that were found."
    differences = CounterMetricFamily("chordwise_alignment_found", found, labels=["kind"])
    for kind in KINDS:
        differences.add_metric([kind], totals.counted[kind])
    yield differences
    mended, compared = totals.counted["repaired"], totals.counted["chunks"]
    yield CounterMetricFamily("chordwise_alignment_repaired", "Differences that were mended.", value=mended)
    yield CounterMetricFamily("chordwise_alignment_chunks", "Chunks that were compared.", value=compared)
    withheld = "Vectors and rows of chunks that are not deleted before an operator confirms it."
    yield GaugeMetricFamily("chordwise_alignment_withheld", withheld, value=totals.withheld)
    if totals.last_run is not None:
        last = "When the reconciler last compared anything."
        yield GaugeMetricFamily("chordwise_alignment_last_run_timestamp_seconds", last, value=totals.last_run)


LEDGER = LedgerMetrics()
REGISTRY.register(LEDGER)
VECTOR_INDEXES = VectorIndexMetrics()
REGISTRY.register(VECTOR_INDEXES)
