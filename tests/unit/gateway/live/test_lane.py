"""The in-process lane: who wants it, what it says to its processes, and that it changes no answer's key."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from api_gateway.live.lane import Lane, LaneFacts, _environment, _Process
from pipeline.errors import Misconfigured
from pipeline.maintenance import doctor
from pipeline.maintenance.doctor import Severity
from pipeline.query.compression import decompressed
from pipeline.query.plan import Plan, PlanFlaw, RetrievePlan
from pipeline.query.query_store import QUERY
from pipeline.query.request import Query
from pipeline.query.wake_names import wake_name
from pipeline.records import Namespace, QueryId, TenantId
from pipeline.retrieval.build_plan import plan_of
from pipeline.retrieval.reuse_answer import _fingerprint, cache_key
from pipeline.settings import load
from tests.support.corpora.queries import query_of
from workers.lane_messages import LaneReply, LaneRequest, worker_sockets

KB = Namespace("kb")


def query(number: int = 1, *, lane: str = "in_process", left_s: float = 3.0) -> Query:
    return query_of(
        "水泵 pump",
        query_id=QueryId(f"q{number}"),
        tenant_id=TenantId("acme"),
        namespaces=(KB,),
        plan=Plan(lane=lane, retrieve=RetrievePlan(channels={})),
        deadline_s=left_s,
    )


class Told:
    """Takes what is counted, and what is sent to a process."""

    def close(self) -> None:
        """Nothing is open."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.lines: list[LaneRequest] = []
        self.woken: dict[str, bytes] = {}

    def count(self, name: str, *, reason: str) -> None:
        assert name == "chordwise_lane_misses"
        self.reasons.append(reason)

    def wake(self, name: str, answer: bytes) -> None:
        self.woken[name] = answer

    def write(self, line: bytes) -> None:
        self.lines.append(LaneRequest.read(line))


async def run(function, *arguments):
    return function(*arguments)


def _of_nobody(processes: int, told: Told) -> Lane:
    use = SimpleNamespace(meter=told, settings=load({"keyword_index_dir": "/nowhere"}))
    return Lane(processes, run=run, spawn=asyncio.ensure_future, use=use, wake=told.wake)


def lane(told: Told, *processes: _Process) -> Lane:
    """A lane with these processes, which are nobody's."""
    made = _of_nobody(len(processes), told)
    made.start = lambda: None
    made._ready.extend(processes)
    return made


class DescribeWhoWantsTheLane:
    @pytest.mark.parametrize(
        ("installation", "profile", "wanted"),
        [
            ({}, {}, "chord"),
            ({}, {"lane": "in_process"}, "in_process"),
            ({"query_lane": "in_process"}, {}, "in_process"),
            ({"query_lane": "in_process"}, {"lane": "chord"}, "chord"),
        ],
    )
    def it_is_the_profile_before_the_installation(self, installation, profile, wanted):
        assert plan_of(load(installation), profile, {}).lane == wanted

    def it_is_one_of_two(self):
        with pytest.raises(PlanFlaw) as found:
            plan_of(load(), {"lane": "express"}, {})
        assert found.value.flaws[0][0] == "/lane"

    def it_needs_a_process(self):
        with pytest.raises(Misconfigured, match="CHORDWISE_QUERY_LANE_PROCESSES must not be 0"):
            load({"query_lane": "in_process", "query_lane_processes": 0})

    async def it_starts_nothing_for_the_chord_or_without_processes(self):
        told = Told()
        for made, asked in (
            (_of_nobody(2, told), query(lane="chord")),
            (lane(told), query()),
        ):
            assert made.is_for(asked) is False
            assert made.facts is None
        assert told.reasons == []

    def it_changes_neither_the_key_of_an_answer_nor_what_shapes_it(self):
        keys = {
            cache_key(replace(query(lane=name), created_at=0.0), revisions={KB: "1"}, installation="i")
            for name in ("chord", "in_process")
        }
        assert len(keys) == 1
        assert _fingerprint(load()) == _fingerprint(load({"query_lane": "in_process", "query_lane_processes": 5}))


class DescribeTheLane:
    async def it_sends_each_query_to_the_process_that_holds_the_fewest(self):
        told, other = Told(), Told()
        made = lane(told, _Process(name=1, writer=told), _Process(name=2, writer=other))
        for number in range(4):
            assert made.take(query(number))
        assert [len(told.lines), len(other.lines)] == [2, 2]
        assert {(line.step, line.tenant_id, line.request_id) for line in told.lines} == {("answer", "acme", "r")}

    async def it_leaves_what_is_too_much_to_the_chord(self):
        told = Told()
        made = lane(told, _Process(name=1, writer=told))
        sent = 0
        while made.is_for(query(sent)):
            made.take(query(sent))
            sent += 1
        assert (sent, told.reasons) == (32, ["full"])

    async def it_has_a_query_finished_by_another_process_than_the_one_that_holds_it(self):
        told, other = Told(), Told()
        made = lane(told, _Process(name=1, writer=told), _Process(name=2, writer=other))
        made.take(query(1))
        assert await made.finish(query(1)) is True
        assert ([line.step for line in told.lines], [line.step for line in other.lines]) == (["answer"], ["finish"])

    async def it_has_a_query_of_the_chord_finished_by_every_process_as_one_may_hang(self):
        told, other = Told(), Told()
        made = lane(told, _Process(name=1, writer=told), _Process(name=2, writer=other))
        assert await made.finish(query(1)) is True
        assert ([line.step for line in told.lines], [line.step for line in other.lines]) == (["finish"], ["finish"])

    async def it_finishes_nothing_where_the_only_process_holds_the_query_or_none_is_there(self):
        told = Told()
        made = lane(told, _Process(name=1, writer=told))
        made.take(query(1))
        assert await made.finish(query(1)) is False
        assert await lane(Told()).finish(query(2)) is False

    async def it_gives_a_process_the_whole_query_only_if_redis_does_not_return_it(self):
        told = Told()
        made = lane(told, _Process(name=1, writer=told))
        made.take(query(1))
        assert await made.answer(query(1), step="answer_unstored")
        stored, unstored = told.lines
        assert (stored.step, stored.query) == ("answer", "")
        assert (unstored.step, QUERY.validate_json(unstored.query).query_text) == ("answer_unstored", "水泵 pump")
        assert made.holds(query(1))

    async def it_wakes_the_waiters_with_an_answer_that_comes_over_the_socket(self):
        told, reader = Told(), asyncio.StreamReader()
        made = lane(told)
        made._ready.append(process := _Process(name=1, writer=told))
        serving = asyncio.ensure_future(made._read_replies(process, reader, made._ready))
        made.take(query(1))
        await made.answer(query(1), step="answer_unstored")
        answer = '{"title": "水泵"}'
        for reply in (LaneReply(query_id="q1"), LaneReply(query_id="q1", step="answer_unstored", answer=answer)):
            reader.feed_data(reply.line())
        reader.feed_eof()
        await serving
        assert {name: decompressed(found).decode() for name, found in told.woken.items()} == {
            wake_name("query", TenantId("acme"), QueryId("q1")): answer
        }

    async def it_takes_no_more_without_redis_than_with_it(self):
        told = Told()
        made = lane(told, _Process(name=1, writer=told))
        assert sum([await made.answer(query(number), step="answer_unstored") for number in range(50)]) == 32

    async def it_refuses_a_query_without_redis_where_neither_a_process_nor_a_worker_is_there(self):
        made = lane(Told())
        assert await made.answer(query(1), step="answer_unstored") is False
        assert made.may_reach() is False

    async def it_sends_a_query_again_once_and_then_by_the_chord(self, monkeypatch):
        told, by_chord = Told(), []
        monkeypatch.setattr("api_gateway.live.lane.dispatch.ask", by_chord.append)
        made = lane(told, _Process(name=1, writer=told))
        made._send_again(query(1), "answer", 1)
        made._send_again(query(2), "answer", 2)
        made._send_again(query(3, left_s=0.01), "answer", 1)
        made._send_again(query(4), "answer_unstored", 1)
        made._send_again(query(5), "answer_unstored", 2)  # Redis, which the chord needs, is away
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [(line.query_id, line.step) for line in told.lines] == [("q1", "answer"), ("q4", "answer_unstored")]
        assert [each.query_id for each in by_chord] == ["q2"]
        assert told.reasons == ["process_ended"] * 4

    def it_gives_its_processes_no_operators_key(self, monkeypatch):
        monkeypatch.setenv("CHORDWISE_ADMIN_KEY", "secret")
        monkeypatch.setenv("CHORDWISE_MYSQL_URL", "mysql://there")
        given = _environment()
        assert ("CHORDWISE_ADMIN_KEY" in given, given["CHORDWISE_MYSQL_URL"]) == (False, "mysql://there")


class DescribeTheMessages:
    def it_reads_what_it_wrote(self):
        request = LaneRequest(
            step="finish",
            tenant_id=TenantId("租户"),
            query_id=QueryId("q"),
            request_id="r\n",
            headers={"traceparent": "0"},
        )
        assert request.line().count(b"\n") == 1
        assert LaneRequest.read(request.line()) == request
        assert LaneReply.read(LaneReply(query_id="q").line()) == LaneReply(query_id="q", step="answer")


class DescribeTheSocketsOfTheWorkers:
    def it_keeps_installations_apart_and_names_no_password(self):
        def prefix(**changed: str) -> str:
            return worker_sockets(load({"keyword_index_dir": "/there", **changed}))[1]

        assert prefix() == prefix(query_lane="in_process")
        assert prefix(redis_url="redis://u:one@h/0") == prefix(redis_url="redis://u:two@h/0")
        assert len({prefix(), prefix(redis_url="redis://h/3"), prefix(mysql_url="mysql+pymysql://u:p@h/other")}) == 3


class DescribeItsDiagnosis:
    @pytest.mark.parametrize(("ready", "severity"), [(2, Severity.OK), (1, Severity.WARNING), (0, Severity.WARNING)])
    def it_counts_processes(self, ready, severity):
        facts = LaneFacts(wanted=2, ready=ready, queries=0)
        finding = doctor.query_lane(wanted=facts.wanted, ready=facts.ready)
        assert (finding.check, finding.severity) == ("query_lane", severity)
        assert f"{ready} of 2" in finding.detail
        assert bool(finding.advice) is (severity is not Severity.OK)
