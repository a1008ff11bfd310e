"""Metrics of tasks: the time they were sent, and their outcome."""

from __future__ import annotations

import time
from collections.abc import Iterator

import fakeredis
import orjson
import pytest
import structlog
from celery import Celery
from celery.beat import Scheduler
from celery.schedules import schedule
from kombu import Queue as KombuQueue

import workers.app  # noqa: F401  # its signals are what the beat and the workers have
from pipeline.errors import StoreUnavailable
from pipeline.metrics.meter_store import TOTALS, Meter
from pipeline.metrics.queue_depth_store import SENT_AT
from workers import resources
from workers.base import CallbackTask, LoggedTask
from workers.names import FORMAT, MESSAGE_FORMAT, Queue, TaskName


@pytest.fixture
def celery() -> Iterator[Celery]:
    with Celery("tasks", set_as_current=False, broker="memory://", backend="cache+memory://") as app:
        yield app


class DescribeTheOutcomeOfATask:
    @pytest.fixture
    def counted(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[fakeredis.FakeRedis]:
        client = fakeredis.FakeRedis()
        meter = Meter(client)
        for made in (resources.for_queries, resources.for_ingestion):
            monkeypatch.setitem(made().__dict__, "meter", meter)
        yield client
        meter.close()
        client.close()

    @pytest.mark.parametrize(
        ("error", "state"),
        [(None, "success"), (StoreUnavailable("away"), "postponed"), (RuntimeError("a bug"), "failure")],
    )
    def it_tells_an_outage_from_a_bug(self, celery, counted, error, state):
        @celery.task(base=LoggedTask, name="test.ends", shared=False)
        def task() -> None:
            if error is not None:
                raise error

        with structlog.testing.capture_logs() as lines:
            task.apply()
        resources.meter().flush()
        states = [
            labels[1] for name, _, labels in map(orjson.loads, counted.hgetall(TOTALS)) if name == "chordwise_tasks"
        ]
        assert states == [state]
        assert [line["state"] for line in lines if line["event"] == "task_done"] == [state.upper()]

    @pytest.mark.parametrize(("sent", "runs"), [(None, True), (MESSAGE_FORMAT, True), (MESSAGE_FORMAT + 1, False)])
    def it_leaves_messages_of_a_newer_format_to_newer_workers(self, celery, counted, sent, runs):
        ran: list[bool] = []

        @celery.task(base=LoggedTask, name="test.formats", shared=False)
        def task() -> None:
            ran.append(True)

        with structlog.testing.capture_logs() as lines:
            task.apply(headers={} if sent is None else {FORMAT: sent})
        assert ran == [True] * runs
        postponed = [line["code"] for line in lines if line["event"] == "task_postponed"]
        assert postponed == [] if runs else ["newer_message"]


class DescribeACallback:
    """In a worker that takes from `answer` and from nothing else."""

    @pytest.fixture
    def ran(self, celery) -> list[str]:
        ran: list[str] = []
        celery.conf.task_queues = [KombuQueue(queue.value) for queue in (Queue.ANSWER, Queue.RERANK)]
        celery.amqp.queues.select([Queue.ANSWER.value])

        @celery.task(base=CallbackTask, name="test.callback", shared=False)
        def callback(query_id: str) -> None:
            time.sleep(0.05)
            ran.append(query_id)
            if query_id == "bad":
                raise RuntimeError("a bug")

        @celery.task(base=LoggedTask, name="test.header", shared=False)
        def header(tenant_id: str, query_id: str, queue: str) -> None:
            celery.signature("test.callback", kwargs={"query_id": query_id}).apply_async(queue=queue)
            ran.append("header ends")

        return ran

    def it_is_run_by_the_worker_that_ends_the_last_header(self, celery, ran):
        with structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
            celery.tasks["test.header"].apply(kwargs={"tenant_id": "t", "query_id": "q", "queue": "answer"})
        assert ran == ["q", "header ends"]
        done = [line for line in lines if line["event"] == "task_done"]
        assert [(line["task"], line.get("tenant_id")) for line in done] == [
            ("test.header", "t"),
            ("test.callback", None),
        ]
        assert done[0]["latency_ms"] < done[1]["latency_ms"], "a header's time is its own"
        assert structlog.contextvars.get_contextvars() == {}

    def it_does_not_fail_the_header_when_it_fails(self, celery, ran):
        arguments = {"tenant_id": "t", "query_id": "bad", "queue": "answer"}
        assert celery.tasks["test.header"].apply(kwargs=arguments).successful()
        assert ran == ["bad", "header ends"]

    def it_is_sent_to_its_queue_if_this_worker_does_not_take_from_it(self, celery, ran):
        celery.tasks["test.header"].apply(kwargs={"tenant_id": "t", "query_id": "q", "queue": "rerank"})
        assert ran == ["header ends"]
        with celery.connection_for_read() as connection:
            assert connection.SimpleQueue("rerank").get(timeout=1).headers["task"] == "test.callback"

    def it_is_sent_to_its_queue_by_a_process_that_is_no_worker(self, celery, ran):
        celery.tasks["test.callback"].apply_async(kwargs={"query_id": "q"}, queue="answer")
        assert ran == []
        with celery.connection_for_read() as connection:
            assert connection.SimpleQueue("answer").get(timeout=1).headers["task"] == "test.callback"


class DescribeAPeriodicTask:
    def it_carries_the_time_it_was_sent(self, celery):
        celery.conf.task_default_queue = "upkeep"
        celery.conf.beat_schedule = {"sweep": {"task": TaskName.SWEEP.value, "schedule": schedule(run_every=1000.0)}}
        beat = Scheduler(celery, lazy=True)
        beat.setup_schedule()
        beat.apply_async(beat.schedule["sweep"], advance=False)
        with celery.connection_for_read() as connection:
            message = connection.SimpleQueue("upkeep").get(timeout=1)
        assert message.headers[SENT_AT] > 1_700_000_000
        assert message.headers[FORMAT] == MESSAGE_FORMAT
