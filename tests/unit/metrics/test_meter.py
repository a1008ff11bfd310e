"""Figures: added up in a process, handed over to Redis, rendered by any gateway."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api_gateway.http.metrics import FleetMetrics
from pipeline.database.worker_heartbeats import WorkerHeartbeat
from pipeline.metrics.definitions import METRICS
from pipeline.metrics.meter_store import MOST_FIELDS, TOTALS, Meter, read_totals, read_window
from pipeline.metrics.queue_depth_store import counted_depths, queue_depths
from pipeline.resources import Resources
from pipeline.settings import load

WORKER: dict[str, Any] = {
    **dict.fromkeys(("name", "host", "version", "celery", "kombu", "broker"), "w"),
    **dict.fromkeys(("pid", "started_at", "beat_at"), 1),
}


@pytest.fixture
def client() -> Iterator[fakeredis.FakeRedis]:
    found = fakeredis.FakeRedis()
    yield found
    found.close()


@pytest.fixture
def meter(client: fakeredis.FakeRedis) -> Iterator[Meter]:
    found = Meter(client, clock=lambda: 600.0)
    yield found
    found.close()


class DescribeMeter:
    def it_adds_up_what_processes_count(self, client, meter):
        other = Meter(client, clock=lambda: 600.0)
        meter.count("chordwise_result_cache", result="hit")
        other.count("chordwise_result_cache", 2, result="hit")
        other.count("chordwise_result_cache", result="miss")
        meter.flush()
        other.close()
        assert read_totals(client) == {
            ("chordwise_result_cache", "", ("hit",)): 3.0,
            ("chordwise_result_cache", "", ("miss",)): 1.0,
        }

    @pytest.mark.parametrize(("value", "bound"), [(0.0, "0.001"), (0.001, "0.001"), (0.002, "0.0025"), (99.0, "+Inf")])
    def it_puts_a_value_into_the_first_bucket_that_holds_it(self, client, meter, value, bound):
        meter.observe("chordwise_channel_seconds", value, channel="keyword")
        meter.flush()
        found = read_totals(client)
        assert found["chordwise_channel_seconds", bound, ("keyword",)] == 1.0
        assert found["chordwise_channel_seconds", "sum", ("keyword",)] == pytest.approx(value)

    def it_keeps_what_redis_did_not_take(self):
        server = fakeredis.FakeServer()
        client = fakeredis.FakeRedis(server=server)
        meter = Meter(client)
        meter.count("chordwise_documents_shown", 3)
        server.connected = False
        with structlog.testing.capture_logs() as lines:
            meter.flush()
        assert [line["event"] for line in lines] == ["metrics_not_written"]
        server.connected = True
        meter.count("chordwise_documents_shown", 1)
        meter.close()
        assert read_totals(client) == {("chordwise_documents_shown", "", ()): 4.0}

    @pytest.mark.parametrize(
        "labels", [{}, {"result": "hit", "more": 1}, {"other": "hit"}], ids=["too few", "too many", "others"]
    )
    def it_never_raises_and_counts_nothing_that_is_not_on_the_list(self, client, meter, labels):
        with structlog.testing.capture_logs() as lines:
            meter.count("chordwise_result_cache", **labels)
            meter.count("no_such_metric")
        meter.flush()
        assert [line["event"] for line in lines] == ["metric_unknown", "metric_unknown"]
        assert read_totals(client) == {}

    def it_lets_no_label_fill_redis(self, client, meter):
        client.hset(
            TOTALS, mapping={json.dumps(["chordwise_tasks", "", [str(n), "ok"]]): 1 for n in range(MOST_FIELDS)}
        )
        meter.count("chordwise_tasks", task="one more", state="ok")
        meter.count("chordwise_tasks", task="7", state="ok")
        meter.flush()
        found = read_totals(client)
        assert len(found) == MOST_FIELDS

    def it_adds_up_thousands_of_fields_at_once(self, client, meter):
        for round_ in range(2):
            for number in range(2500):
                meter.count("chordwise_tasks", 0.1, task=str(number), state=str(round_ * number % 2))
            meter.flush()
        found = read_totals(client)
        assert found["chordwise_tasks", "", ("2", "0")] == 0.2
        assert found["chordwise_tasks", "", ("3", "1")] == 0.1
        assert sum(found.values()) == pytest.approx(500.0)

    def it_loses_nothing_between_threads(self, client, meter):
        def work() -> None:
            for _ in range(50):
                meter.count("chordwise_documents_shown")
                meter.flush()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        meter.flush()
        assert read_totals(client) == {("chordwise_documents_shown", "", ()): 200.0}

    def it_keeps_the_last_minutes_apart(self, client):
        minutes = iter([0.0, 240.0, 540.0])
        for status in ("failed", "succeeded", "succeeded"):
            meter = Meter(client, clock=lambda minutes=minutes: next(minutes))
            meter.count("chordwise_queries", status=status, degraded="false")
            meter.close()
        field = "chordwise_queries", "", ("succeeded", "false")
        assert read_window(client, now=545.0) == {field: 1.0}
        assert read_window(client, now=300.0)[field] == 1.0
        assert read_window(client, now=1200.0) == {}
        assert sum(read_totals(client).values()) == 3.0


def rendered(client: fakeredis.FakeRedis) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    use = Resources(load())
    use.__dict__["quick_redis"] = client
    fleet = FleetMetrics()
    fleet.read(use, client)
    registry = CollectorRegistry()
    registry.register(fleet)
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


class DescribeThePage:
    def it_shows_counters_histograms_and_the_designs_names(self, client):
        meter = Meter(client)
        meter.count("chordwise_queries", 3, status="succeeded", degraded="false")
        meter.count("chordwise_queries", 1, status="failed", degraded="true")
        meter.count("recall_degrade_count")
        meter.count("recall_timeout_count", 2, source="semantic")
        for value in (3.0, 30.0, 30_000.0):
            meter.observe("recall_total_latency_ms", value)
        meter.close()
        found = rendered(client)
        assert found["chordwise_queries_total"][("degraded", "false"), ("status", "succeeded")] == 3.0
        assert found["recall_degrade_count"] == {(): 1.0}
        assert found["recall_timeout_count"] == {(("source", "semantic"),): 2.0}
        assert found["recall_success_rate"] == {(): 0.75}
        assert found["recall_total_latency_ms_sum"] == {(): 30_033.0}
        assert found["recall_total_latency_ms_count"] == {(): 3.0}
        buckets = found["recall_total_latency_ms_bucket"]
        assert buckets[(("le", "5.0"),)] == 1.0
        assert buckets[(("le", "50.0"),)] == 2.0
        assert buckets[(("le", "10000.0"),)] == 2.0
        assert buckets[(("le", "+Inf"),)] == 3.0

    def it_names_every_metric_before_anything_was_counted(self, client):
        use = Resources(load())
        use.__dict__["quick_redis"] = client
        fleet = FleetMetrics()
        fleet.read(use, None)
        assert set(METRICS) <= {family.name for family in fleet.collect()}

    def it_bounds_the_age_of_messages_that_a_broker_only_counts(self, client):
        def ages(counts: dict[str, int], taken: dict[str, float], now: float) -> dict[str, float]:
            worker = WorkerHeartbeat(**WORKER, queues=tuple(counts), busy=3, taken=taken)
            found = counted_depths(client, counts, [worker], now=now)
            assert {depth.unacked for depth in found.values()} == {3}
            return {queue: depth.oldest_s for queue, depth in found.items()}

        assert ages({"recall": 0, "ingest": 5}, {}, 100.0) == {"recall": 0.0, "ingest": 0.0}  # no look before
        assert ages({"recall": 1, "ingest": 5}, {}, 115.0) == {"recall": 15.0, "ingest": 15.0}
        assert ages({"recall": 2, "ingest": 4}, {"ingest": 112.0}, 130.0) == {"recall": 30.0, "ingest": 18.0}
        assert ages({"recall": 2, "ingest": 4}, {}, 140.0) == {"recall": 40.0, "ingest": 28.0}  # its worker is gone
        assert ages({"recall": 0, "ingest": 0}, {}, 150.0) == {"recall": 0.0, "ingest": 0.0}
        assert ages({"recall": 1, "ingest": 0}, {}, 155.0) == {"recall": 5.0, "ingest": 0.0}
        assert counted_depths(client, {}, [], now=160.0) == {}  # the broker is away

    def it_shows_how_long_messages_wait(self, client):
        client.lpush("recall", json.dumps({"headers": {"sent_at": 100.0}}))
        client.lpush("recall", json.dumps({"headers": {"sent_at": 110.0}}))
        client.lpush("upkeep", json.dumps({"headers": {}}), "not json")
        client.hset("unacked", "tag", "message")
        found = queue_depths(client, ["recall", "answer", "upkeep"], now=130.0)
        assert (found["recall"].messages, found["recall"].oldest_s) == (2, 30.0)
        assert (found["answer"].messages, found["answer"].oldest_s) == (0, 0.0)
        assert (found["upkeep"].messages, found["upkeep"].oldest_s, found["upkeep"].unacked) == (2, 0.0, 1)
