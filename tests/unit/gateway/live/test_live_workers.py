"""Queues that count as unserved, with a clock and heartbeats that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from api_gateway.live.readiness import FRESH_S, LiveWorkers
from pipeline.database.worker_heartbeats import EXPIRES_S, WorkerHeartbeat, broker_address
from pipeline.errors import StoreUnavailable

QUEUES = ("recall", "answer")


def heartbeat(*queues: str) -> WorkerHeartbeat:
    return WorkerHeartbeat(
        name="w@host",
        host="host",
        pid=1,
        queues=queues,
        version="1",
        celery="5",
        kombu="5",
        broker="redis://host",
        started_at=0.0,
        beat_at=0.0,
    )


class Written:
    """Heartbeats set by the test; ``None``: Redis does not answer."""

    def __init__(self, *beats: WorkerHeartbeat) -> None:
        self.beats: Sequence[WorkerHeartbeat] | None = beats
        self.now = 100.0
        self.readings = 0
        self.live = LiveWorkers(self._run, self.all, clock=lambda: self.now)

    async def _run(self, function, *args, **kwargs):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0)
        return function(*args, **kwargs)

    def all(self) -> list[WorkerHeartbeat]:
        self.readings += 1
        if self.beats is None:
            raise StoreUnavailable("Redis: TimeoutError")
        return list(self.beats)

    def unserved(self, *, later_s: float = 0.0) -> tuple[str, ...]:
        self.now += later_s
        return asyncio.run(self.live.unserved(QUEUES))


class DescribeLiveWorkers:
    def it_names_the_queues_without_a_worker(self):
        assert Written(heartbeat("recall", "ingest")).unserved() == ("answer",)

    def it_names_every_queue_when_there_is_no_worker_at_all(self):
        assert Written().unserved() == QUEUES

    def it_notices_within_half_a_second_that_a_worker_has_gone(self):
        written = Written(heartbeat("recall"), heartbeat("answer"))
        assert written.unserved() == ()
        written.beats = [heartbeat("answer")]
        assert written.unserved(later_s=FRESH_S + 0.01) == ("recall",)

    def it_reads_once_for_many_requests(self):
        written = Written(heartbeat(*QUEUES))

        async def crowd() -> None:
            await asyncio.gather(*(written.live.unserved(QUEUES) for _ in range(50)))

        asyncio.run(crowd())
        assert written.readings == 1

    def it_refuses_nothing_while_redis_does_not_answer(self):
        written = Written()
        written.beats = None
        assert written.unserved() == ()
        assert written.unserved(later_s=EXPIRES_S + 1) == ()

    def it_waits_for_the_workers_to_beat_again_when_redis_comes_back_empty(self):
        written = Written(heartbeat(*QUEUES))
        assert written.unserved() == ()
        written.beats = []
        assert written.unserved(later_s=1.0) == ()
        assert written.unserved(later_s=1.0) == ()
        assert written.unserved(later_s=1.5) == QUEUES


class DescribeBrokerAddress:
    def it_leaves_out_user_password_and_options(self):
        several = "amqp://user:s3cret@host-1:5672/v;amqps://user:s3cret@host-2/v?password=s3cret"
        assert broker_address(several) == "amqp://host-1:5672/v;amqps://host-2/v"
