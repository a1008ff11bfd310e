"""Limits on a tenant's computations in the queue, and the deadlines of the gateway's wait for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from api_gateway.http.problems import Problem, from_error
from api_gateway.live.computations import MOST_WAITING, Turns, await_outcome
from pipeline.errors import ComputationTimeout, WorkerUnavailable
from pipeline.jobs.computation import LIMITS, ComputationKind, ComputationProgress, Done, Failed
from pipeline.records import TenantId

pytestmark = pytest.mark.usefixtures("quiet")

ACME, OTHER = TenantId("acme"), TenantId("other")


async def no_pause() -> None:
    """Hold back no refusal."""


class Crowd:
    """Requests that take their turn and hold it until they are let go."""

    def __init__(self, *, most_bytes: int = 1000) -> None:
        self.turns = Turns(most_bytes, no_pause)
        self.begun: list[str] = []
        self.refused: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def come(
        self,
        name: str,
        tenant: TenantId = ACME,
        kind: ComputationKind = ComputationKind.PREVIEW,
        *,
        size: int = 1,
        seconds: float = 60,
    ) -> None:
        self._ends[name] = asyncio.Event()

        async def hold() -> None:
            try:
                async with self.turns.taken(tenant, LIMITS[kind].lane, size=size, seconds=seconds):
                    self.begun.append(name)
                    await self._ends[name].wait()
            except Problem as problem:
                self.refused.append(f"{name} {problem.status} {problem.code} {problem.headers['Retry-After']}")

        self._tasks[name] = asyncio.create_task(hold())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    async def go(self, name: str) -> None:
        self._ends[name].set()
        await self._tasks[name]
        await asyncio.sleep(0)

    async def leave(self, name: str) -> None:
        self._tasks[name].cancel()
        await asyncio.wait({self._tasks[name]})
        await asyncio.sleep(0)


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


class DescribeTurns:
    async def it_lets_one_after_the_other_begin(self, crowd):
        for name in "abc":
            await crowd.come(name)
        assert crowd.begun == ["a"]
        await crowd.go("a")
        assert crowd.begun == ["a", "b"]
        await crowd.go("b")
        await crowd.go("c")
        assert crowd.begun == ["a", "b", "c"]

    async def it_keeps_nobody_else_waiting(self, crowd):
        await crowd.come("mine")
        await crowd.come("mine too", kind=ComputationKind.BOOK)
        await crowd.come("another tenant's", OTHER)
        await crowd.come("my comparison", kind=ComputationKind.VERIFY)
        assert crowd.begun == ["mine", "another tenant's", "my comparison"]

    async def it_passes_over_who_has_left(self, crowd):
        for name in "abc":
            await crowd.come(name)
        await crowd.leave("b")
        await crowd.go("a")
        assert crowd.begun == ["a", "c"]

    async def it_refuses_one_too_many(self, crowd):
        for number in range(MOST_WAITING + 1):
            await crowd.come(str(number))
        await crowd.come("another tenant's", OTHER)
        assert crowd.refused == [f"{MOST_WAITING} 429 too_many_waiters 5"]
        assert crowd.begun == ["0", "another tenant's"]

    async def it_refuses_what_would_fill_the_memory_but_takes_any_one(self, crowd):
        await crowd.come("large", size=5000)
        await crowd.come("next", size=1)
        assert (crowd.begun, crowd.refused) == (["large"], ["next 429 too_many_waiters 5"])

    async def it_refuses_who_has_waited_too_long(self, crowd):
        await crowd.come("a")
        await crowd.come("b", seconds=0.01)
        await asyncio.sleep(0.05)
        assert crowd.refused == ["b 429 too_many_waiters 5"]

    async def it_forgets_tenants_that_wait_for_nothing(self, crowd):
        await crowd.come("a")
        await crowd.go("a")
        assert crowd.turns == Turns(1000, no_pause)


class Watched:
    """A computation that progresses at each wait, with a record of the waits."""

    def __init__(self, *moves: ComputationProgress | None) -> None:
        self.moves = list(moves)
        self.waited: list[float] = []

    async def outcome(self, kind: ComputationKind = ComputationKind.VERIFY) -> Done | Failed:
        return await await_outcome(kind, self._look_up, self._wait, begin_s=7)

    async def _look_up(self) -> ComputationProgress | None:
        return self.moves[0] if self.moves else self._last

    async def _wait(self, look: Any, seconds: float) -> ComputationProgress | None:
        self.waited.append(seconds)
        found = await look()
        self._last = self.moves.pop(0) if self.moves else None
        return found


def at(step: int, outcome: Done | Failed | None = None, *, begun: bool = True) -> ComputationProgress:
    return ComputationProgress(step=step, begun=begun, outcome=outcome)


class DescribeWaitingForAnOutcome:
    async def it_goes_on_as_long_as_steps_begin_and_end(self):
        done = Done(body=b"{}")
        steps = [at(0), at(1, begun=False), at(1), at(2, begun=False), at(2, done)]
        watched = Watched(*steps)
        assert await watched.outcome() == done
        assert watched.waited == [7] + [LIMITS[ComputationKind.VERIFY].step_s + 5] * 4

    async def it_says_that_no_worker_is_there(self):
        with pytest.raises(WorkerUnavailable, match="within 7 s") as raised:
            await Watched(at(0, begun=False)).outcome()
        problem = from_error(raised.value)
        assert (problem.status, problem.code, problem.headers) == (503, "worker_unavailable", {"Retry-After": "2"})

    @pytest.mark.parametrize(
        "moves",
        [[at(0), at(0)], [at(0), at(1, begun=False), at(1, begun=False)], [at(0), None]],
        ids=["hangs", "is not taken further", "is gone"],
    )
    async def it_says_that_a_worker_took_too_long(self, moves):
        with pytest.raises(ComputationTimeout) as raised:
            await Watched(*moves).outcome()
        problem = from_error(raised.value)
        assert (problem.status, problem.code, problem.headers) == (503, "computation_timeout", {"Retry-After": "30"})
