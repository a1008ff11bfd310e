"""Following jobs: one look for all who follow one, none while nothing happens, and nothing missed without Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from datetime import UTC, datetime

import pytest
import redis

from api_gateway.http.problems import Problem
from api_gateway.live import job_feed
from api_gateway.live.job_feed import FAILURES_AT_ONCE, Following
from api_gateway.live.wakes import Wakes
from api_gateway.resources import events
from api_gateway.resources.events import JobStream, id_of, position_of
from chordwise.contract.job import JobError
from pipeline.errors import StoreUnavailable
from pipeline.jobs.job_views import FailurePosition, Snapshot
from pipeline.jobs.notification_store import JobNotifications
from pipeline.query.wake_names import wake_name
from pipeline.records import ItemState, JobId, TenantId

TENANT, JOB = TenantId("acme"), JobId("5f0c3f0e-6d5b-4b0e-9f57-2a4f9c1d7e10")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


class Ledger:
    """Jobs in memory, and how often they were looked at."""

    def __init__(self) -> None:
        self.looks = self.compared = self.read = 0
        self.away = False
        self.failed: list[tuple[FailurePosition, JobError]] = []
        self.job = Snapshot(
            job_id=JOB,
            namespace="kb",
            revision=1,
            status="running",
            total=500,
            items=dict.fromkeys(ItemState, 0),
            chunks=0,
            stages={},
            created_at=MOMENT,
            updated_at=MOMENT,
            finished_at=None,
            paused_at=None,
            waiting_reason=None,
        )

    def move(self, *, failed: int = 0, finished: bool = False) -> None:
        revision = self.job.revision + 1
        places = [FailurePosition(revision=revision, ordinal=n) for n in range(failed)]
        self.failed += [(place, JobError(document_id=f"d{place.ordinal}", code="c", detail=None)) for place in places]
        items = {**self.job.items, ItemState.FAILED: len(self.failed)}
        ended = MOMENT if finished else None
        self.job = dataclasses.replace(self.job, revision=revision, items=items, finished_at=ended)

    async def snapshot(self, tenant_id, job_id):
        self.looks += 1
        await asyncio.sleep(0)
        if self.away:
            raise StoreUnavailable("MySQL: 2003")
        return self.job if job_id == JOB else None

    async def failures(self, tenant_id, job_id, after):
        self.read += 1
        await asyncio.sleep(0)
        return [failure for failure in self.failed if failure[0] > after][:FAILURES_AT_ONCE]

    async def fingerprints(self, tenant_id, job_ids):
        self.compared += 1
        return dict.fromkeys(job_ids, (self.job.revision, None))


class Client:
    """One stream, as a server would serve it. ``went`` ends it from outside."""

    def __init__(self, following: Following, *, last: str = "", job_id: JobId = JOB, allowed: bool = True) -> None:
        self.status, self.text, self.went = 0, b"", asyncio.Event()

        async def still_allowed() -> bool:
            return allowed

        stream = JobStream(following, TENANT, job_id, last_event_id=last, still_allowed=still_allowed)
        self.task = asyncio.ensure_future(stream({"type": "http", "method": "GET"}, self._receive, self._send))

    async def _receive(self):
        await self.went.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"")

    @property
    def names(self) -> list[str]:
        return [line[7:] for line in self.text.decode().splitlines() if line.startswith("event: ")]

    @property
    def failed(self) -> int:
        return self.names.count("item_failed")

    def last_id(self) -> str:
        return [line[4:] for line in self.text.decode().splitlines() if line.startswith("id: ")][-1]


async def soon(happened, seconds: float = 3.0):
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(job_feed, "_SHORTEST_PAUSE_S", 0.02)


@pytest.fixture
async def place():
    ledger, wakes = Ledger(), Wakes()
    wakes.listening = True
    following = Following(ledger, wakes)
    yield ledger, wakes, following
    await following.close()


class DescribeFollowing:
    async def it_looks_once_for_everyone_and_not_at_all_while_nothing_happens(self, place):
        ledger, wakes, following = place
        clients = [Client(following) for _ in range(100)]
        await soon(lambda: all(client.names == ["progress"] for client in clients))
        await asyncio.sleep(0.2)
        assert ledger.looks == 1
        assert following.count == 100
        ledger.move(failed=3)
        wakes.wake(wake_name("progress", TENANT, JOB))
        await soon(lambda: all(client.failed == 3 for client in clients))
        assert ledger.looks == 2
        assert ledger.read <= 2
        ledger.move(finished=True)
        wakes.wake(f"{TENANT}:job:{JOB}")
        await asyncio.gather(*(client.task for client in clients))
        assert {client.names[-1] for client in clients} == {"finished"}
        assert (following.count, following._jobs, wakes._waiters) == (0, {}, {})

    async def it_does_not_look_more_often_than_it_may(self, place, monkeypatch):
        monkeypatch.setattr(job_feed, "_SHORTEST_PAUSE_S", 0.1)
        ledger, wakes, following = place
        client = Client(following)
        await soon(lambda: client.names)
        started = time.monotonic()
        for _ in range(50):
            ledger.move()
            wakes.wake(wake_name("progress", TENANT, JOB))
            await asyncio.sleep(0.01)
        assert ledger.looks <= 3 + (time.monotonic() - started) / 0.1
        await soon(lambda: following._jobs[TENANT, JOB].view.job == ledger.job)
        client.went.set()
        await asyncio.gather(client.task, return_exceptions=True)

    async def it_misses_nothing_while_redis_is_away(self, place, monkeypatch):
        monkeypatch.setattr(job_feed, "_WITHOUT_REDIS_S", 0.02)
        ledger, wakes, following = place
        wakes.listening = False
        clients = [Client(following) for _ in range(20)]
        await soon(lambda: all(client.names for client in clients))
        ledger.move(failed=1)
        await soon(lambda: all(client.failed for client in clients))
        compared, looks = ledger.compared, ledger.looks
        await asyncio.sleep(0.2)
        assert 3 <= ledger.compared - compared <= 12  # one statement a round, however many follow
        assert ledger.looks - looks <= 1
        for client in clients:
            client.went.set()
        await asyncio.gather(*(client.task for client in clients), return_exceptions=True)

    async def it_goes_on_when_the_database_is_back(self, place, monkeypatch):
        monkeypatch.setattr(job_feed, "_WITHOUT_REDIS_S", 0.02)
        ledger, wakes, following = place
        client = Client(following)
        await soon(lambda: client.names)
        ledger.away = True
        ledger.move(failed=1, finished=True)
        wakes.wake(wake_name("progress", TENANT, JOB))
        await asyncio.sleep(0.1)
        assert client.names == ["progress"]
        ledger.away = False
        await asyncio.wait_for(client.task, 3)
        assert client.names == ["progress", "progress", "item_failed", "finished"]

    async def it_notices_who_hangs_up(self, place):
        _, wakes, following = place
        client = Client(following)
        await soon(lambda: client.names)
        client.went.set()
        await asyncio.gather(client.task, return_exceptions=True)
        assert (following.count, following._jobs, wakes._waiters) == (0, {}, {})

    async def it_ends_streams_when_the_process_is_about_to_go(self, place):
        _, wakes, following = place
        client = Client(following)
        await soon(lambda: client.names)
        wakes.release()
        await asyncio.wait_for(client.task, 1)
        assert client.names == ["progress"]

    async def it_knows_no_job_that_is_not_there(self, place):
        _, _, following = place
        with pytest.raises(Problem):
            await Client(following, job_id=JobId("00000000-0000-0000-0000-000000000000")).task
        assert following.count == 0

    async def it_takes_only_so_many_of_one_tenant(self, place, monkeypatch):
        monkeypatch.setattr(job_feed, "MOST_STREAMS_OF_A_TENANT", 1)
        _, _, following = place
        first = Client(following)
        await soon(lambda: first.names)
        with pytest.raises(Problem) as refused:
            await Client(following).task
        assert (refused.value.status, refused.value.code) == (429, "too_many_streams")
        first.went.set()
        await asyncio.gather(first.task, return_exceptions=True)


class DescribeStreams:
    async def it_goes_on_behind_the_last_event_that_was_seen(self, place):
        ledger, _, following = place
        for _ in range(3):
            ledger.move(failed=110)
        ledger.move(finished=True)
        whole = Client(following)
        await whole.task
        assert whole.failed == 330
        ids = [line for line in whole.text.decode().splitlines() if line.startswith("id: ")]
        for seen in (1, 50, 111, 250, 331):
            rest = Client(following, last=ids[seen - 1][4:])
            await rest.task
            assert rest.failed == 330 - (seen - 1)
        again = Client(following, last=whole.last_id())
        await again.task
        assert (again.status, again.text) == (204, b"")

    async def it_beats_and_comes_to_an_end(self, place, monkeypatch):
        monkeypatch.setattr(events, "HEARTBEAT_S", 0.02)
        monkeypatch.setattr(events, "LIFETIME_S", 0.1)
        _, _, following = place
        client = Client(following)
        await asyncio.wait_for(client.task, 2)
        assert client.text.startswith(b"retry: 2000\n\n")
        assert client.text.count(b": still here\n\n") >= 2
        assert client.names == ["progress"]

    async def it_ends_once_the_key_is_no_more(self, place, monkeypatch):
        monkeypatch.setattr(events, "HEARTBEAT_S", 0.01)
        monkeypatch.setattr(events, "_KEY_CHECKED_S", 0.02)
        _, _, following = place
        await asyncio.wait_for(Client(following, allowed=False).task, 2)

    @pytest.mark.parametrize(
        "position", [FailurePosition(), FailurePosition(revision=1, ordinal=0), FailurePosition(revision=7, ordinal=9)]
    )
    def it_reads_its_own_ids(self, position):
        assert position_of(id_of(position)) == (position, False)

    @pytest.mark.parametrize("text", ["", "x", "1", "-1-1", "1-1-1", "１-1", "9" * 40 + "-1"])
    def it_begins_anew_after_an_id_it_never_gave(self, text):
        assert position_of(text) == (FailurePosition(), False)


class DescribeBells:
    def it_makes_no_call_for_a_while_after_redis_was_away(self):
        said: list[str] = []
        clock = [0.0]

        class Client:
            away = False

            def publish(self, _channel, name):
                if self.away:
                    raise redis.ConnectionError
                said.append(name)

        client = Client()
        notifications = JobNotifications(client, clock=lambda: clock[0])
        for _ in range(4):
            notifications.progressed(TENANT, JOB)
        assert len(said) == 4
        client.away = True
        clock[0] += 1
        notifications.progressed(TENANT, JOB)
        client.away = False
        clock[0] += 1
        notifications.progressed(TENANT, JOB)
        assert len(said) == 4
        clock[0] += 5
        notifications.progressed(TENANT, JOB)
        assert len(said) == 5
