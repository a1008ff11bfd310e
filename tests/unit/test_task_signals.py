"""What tasks say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import fakeredis
import orjson
import pytest
import structlog
from celery import Celery

from pipeline.errors import StoreUnavailable
from pipeline.stores.meter import TOTALS, Meter
from workers import resources
from workers.base import LoggedTask


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
