"""What tasks say of themselves: when they were sent, and what they came to."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import orjson
import pytest
import structlog
from celery import Celery
from celery.beat import Scheduler
from celery.schedules import schedule

import workers.app  # noqa: F401  # its signals are what the beat and the workers have
from pipeline.errors import StoreUnavailable
from pipeline.stores.broker import SENT_AT
from pipeline.stores.meter import TOTALS, Meter
from workers import resources
from workers.base import LoggedTask
from workers.names import TaskName


@pytest.fixture
def celery() -> Iterator[Celery]:
    with Celery("tasks", set_as_current=False, broker="memory://", backend="cache+memory://") as app:
        yield app


class DescribeWhatATaskCameTo:
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
        def doing() -> None:
            if error is not None:
                raise error

        with structlog.testing.capture_logs() as lines:
            doing.apply()
        resources.meter().flush()
        states = [
            labels[1] for name, _, labels in map(orjson.loads, counted.hgetall(TOTALS)) if name == "chordwise_tasks"
        ]
        assert states == [state]
        assert [line["state"] for line in lines if line["event"] == "task_done"] == [state.upper()]


class DescribeWhatTheBeatSends:
    def it_says_when(self, celery):
        celery.conf.task_default_queue = "upkeep"
        celery.conf.beat_schedule = {"sweep": {"task": TaskName.SWEEP.value, "schedule": schedule(run_every=1000.0)}}
        beat = Scheduler(celery, lazy=True)
        beat.setup_schedule()
        beat.apply_async(beat.schedule["sweep"], advance=False)
        with celery.connection_for_read() as connection:
            message = connection.SimpleQueue("upkeep").get(timeout=1)
        assert message.headers[SENT_AT] > 1_700_000_000
