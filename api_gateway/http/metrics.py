"""The gateway's own metrics. Labels are templates and numbers, never ids."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from pipeline.documents.reconcile_store import KINDS, Totals
from pipeline.jobs.backlog_store import STATES, LedgerBacklog

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
    """What the reconciler has found, as the database remembers it: workers serve no metrics themselves."""

    def __init__(self) -> None:
        self.totals: Totals | None = None

    def collect(self) -> Iterator[Metric]:
        """Nothing before the totals were read for the first time."""
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
    """What stands in the ledger, as it was read for this very page."""

    def __init__(self) -> None:
        self.seen: LedgerBacklog | None = None

    def collect(self) -> Iterator[Metric]:
        """Nothing while the ledger cannot be read: an old figure would say that all is well."""
        if self.seen is None:
            return
        items = GaugeMetricFamily("chordwise_ingest_items", "Documents that are not done, by state.", labels=["state"])
        oldest = GaugeMetricFamily(
            "chordwise_ingest_oldest_seconds", "How long the oldest of them has been so.", labels=["state"]
        )
        for state in STATES:
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
