"""Hand a computation to a worker and wait for its outcome.

The gateway validates a request, stores the computation in Redis, enqueues its ids and is woken when a worker has begun
or ended a step. The gateway always deletes the computation afterwards, so a worker that has not begun it, or is between
two steps, stops.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import structlog
from cachetools import LRUCache
from starlette.types import Receive

from api_gateway.http.problems import Problem, internal
from api_gateway.live.admission import overloaded
from pipeline.deadline import Deadline
from pipeline.errors import ComputationTimeout, PipelineError, WorkerUnavailable
from pipeline.jobs.computation import (
    LIMITS,
    MOST_IN_REDIS,
    Computation,
    ComputationId,
    ComputationKind,
    ComputationProgress,
    Done,
    Failed,
)
from pipeline.query.places import Pace, Place, Verdict, WorkKind, place_id, retry_after_s
from pipeline.records import TenantId
from workers import dispatch
from workers.names import Queue

if TYPE_CHECKING:
    from api_gateway.gateway import Gateway
    from api_gateway.http.caller import Caller

Look = Callable[[], Awaitable[ComputationProgress | None]]

log = structlog.get_logger(__name__)

MOST_WAITING: Final = 32  # requests of one tenant in one lane; this process holds their bodies in memory
_MOST_PACES: Final = 10_000
_GONE: Final = ComputationProgress(step=-1, begun=False, outcome=None)
_GRACE_S: Final = 5.0  # past a step's time limit; the gateway then gives up on the step


@dataclass(slots=True)
class _Lane:
    """A queue of one tenant's computations, of which one runs at a time."""

    turns: asyncio.Semaphore
    waiting: int = 0
    waiting_bytes: int = 0


@dataclass(slots=True)
class Turns:
    """Limits on how many computations one tenant has in the workers' queue, so that it does not delay other tenants.

    The tenant's further computations wait in the gateway as coroutines, first come, first served. ``hold_back`` is awaited
    before a 503; the gateway holds back each 429 itself.
    """

    most_bytes: int
    hold_back: Callable[[], Awaitable[None]]
    _lanes: dict[tuple[TenantId, str], _Lane] = field(default_factory=dict)
    _paces: LRUCache[tuple[TenantId, str], Pace] = field(default_factory=lambda: LRUCache(_MOST_PACES), compare=False)

    @asynccontextmanager
    async def taken(
        self, tenant_id: TenantId, lane_name: str, *, size: int, seconds: float, at_once: int = 1
    ) -> AsyncIterator[None]:
        """Wait up to ``seconds`` for the tenant's turn in a lane; ``size`` is the body's size in bytes.

        Raises Problem(429) if too many requests of the tenant already wait, or if the turn does not come in time;
        Problem(503) at once if it is not expected in time, by the measured duration of those before.
        """
        key = (tenant_id, lane_name)
        lane = self._lanes.setdefault(key, _Lane(asyncio.Semaphore(at_once)))
        if lane.waiting >= MOST_WAITING or (lane.waiting and lane.waiting_bytes + size > self.most_bytes):
            raise _too_many()
        pace = self._paces.setdefault(key, Pace())
        is_measured = bool(pace.services)
        if (
            is_measured
            and lane.waiting >= at_once
            and (wait_s := pace.wait_s(lane.waiting - at_once, share=at_once, now=asyncio.get_running_loop().time()))
            > seconds
        ):
            await self.hold_back()
            raise overloaded(retry_after_s(wait_s - seconds, jitter=random.random))
        lane.waiting += 1
        lane.waiting_bytes += size
        try:
            try:
                async with asyncio.timeout(seconds):
                    await lane.turns.acquire()
            except TimeoutError:
                raise _too_many() from None
            began_at = asyncio.get_running_loop().time()
            try:
                yield
            finally:
                pace.served(asyncio.get_running_loop().time() - began_at)
                lane.turns.release()
        finally:
            lane.waiting -= 1
            lane.waiting_bytes -= size
            if not lane.waiting:
                self._lanes.pop(key, None)


async def compute(
    caller: Caller,
    kind: ComputationKind,
    asked: Mapping[str, Any],
    *,
    receive: Receive | None = None,
    body: bytes = b"",
    request_id: str | None = None,
    on_text: Callable[[str], Awaitable[None]] | None = None,
) -> Done:
    """Enqueue a computation and return its outcome.

    ``receive`` is the request's, after its body was read. ``on_text`` gets the text that the computation writes, on each
    look at it; it may not have grown. Raises the error that the computation raised in the worker;
    Problem(503) `overloaded` if no place for it is expected in time; WorkerUnavailable if no worker begins it in time;
    ComputationTimeout if a worker does not finish it in time;
    Problem(429); ClientDisconnect if the client has closed its connection.
    """
    computation = Computation(
        tenant_id=caller.tenant_id,
        computation_id=ComputationId(str(uuid.uuid4())),
        kind=kind,
        asked=asked,
        body=body,
        request_id=request_id or caller.request_id,
        actor=caller.principal.actor,
    )
    gateway = caller.gateway
    receive = receive or caller.request.receive
    begin_s = gateway.settings.compute_wait_s
    computations = caller.use.computations(caller.tenant_id)
    limits = LIMITS[kind]
    turn = gateway.turns.taken(
        caller.tenant_id, limits.lane, size=len(body), seconds=begin_s + limits.step_s, at_once=limits.at_once
    )
    pool = WorkKind.COMPUTE if dispatch.queue_of(computation) is Queue.COMPUTE else WorkKind.MODEL
    work_id = place_id(caller.tenant_id, computation.computation_id)
    begins = Deadline.after(begin_s)
    places = gateway.resources.places

    lasting_s = begin_s + limits.step_s + _GRACE_S
    has_left, steps = False, 0

    def take(place: Place) -> Verdict:
        verdict = places.take(caller.tenant_id, computation.computation_id, place)
        if verdict is Verdict.TAKEN and has_left:
            places.give_back(caller.tenant_id, computation.computation_id, pool)
        return verdict

    async def attempt(place: Place) -> Verdict:
        return await gateway.run(take, replace(place, left_s=lasting_s))

    async with turn:
        try:
            await gateway.admission.enter(
                pool, caller.tenant_id, work_id, attempt, left_s=begins.left_s, only_begins=True, receive=receive
            )
        except BaseException:  # an attempt may have taken a place meanwhile, or may do so yet
            has_left = True
            gateway.spawn(_give_back(computation, pool, gateway))
            raise
        with gateway.wakes.watch(computations.wake_name(computation.computation_id)) as waiter:
            run = gateway.run_heavy if len(body) > MOST_IN_REDIS else gateway.run
            try:
                await run(computations.open, computation, begin_s=begin_s)
                await gateway.run(dispatch.compute, computation, expires_s=begin_s)

                async def read() -> ComputationProgress | None:
                    nonlocal steps
                    progress = await gateway.run(computations.progress, computation.computation_id)
                    if progress is not None and progress.step > steps:  # its place lasts for one step
                        steps = progress.step
                        await gateway.run(take, Place(pool=pool, most=0, left_s=lasting_s))
                    if progress is not None and on_text is not None:
                        await on_text(progress.text)
                    return progress

                async def wait(look: Look, seconds: float) -> ComputationProgress | None:
                    return await gateway.wakes.until(waiter, look, seconds=seconds, receive=receive, look_first=False)

                outcome = await await_outcome(kind, read, wait, begin_s=begin_s)
            finally:
                has_left = True  # a renewal of its place may still be under way in a thread
                gateway.admission.ended(work_id)
                gateway.spawn(_drop(computation, pool, gateway))
    if isinstance(outcome, Done):
        return outcome
    raise internal() if outcome.error is None else outcome.error


async def await_outcome(
    kind: ComputationKind,
    read: Look,
    wait: Callable[[Look, float], Awaitable[ComputationProgress | None]],
    *,
    begin_s: float,
) -> Done | Failed:
    """Wait for the outcome of a computation as long as its steps begin and end in time.

    ``read`` reads the computation's progress; ``wait`` returns the given function's first result within the given
    seconds, or None. Raises WorkerUnavailable if the first step does not begin within ``begin_s``, and
    ComputationTimeout.
    """
    progress = ComputationProgress(step=0, begun=False, outcome=None)
    seconds = begin_s

    async def look() -> ComputationProgress | None:
        """Return the progress if it has changed, or None; a computation that no longer exists counts as changed."""
        latest = await read()
        return None if latest == progress else latest or _GONE

    while True:
        change = await wait(look, seconds)
        if change is None or change is _GONE:
            began = progress.begun or progress.step > 0
            log.warning("computation_late", kind=kind, begun=began, step=progress.step)
            if not began:
                raise WorkerUnavailable(f"No worker began this within {begin_s:g} s.", retry_after_s=2)
            raise ComputationTimeout(f"A worker began this and did not end it within {seconds:g} s.", retry_after_s=30)
        if change.outcome is not None:
            return change.outcome
        progress = change
        seconds = LIMITS[kind].step_s + _GRACE_S


async def _give_back(computation: Computation, pool: WorkKind, gateway: Gateway) -> None:
    """Give back a computation's place; if that fails, it expires."""
    with suppress(PipelineError):
        await gateway.run(gateway.resources.places.give_back, computation.tenant_id, computation.computation_id, pool)


async def _drop(computation: Computation, pool: WorkKind, gateway: Gateway) -> None:
    """Delete a computation and give back its place; if that fails, they expire."""
    await _give_back(computation, pool, gateway)
    with suppress(PipelineError):
        await gateway.run(gateway.resources.computations(computation.tenant_id).drop, computation)


def _too_many() -> Problem:
    detail = "Too many such requests of this tenant are under way; send it again a little later."
    return Problem(429, "too_many_waiters", detail, headers={"Retry-After": "5"})
