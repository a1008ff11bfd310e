"""Heartbeats and the record of sweeps as Redis keeps them; tests/faults/test_brokers.py has real workers write them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import fakeredis
import orjson
import pytest
import redis

from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import (
    FORGOTTEN_S,
    MOST_SILENT,
    ProcessSign,
    ProcessState,
    WorkerHeartbeat,
    host_states,
    silent_processes,
    unserved,
)
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

    def it_is_found_again_after_redis_lost_its_data_or_a_reader_deleted_its_id(self, client):
        beats = WorkerHeartbeats(client)
        beats.beat(BEAT)
        for lose in (client.flushdb, lambda: client.delete("chordwise:worker:queries@a/7", "chordwise:workers")):
            lose()
            beats.beat(BEAT)
            assert beats.all() == [BEAT]

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


def of(host: str, silent_s: float, name: str = "w", *serves: str, resumed_s: float = float("inf")) -> ProcessState:
    return ProcessState(sign=sign(host, name, *serves), silent_s=silent_s, resumed_s=resumed_s)


class DescribeHosts:
    def it_is_lost_when_all_of_its_processes_are_silent(self):
        a, b = host_states([of("b", 90.0, "one"), of("b", 30.0, "two"), of("a", 1.0)])
        assert (a.host, a.is_lost) == ("a", False)
        assert (b.host, b.is_lost, b.silent_s) == ("b", True, 30.0)

    def it_lives_while_one_of_its_processes_does(self):
        [state] = host_states([of("a", 500.0, "one"), of("a", 4.0, "two")])
        assert not state.is_lost

    def it_served_what_gave_signs_to_the_end(self):
        signs = [of("b", 300.0, "one", "recall", "answer"), of("b", 310.0, "two", "ingest")]
        before = of("b", 4000.0, "three", "compute")
        _, b = host_states([of("a", 0.0), *signs, before])
        assert b.serves == ("answer", "ingest", "recall")

    def it_calls_none_lost_when_nobody_could_write(self):
        assert host_states([of("a", 60.0), of("b", 61.0)]) == []

    def it_keeps_a_killed_process_for_a_week_and_an_ended_one_not_at_all(self, client):
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


class DescribeSilentProcesses:
    def it_names_a_process_on_a_living_host_and_leaves_a_lost_host_to_its_own_check(self):
        frozen, lost = of("a", 25.0, "queries2"), of("b", 25.0)
        assert silent_processes([of("a", 1.0), frozen, lost]) == [frozen]

    def it_waits_until_all_could_write_again_after_an_outage(self):
        states = [of("a", 1.0, "back", resumed_s=2.0), of("a", 90.0, "late")]
        assert silent_processes(states) == []
        assert silent_processes([*states, of("a", 1.0, "other", resumed_s=30.0)]) == [states[1]]

    def it_knows_when_a_process_could_not_write_for_a_while(self, client):
        signs, moments = WorkerHeartbeats(client), iter([0.0, 0.0, 60.0, 60.0, 65.0, 65.0])
        for _ in range(3):
            signs.sign(sign("outage"), clock=lambda: next(moments))
        [state] = signs.processes()
        assert state.resumed_s == 5.0

    def it_is_back_under_its_name_and_gone_once_it_says_goodbye_or_is_dismissed(self, client):
        signs = WorkerHeartbeats(client)
        for name in ("queries1@a", "queries2@a"):
            signs.sign(sign("a", name))
        client.pexpire("chordwise:process:a/queries2@a", int((FORGOTTEN_S - 30.0) * 1000))
        assert [state.sign.name for state in silent_processes(signs.processes())] == ["queries2@a"]
        signs.sign(sign("a", "queries2@a"))
        assert silent_processes(signs.processes()) == []
        assert not signs.dismiss(host="a", name="queries2@a")
        client.pexpire("chordwise:process:a/queries2@a", int((FORGOTTEN_S - 30.0) * 1000))
        assert signs.dismiss(host="a", name="queries2@a")
        assert [state.sign.name for state in signs.processes()] == ["queries1@a"]

    def it_forgets_the_longest_silent_beyond_its_bound(self, client):
        signs = WorkerHeartbeats(client)
        for number in range(MOST_SILENT + 2):
            signs.sign(sign("a", f"w{number}"))
            client.pexpire(f"chordwise:process:a/w{number}", int((FORGOTTEN_S - 100.0 - number) * 1000))
        assert len(signs.processes()) == MOST_SILENT
        assert {state.sign.name for state in signs.processes()} == {f"w{number}" for number in range(MOST_SILENT)}


class DescribeClocks:
    @pytest.mark.parametrize("ahead_s", [-60.0, 60.0])
    def it_names_the_process_whose_clock_is_not_ours(self, client, ahead_s):
        signs = WorkerHeartbeats(client)
        signs.sign(sign("a", "ingest@a"))
        assert signs.skews(clock=lambda: time.time() - ahead_s) == {"ingest@a": pytest.approx(ahead_s, abs=1.0)}

    def it_takes_a_sign_that_redis_carried_out_late_for_no_wrong_clock(self, client, monkeypatch: pytest.MonkeyPatch):
        """Redis stood still for 79 s between receiving the sign and carrying it out."""
        signs = WorkerHeartbeats(client)
        signs.sign(sign("a", "ingest@a"))
        [key] = client.keys("chordwise:process:*")
        sent = client.get(key)
        now = time.time
        monkeypatch.setattr(time, "time", lambda: now() + 79.0)  # of Redis and of this host alike
        client.set(key, sent, px=int(FORGOTTEN_S * 1000))
        assert signs.skews(clock=lambda: time.time()) == {"ingest@a": 0.0}


class DescribeTheRecordOfSweeps:
    def it_knows_of_none_at_first(self, client):
        assert LastSweep(client).age_s() is None

    def it_says_how_long_ago_the_last_one_ended(self, client):
        LastSweep(client).note()
        age_s = LastSweep(client).age_s()
        assert age_s is not None
        assert 0 <= age_s < 5
