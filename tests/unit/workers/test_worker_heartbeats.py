"""Heartbeats and the record of sweeps as Redis keeps them; tests/faults/test_brokers.py has real workers write them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import fakeredis
import orjson
import pytest
import redis

from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import FORGOTTEN_S, ProcessSign, WorkerHeartbeat, host_states, unserved
from pipeline.errors import StoreUnavailable
from pipeline.metrics.last_sweep_store import LastSweep

BEAT = WorkerHeartbeat(
    name="queries@a",
    host="a",
    pid=7,
    queues=("answer", "recall"),
    version="1.0",
    celery="5.7.0",
    kombu="5.7.0",
    broker="redis://here/0",
    started_at=1.0,
    beat_at=2.0,
)


@pytest.fixture
def client() -> Iterator[fakeredis.FakeRedis]:
    found = fakeredis.FakeRedis()
    yield found
    found.close()


class DescribeHeartbeats:
    def it_gives_back_what_was_written(self, client):
        WorkerHeartbeats(client).beat(BEAT)
        assert WorkerHeartbeats(client).all() == [BEAT]

    def it_expires_by_itself_and_is_forgotten_when_read(self, client):
        beats = WorkerHeartbeats(client)
        beats.beat(BEAT)
        assert 2000 < client.pttl("chordwise:worker:queries@a/7") <= 3000
        client.delete("chordwise:worker:queries@a/7")
        assert beats.all() == []
        assert client.smembers("chordwise:workers") == set()

    def it_tells_two_workers_of_one_name_apart(self, client):
        beats = WorkerHeartbeats(client)
        beats.beat(BEAT)
        beats.beat(replace(BEAT, pid=8))
        assert [found.pid for found in beats.all()] == [7, 8]
        beats.withdraw(BEAT.worker_id)
        assert [found.pid for found in beats.all()] == [8]

    def it_reads_what_a_newer_worker_writes(self, client):
        beats = WorkerHeartbeats(client)
        beats.beat(BEAT)
        key = "chordwise:worker:queries@a/7"
        client.set(key, orjson.dumps({**orjson.loads(client.get(key)), "mood": "fine"}))
        assert beats.all() == [BEAT]

    def it_names_the_queues_that_nobody_consumes(self):
        assert unserved(["ingest", "recall", "upkeep"], [BEAT]) == ("ingest", "upkeep")

    def it_says_that_redis_is_away(self):
        with (
            redis.Redis(host="127.0.0.1", port=1, socket_connect_timeout=0.2) as nobody,
            pytest.raises(StoreUnavailable),
        ):
            WorkerHeartbeats(nobody).all()


def sign(host: str, name: str = "w", *serves: str) -> ProcessSign:
    return ProcessSign(host=host, name=name, serves=serves or ("recall",))


class DescribeHosts:
    def it_is_lost_when_all_of_its_processes_are_silent(self):
        a, b = host_states([(sign("b", "one"), 90.0), (sign("b", "two"), 30.0), (sign("a"), 1.0)])
        assert (a.host, a.is_lost) == ("a", False)
        assert (b.host, b.is_lost, b.silent_s) == ("b", True, 30.0)

    def it_lives_while_one_of_its_processes_does(self):
        [state] = host_states([(sign("a", "one"), 500.0), (sign("a", "two"), 4.0)])
        assert not state.is_lost

    def it_served_what_gave_signs_to_the_end(self):
        signs = [(sign("b", "one", "recall", "answer"), 300.0), (sign("b", "two", "ingest"), 310.0)]
        before = (sign("b", "three", "compute"), 4000.0)
        _, b = host_states([(sign("a"), 0.0), *signs, before])
        assert b.serves == ("answer", "ingest", "recall")

    def it_calls_none_lost_when_nobody_could_write(self):
        assert host_states([(sign("a"), 60.0), (sign("b"), 61.0)]) == []

    def it_keeps_a_killed_process_for_a_day_and_an_ended_one_not_at_all(self, client):
        signs = WorkerHeartbeats(client)
        for name in ("killed", "ended"):
            signs.sign(sign(name))
        signs.sign(sign("a"))
        client.pexpire("chordwise:process:killed/w", int((FORGOTTEN_S - 300.0) * 1000))
        signs.withdraw_sign(sign("ended"))
        a, killed = signs.hosts()
        assert not a.is_lost
        assert (killed.host, killed.silent_s) == ("killed", pytest.approx(300.0, abs=1.0))
        client.delete("chordwise:process:killed/w")
        assert [state.host for state in signs.hosts()] == ["a"]


class DescribeTheRecordOfSweeps:
    def it_knows_of_none_at_first(self, client):
        assert LastSweep(client).age_s() is None

    def it_says_how_long_ago_the_last_one_ended(self, client):
        LastSweep(client).note()
        age_s = LastSweep(client).age_s()
        assert age_s is not None
        assert 0 <= age_s < 5
