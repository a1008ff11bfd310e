"""Timers of queries under way: headers that no worker has begun are sent again, and a query is finished at its deadline. The
clock is the test's."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from api_gateway.live.query_deadlines import Deadlines, Timer
from api_gateway.live.wakes import Wakes
from pipeline.errors import StoreUnavailable
from pipeline.query.places import Verdict
from pipeline.query.plan import ChannelPlan, Plan, RetrievePlan
from pipeline.query.request import Query
from pipeline.query.understanding import ChannelRun, QueryState
from pipeline.query.wake_names import wake_name
from pipeline.records import ChannelName, QueryId, TenantId
from tests.support.corpora.queries import query_of
from workers import dispatch
from workers.names import Queue

KEYWORD, SEMANTIC = ChannelName.KEYWORD, ChannelName.SEMANTIC
Sent = tuple[float, Sequence[ChannelName], Queue]
Lane = Literal["is away", "is there", "holds the query"]


class Stage:
    """A gateway's timers, and a Redis that holds one query. ``sent``: what went to the broker, and after how many seconds."""

    def __init__(
        self, *, left_s: float = 3.0, unserved: tuple[str, ...] = (), takes: bool = True, lane: Lane = "is away"
    ) -> None:
        plan = Plan(retrieve=RetrievePlan(channels={name: ChannelPlan() for name in (KEYWORD, SEMANTIC)}))
        self.query = query_of(
            "a pump", query_id=QueryId("q1"), tenant_id=TenantId("acme"), plan=plan, deadline_s=left_s
        )
        self.ran: dict[str, ChannelRun] = {}
        self.elapsed_ms: dict[str, float] = {}
        self.is_open = True
        self.redis: Literal["has it", "lost it", "has it as cancelled", "is away"] = "has it"
        self.opened: list[float] = []
        self.answered_here: list[tuple[float, str]] = []
        self.sent: list[Sent] = []
        self.finished: list[Queue] = []
        self._lane = lane
        self._takes = takes
        self._unserved = unserved
        self._beside: set[asyncio.Task[None]] = set()
        self.wakes = Wakes()
        stored = SimpleNamespace(
            state=lambda _id: self._state(), is_lost=lambda _id: self.redis == "lost it", open=self._open
        )
        self.timers = Deadlines(
            self.wakes,
            self._run,
            self._served,
            SimpleNamespace(queries=lambda _tenant: stored),  # type: ignore[arg-type]
            spawn=lambda work: self._beside.add(asyncio.ensure_future(work)),
            lane=self,  # type: ignore[arg-type]
        )

    def start(self) -> Timer:
        timer = self.timers.start(self.query)
        if self.is_open:
            timer.opened(self.query)
        return timer

    def awaited(self) -> AbstractContextManager[object]:
        return self.wakes.watch(wake_name("query", self.query.tenant_id, self.query.query_id))

    async def pass_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _state(self) -> QueryState | None:
        if self.redis == "is away":
            raise StoreUnavailable("Redis is away")
        if not self.is_open or self.redis != "has it":
            return None
        return QueryState(
            query=self.query,
            status="running",
            envelopes=(),
            elapsed_ms=dict(self.elapsed_ms),
            answer=None,
            ran=dict(self.ran),
        )

    def _open(self, query: Query, *, waits: str) -> Verdict:
        assert (query, waits) == (self.query, self.wakes.own_channel)
        self.opened.append(_now())
        self.redis = "has it"
        return Verdict.TAKEN

    def holds(self, query: Query) -> bool:
        return query is self.query and self._lane == "holds the query"

    async def answer(self, query: Query, *, step: str) -> bool:
        assert query is self.query
        if self._lane != "is away":
            self.answered_here.append((_now(), step))
        return self._lane != "is away"

    async def finish(self, query: Query) -> bool:
        assert query is self.query
        if self._lane == "is there":
            self.answered_here.append((_now(), "finish"))
        return self._lane == "is there"

    async def _served(self, _queues: Sequence[str]) -> tuple[str, ...]:
        return self._unserved

    async def _run(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call it; what would go to the broker is noted."""
        if function not in (dispatch.ask, dispatch.ask_again, dispatch.finish):
            return function(*arguments, **named)
        if not self._takes:
            raise StoreUnavailable("the broker hangs")
        if function is dispatch.finish:
            self.finished.append(arguments[1])
        else:
            asked: Query = arguments[0]
            assert asked is self.query
            channels, queue = arguments[1:3] if function is dispatch.ask_again else (asked.channels, Queue.RECALL)
            self.sent.append((_now(), channels, queue))
        return None


def _now() -> float:
    return round(asyncio.get_running_loop().time(), 1)


def _began(ago_s: float) -> ChannelRun:
    return ChannelRun(time.time() - ago_s, "worker")


class DescribeAQueryOfAWorkerThatHangs:
    """The time of its beginning is the system's, which does not turn: the worker began so many seconds before now."""

    async def it_is_sent_again_for_the_channels_that_take_longer_than_they_may(self):
        stage = Stage()
        stage.ran = {KEYWORD: _began(0.5), SEMANTIC: _began(1.2)}
        timer = stage.start()
        await stage.pass_s(2.0)
        timer.stop()
        assert stage.sent == [(1.5, [SEMANTIC], Queue.RERANK)]

    async def it_is_not_sent_again_for_a_channel_that_has_reported(self):
        stage = Stage()
        stage.ran, stage.elapsed_ms = {KEYWORD: _began(1.2), SEMANTIC: _began(1.2)}, {SEMANTIC: 20.0}
        timer = stage.start()
        await stage.pass_s(2.0)
        timer.stop()
        assert stage.sent == [(1.5, [KEYWORD], Queue.RERANK)]

    @pytest.mark.parametrize(("reported_s", "queues"), [(0.1, []), (1.5, [Queue.RERANK])])
    async def it_is_finished_by_another_worker_if_it_has_been_composed_for_long(
        self, reported_s: float, queues: list[Queue]
    ):
        stage = Stage()
        stage.ran = {KEYWORD: _began(reported_s + 0.02), SEMANTIC: _began(reported_s + 0.02)}
        stage.elapsed_ms = {KEYWORD: 20.0, SEMANTIC: 20.0}
        timer = stage.start()
        await stage.pass_s(2.0)
        timer.stop()
        assert (stage.sent, stage.finished) == ([], queues)


class DescribeAQueryThatRedisHasLost:
    async def it_is_opened_again_and_sent_once_redis_is_back(self):
        stage = Stage()
        timer = stage.start()
        await stage.pass_s(1.0)
        stage.redis = "lost it"
        stage.wakes.wake_all()  # as after a reconnection
        await stage.pass_s(0.1)
        assert (stage.opened, stage.sent) == ([1.0], [(1.0, stage.query.channels, Queue.RECALL)])
        timer.stop()

    async def it_is_opened_again_at_half_of_its_time_at_the_latest(self):
        stage = Stage()
        timer = stage.start()
        stage.redis = "lost it"
        await stage.pass_s(2.0)
        timer.stop()
        assert (stage.opened, [at for at, _, _ in stage.sent]) == ([1.5], [1.5])

    async def it_stays_away_if_it_was_cancelled(self):
        stage = Stage()
        timer = stage.start()
        stage.redis = "has it as cancelled"
        stage.wakes.wake_all()
        await stage.pass_s(2.9)
        timer.stop()
        assert (stage.opened, stage.sent) == ([], [])

    async def it_is_known_where_it_was_sent_and_nowhere_else(self):
        stage = Stage()
        ids = stage.query.tenant_id, stage.query.query_id
        assert stage.timers.sent(*ids) is None
        timer = stage.start()
        assert stage.timers.sent(*ids) is stage.query
        timer.stop()


class DescribeAQueryWhileRedisIsAway:
    @pytest.mark.parametrize(("waits", "answered"), [(True, [(1.5, "answer_unstored")]), (False, [])])
    async def it_is_answered_by_the_lane_at_half_of_its_time_if_a_request_waits(
        self, waits: bool, answered: list[tuple[float, str]]
    ):
        stage = Stage(lane="is there")
        timer = stage.start()
        stage.redis = "is away"
        with stage.awaited() if waits else nullcontext():
            await stage.pass_s(1.6)
        timer.stop()
        assert (stage.answered_here, stage.sent) == (answered, [])

    async def it_is_answered_by_the_lane_as_soon_as_the_subscription_is_lost(self):
        stage = Stage(left_s=0.9, lane="is there")  # too short for a look
        timer = stage.start()
        stage.redis = "is away"
        with stage.awaited():
            await stage.pass_s(0.3)
            stage.wakes.wake_all()
            await stage.pass_s(0.1)
        timer.stop()
        assert stage.answered_here == [(0.3, "answer_unstored")]

    async def it_is_answered_by_the_lane_also_while_the_lane_waits_to_store_its_answer(self):
        stage = Stage(lane="holds the query")
        timer = stage.start()
        stage.redis = "is away"
        with stage.awaited():
            await stage.pass_s(1.6)
        timer.stop()
        assert stage.answered_here == [(1.5, "answer_unstored")]


class DescribeAQueryOfAGatewayThatIsGone:
    async def it_is_sent_again_and_finished_by_the_gateway_where_its_client_waits(self):
        stage = Stage()
        stage.timers.follow(stage.query)
        await stage.pass_s(3.0)
        assert stage.sent == [(1.5, [KEYWORD, SEMANTIC], Queue.RERANK), (2.2, [KEYWORD, SEMANTIC], Queue.RECALL)]
        assert stage.finished == [Queue.ANSWER]

    async def it_has_one_timer_however_often_its_client_comes(self):
        stage = Stage()
        timer = stage.start()
        stage.timers.follow(stage.query)
        await stage.pass_s(2.0)
        timer.stop()
        assert len(stage.sent) == 1


class DescribeAQueryThatNoWorkerHasBegun:
    async def it_is_sent_again_at_half_of_its_time_by_other_processes_and_then_by_another_queue(self):
        stage = Stage()
        timer = stage.start()
        await stage.pass_s(2.9)
        timer.stop()
        both = [KEYWORD, SEMANTIC]
        assert stage.sent == [(1.5, both, Queue.RERANK), (2.2, both, Queue.RECALL)]

    async def it_is_sent_again_for_the_channels_alone_that_no_worker_has_begun(self):
        stage = Stage()
        stage.ran = {KEYWORD: _began(0.1)}
        timer = stage.start()
        await stage.pass_s(2.0)
        timer.stop()
        assert stage.sent == [(1.5, [SEMANTIC], Queue.RERANK)]

    @pytest.mark.parametrize(
        "why", ["every channel was begun", "it waits for a place", "the lane has it", "it was answered"]
    )
    async def it_is_left_alone_if(self, why: str):
        stage = Stage(lane="holds the query" if why == "the lane has it" else "is away")
        stage.is_open = why != "it waits for a place"
        if why == "every channel was begun":
            stage.ran = {name: _began(0.1) for name in (KEYWORD, SEMANTIC)}
        timer = stage.start()
        await stage.pass_s(1.4)
        if why == "it was answered":
            timer.stop()
        await stage.pass_s(1.4)
        timer.stop()
        assert stage.sent == []

    async def it_goes_past_the_broker_to_the_workers_of_its_host_if_it_can(self):
        stage = Stage(lane="is there")
        timer = stage.start()
        await stage.pass_s(2.0)
        timer.stop()
        assert (stage.answered_here, stage.sent) == ([(1.5, "answer")], [])

    async def it_is_finished_at_its_deadline_by_the_workers_of_its_host_if_it_can(self):
        stage = Stage(left_s=0.9, lane="is there")
        stage.start()
        await stage.pass_s(0.95)
        assert (stage.answered_here, stage.finished) == ([(0.9, "finish")], [])

    async def it_goes_to_queues_that_have_workers(self):
        stage = Stage(unserved=(Queue.RERANK,))
        timer = stage.start()
        await stage.pass_s(2.9)
        timer.stop()
        assert [queue for _, _, queue in stage.sent] == [Queue.RECALL, Queue.ANSWER]

    async def it_is_not_sent_again_when_no_time_is_left_for_a_channel(self):
        stage = Stage(left_s=0.9)
        timer = stage.start()
        await stage.pass_s(0.8)
        timer.stop()
        assert stage.sent == []

    async def it_is_finished_at_its_deadline_also_where_the_broker_took_nothing_before(self):
        stage = Stage(takes=False)
        stage.start()
        await stage.pass_s(2.5)
        stage._takes = True
        await stage.pass_s(0.5)
        assert stage.finished == [Queue.ANSWER]


class DescribeAnAnsweredQuery:
    async def it_is_freed_without_a_collection_of_garbage(self):
        stage = Stage()
        timer = weakref.ref(stage.start())
        gc.disable()
        try:
            stage.wakes.wake(wake_name("query", stage.query.tenant_id, stage.query.query_id))
            assert timer() is None
        finally:
            gc.enable()
