"""Timers for the queries that this process has sent, or whose clients wait here: send lost messages again, open a query again
that Redis has lost, ask a worker to finish an overdue one, then fail it.

Each query has a timer from the moment it is sent until its answer is announced, whether or not a client waits for it.
So a lost task costs its channel and not the answer, and an outage is counted even if no client asks for the result.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

import structlog

from api_gateway.live.lane import Lane
from api_gateway.live.wakes import Wakes
from pipeline.errors import PipelineError, QuotaExceeded, StoreUnavailable
from pipeline.outages import OutageTolerated, tolerate_outage
from pipeline.query.places import Verdict
from pipeline.query.request import Query
from pipeline.query.understanding import QueryState
from pipeline.query.wake_names import wake_name
from pipeline.records import ChannelName, QueryId, TenantId
from pipeline.resources import Resources
from pipeline.retrieval.answer_query import fail
from pipeline.retrieval.measure import count_unsent
from workers import dispatch
from workers.names import QUERY_QUEUES, Queue

log = structlog.get_logger(__name__)

FINISH_BEFORE_S: Final = 0.02  # before the deadline, the gateway asks a worker to answer from what has arrived
FAIL_AFTER_S: Final = 0.15  # after the deadline, the gateway fails the query

_LOOKS_UNTIL_S: Final = 0.5  # before the deadline; later there is no time for a channel
_FROZEN_S: Final = 0.5  # without an answer to a look; a longer wait would leave no time for an answer without Redis
_HANGS_AFTER_S: Final = 0.3  # a worker whose channel has taken so much longer than it may
_COMPOSED_WITHIN_S: Final = 1.0  # an answer after the last report, also on a busy machine

Run = Callable[..., Coroutine[Any, Any, Any]]
Unserved = Callable[[Sequence[str]], Coroutine[Any, Any, tuple[str, ...]]]
Spawn = Callable[[Coroutine[Any, Any, None]], None]


class Deadlines:
    """Timers by query, on the event loop. ``run`` calls a blocking function in a thread; ``unserved`` returns those of
    the given queues that no worker consumes; ``spawn`` runs a coroutine beside the others; ``lane`` answers what Redis or the
    broker does not bring to a worker; ``ended`` is called when a timer stops."""

    def __init__(
        self,
        wakes: Wakes,
        run: Run,
        unserved: Unserved,
        use: Resources,
        *,
        spawn: Spawn,
        lane: Lane,
        ended: Callable[[Query], object] = lambda _: None,
    ) -> None:
        self._wakes = wakes
        self._run = run
        self._unserved = unserved
        self._spawn = spawn
        self._use = use
        self._lane = lane
        self._ended = ended
        self._timers: WeakValueDictionary[str, Timer] = WeakValueDictionary()

    def start(self, query: Query) -> Timer:
        """Start the timer of a query that is about to be sent; it runs until the query is answered or has failed. The
        caller stops the timer if the query is not sent after all."""
        timer = Timer(query, self._wakes, self._look, self._finish, self._ended)
        self._timers[wake_name("query", query.tenant_id, query.query_id)] = timer
        return timer

    def follow(self, query: Query) -> None:
        """Start the timer of a query whose client waits here, unless it runs: the gateway that sent it may hang, or be gone."""
        if self.of(query.tenant_id, query.query_id) is None:
            self.start(query).opened(query)

    def of(self, tenant_id: TenantId, query_id: QueryId) -> float | None:
        """Return the deadline of a query whose timer runs in this process, in seconds since the epoch."""
        timer = self._timers.get(wake_name("query", tenant_id, query_id))
        return None if timer is None else timer.query.deadline_at

    def sent(self, tenant_id: TenantId, query_id: QueryId) -> Query | None:
        """Return a query that was stored and whose timer runs in this process."""
        timer = self._timers.get(wake_name("query", tenant_id, query_id))
        return timer.query if timer is not None and timer.is_open else None

    def _look(self, timer: Timer, look: int) -> None:
        if timer.is_open:
            self._spawn(self._see_to(timer.query, look))

    async def _see_to(self, query: Query, look: int) -> None:
        """Send again what is lost of a query. If a request waits for it, have the lane answer it while Redis or the broker
        is away."""

        async def answer_here(error: PipelineError) -> None:
            name = wake_name("query", query.tenant_id, query.query_id)
            is_here = self._wakes.is_awaited(name) and await self._lane.answer(query, step="answer_unstored")
            event = "query_answered_here" if is_here else "query_not_sent_again"
            log.warning(event, query_id=query.query_id, tenant_id=query.tenant_id, code=error.code)

        with OutageTolerated(lambda error: self._spawn(answer_here(error)), also=(QuotaExceeded,)):
            now = time.time()
            try:
                async with asyncio.timeout(_FROZEN_S):
                    state = await self._run(self._use.queries(query.tenant_id).state, query.query_id)
            except TimeoutError:
                raise StoreUnavailable("Redis: it does not answer in time") from None
            if state is None:
                await self._open_again(query)
            elif state.answer is None and not self._lane.holds(query):
                await self._send_again(state, look, now)

    async def _open_again(self, query: Query) -> None:
        """Open a query again that Redis has lost, unless another gateway has, and send it to the workers. Raises Unavailable or
        QuotaExceeded."""
        queries = self._use.queries(query.tenant_id)
        if not await self._run(queries.is_lost, query.query_id):
            return
        if await self._run(queries.open, query, waits=self._wakes.own_channel) is Verdict.TAKEN:
            log.warning("query_opened_again", query_id=query.query_id, tenant_id=query.tenant_id)
            await self._run(dispatch.ask, query)

    async def _send_again(self, state: QueryState, look: int, now: float) -> None:
        """Send again what no worker is at work on. A query that no worker has begun goes to the lane, past the broker, a node
        of which may hang. Else headers, or the answer of a query all of whose channels have reported, go by another queue at
        each look, that of other processes first: the worker that has them may hang. ``now``: when the state was read. Raises
        Unavailable."""
        query = state.query
        if not state.ran and await self._lane.answer(query, step="answer"):
            log.warning("query_answered_here", query_id=query.query_id, tenant_id=query.tenant_id)
            return
        waiting = [channel for channel in query.channels if not _is_asked(state, channel, now)]
        if not waiting and not _is_left(state, now):
            return
        served = await self._served()
        queue = served[(look + 1) % len(served)]
        log.warning("query_sent_again", query_id=query.query_id, tenant_id=query.tenant_id, channels=waiting)
        if waiting:
            await self._run(dispatch.ask_again, query, waiting, queue, now)
        else:
            await self._run(dispatch.finish, query, queue)

    async def _served(self) -> Sequence[Queue]:
        """Return the queues that have workers for a query; all of them if none has."""
        unserved = await self._unserved(QUERY_QUEUES)
        return [queue for queue in QUERY_QUEUES if queue not in unserved] or QUERY_QUEUES

    def _finish(self, timer: Timer) -> None:
        self._spawn(self._ask_a_worker(timer.query))
        self._spawn(self._fail_unless_answered(timer))

    async def _ask_a_worker(self, query: Query) -> None:
        if await self._lane.finish(query):
            return
        with tolerate_outage(log.warning, "overdue_query_not_sent", query_id=query.query_id, tenant_id=query.tenant_id):
            await self._run(dispatch.finish, query, (await self._served())[0])

    async def _fail_unless_answered(self, timer: Timer) -> None:
        query = timer.query
        await asyncio.sleep(max(0.0, query.deadline_at + FAIL_AFTER_S - time.time()))
        if timer.is_answered:
            return
        ids: dict[str, Any] = {"query_id": query.query_id, "tenant_id": query.tenant_id}
        try:
            with tolerate_outage(log.error, "query_not_failed", **ids):
                if await self._run(fail, query.tenant_id, query.query_id, self._use):
                    log.error("query_failed", **ids, alert=True)
                elif await self._run(self._use.queries(query.tenant_id).is_lost, query.query_id):
                    count_unsent(self._use)
                    log.error("query_lost", **ids, alert=True)
        finally:
            timer.stop()


def _is_asked(state: QueryState, channel: ChannelName, now: float) -> bool:
    """Return whether a channel has reported, or a worker began it and may still be at work on it."""
    if channel.value in state.elapsed_ms:
        return True
    run = state.ran.get(channel)
    return run is not None and now < run.started_at + state.query.timeout_ms_of(channel) / 1000 + _HANGS_AFTER_S


def _is_left(state: QueryState, now: float) -> bool:
    """Return whether every channel has reported, so long ago that no worker is composing the answer, which may wait for a
    model."""
    ran, took_ms = state.ran, state.elapsed_ms
    ended_at = [
        ran[name].started_at + took_ms[name] / 1000 if name in took_ms else now for name in state.query.channels
    ]
    return now > max(ended_at) + _COMPOSED_WITHIN_S and not dispatch.waits_for_model(state.query)


class Timer:
    """One query's timer. It calls ``look`` with the number of the look at half of the time, and again each time that half of
    the rest is over, then ``due``. It announces the answer under the name on which the waiting requests are woken.
    ``is_open``: the query was stored."""

    __slots__ = (
        "__weakref__",
        "_due",
        "_due_at",
        "_ended",
        "_handle",
        "_look",
        "_name",
        "_wakes",
        "is_answered",
        "is_open",
        "query",
    )

    def __init__(
        self,
        query: Query,
        wakes: Wakes,
        look: Callable[[Timer, int], None],
        due: Callable[[Timer], None],
        ended: Callable[[Query], object],
    ) -> None:
        self.query = query
        self._look, self._due, self._ended = look, due, ended
        self.is_answered = self.is_open = False
        self._wakes = wakes
        self._name = wake_name("query", query.tenant_id, query.query_id)
        wakes.add(self._name, self)  # itself: a callback that is held here would be garbage in a cycle, with the query
        self._due_at = asyncio.get_running_loop().time() + query.deadline_at - FINISH_BEFORE_S - time.time()
        self._handle = self._wait(0)

    def _wait(self, looks: int) -> asyncio.TimerHandle:
        """Wait for the next look, or for the end."""
        loop = asyncio.get_running_loop()
        left_s = self._due_at - loop.time()
        if left_s < 2 * _LOOKS_UNTIL_S:
            return loop.call_later(max(0.0, left_s), self._due, self)
        return loop.call_later(left_s / 2, self._look_next, looks)

    def _look_next(self, looks: int) -> None:
        self._handle = self._wait(looks + 1)
        self._look(self, looks)

    def opened(self, query: Query) -> None:
        """Note that the query was stored, as it is there."""
        self.query, self.is_open = query, True

    def look_again(self) -> None:
        """Look at once whether Redis, which is back, has lost the query."""
        self._look(self, 0)

    def stop(self) -> None:
        """Cancel the timer."""
        self._handle.cancel()
        self._wakes.discard(self._name, self)
        self._ended(self.query)

    def wake(self, _answer: bytes | None = None, /) -> None:
        """Stop: the query is answered."""
        self.is_answered = True
        self.stop()
