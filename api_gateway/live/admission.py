"""Admit queries and computations: a place for each, a short line of each tenant, and early refusal of the rest.

Every interface passes here before work is sent to workers. The places are in Redis, so all gateways share them
(`pipeline.query.places`); the lines are in each gateway. A request without a place joins its tenant's line if its turn is
expected early enough before its deadline, and is refused otherwise: 503 `overloaded`, with the seconds until a place is
expected. The lines of a pool take turns.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple

import structlog
from cachetools import LRUCache
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api_gateway.http.metrics import PLACES, REFUSED
from api_gateway.http.problems import Problem
from api_gateway.live.wakes import disconnected
from pipeline.query.places import (
    FIRST_PLACES,
    LEAST_PLACES,
    LONGEST_WAIT,
    NEW,
    WAITING,
    Concurrency,
    Pace,
    Place,
    Verdict,
    WorkKind,
    held_back_s,
    hung_pool,
    most_places,
    retry_after_s,
)
from pipeline.records import TenantId
from workers.names import Queue

log = structlog.get_logger(__name__)

Attempt = Callable[[Place], Awaitable[Verdict]]

_GRACE_S: Final = 0.5  # after its deadline, work gives up its place even if nobody reports its end
_LOOK_S: Final = 0.03  # between attempts, for places that other gateways give back
_JUDGED_S: Final = 0.1  # a request that waits is judged again so often, by the turns since
_MOST_HELD_BACK: Final = 2_000  # requests; further ones are refused at once
_MOST_TRIES: Final = 8  # attempts of a tenant at a time: each takes a thread, and threads slow down the event loop
_MOST_AT_ONCE: Final = 4  # of them for requests of its line
_MOST_READ: Final = 4  # requests of a tenant for each place that are read and prepared
_MOST_TRIED: Final = 8  # tenants in one round
_MOST_PACES: Final = 10_000
_SHARED_S: Final = 60.0  # since the last turn of another tenant

# The threads or processes that serve a pool are those that listen to a queue; and the places for each of them.
_SERVED_BY: Final = {
    WorkKind.QUERY: (Queue.RECALL, 2),
    WorkKind.MODEL: (Queue.RERANK, 1),
    WorkKind.COMPUTE: (Queue.COMPUTE, 2),
}


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request in a line, whose ``turn`` is done when it has a place. ``left_s`` counts down the time of its work,
    ``until`` ends its patience by the event loop's clock."""

    work_id: str
    attempt: Attempt
    left_s: Callable[[], float]
    until: float
    only_begins: bool
    turn: asyncio.Future[None]
    is_tried: bool = False  # an attempt is under way


class _Begun(NamedTuple):
    """When work asked for the place that it got, and the ``seconds`` that all of its pool had been under way until then."""

    at: float
    seconds: float


@dataclass(slots=True)
class _Tenant:
    """One tenant's use of a pool. ``began``: by work, when it got its place; times are the event loop's."""

    pace: Pace = field(default_factory=Pace)
    began: dict[str, _Begun] = field(default_factory=dict)
    line: deque[_Waiting] = field(default_factory=deque)
    inside: int = 0  # requests that are read, wait, or are answered
    usual_s: float = 0.0  # the time that its last query had
    tries: int = 0  # its attempts that are under way
    at_once: int = 1  # attempts of its line at a time

    @property
    def share(self) -> int:
        """The places that it has, and those that it may just get."""
        return len(self.began) + self.tries

    def wait_s(self, before: int, now: float) -> float:
        return self.pace.wait_s(before, share=self.share, now=now)

    def fits(self, waiting: _Waiting, before: int, most: int, now: float, *, most_of: float = WAITING) -> bool:
        return self.pace.fits(
            before,
            share=self.share,
            most=most,
            left_s=waiting.left_s(),
            patience_s=waiting.until - now,
            now=now,
            only_begins=waiting.only_begins,
            most_of=most_of,
        )

    def is_full(self, before: int, most: int, now: float, *, left_s: float, patience_s: float = math.inf) -> bool:
        """Return whether a further query with so much time would be refused behind ``before`` others.

        Without a line the tenant can still get its share of the places, and queries take as long as usual. Reading and
        preparing them takes processor time of this gateway, which `_MOST_READ` bounds."""
        if not self.line:
            places = max(1, self.share, most // 2)
            waiting = before - (places - len(self.began))  # the others get a place at once
            wait_s = (waiting + 1) * self.pace.usual_service_s() / places
            return before >= _MOST_READ * most or (
                waiting >= most and wait_s > min(patience_s, (left_s - self.pace.expected_service_s()) * NEW)
            )
        return not self.pace.fits(
            before,
            share=self.share,
            most=most,
            left_s=left_s,
            patience_s=patience_s,
            now=now,
            only_begins=False,
            most_of=NEW,
        )


@dataclass(slots=True)
class _Pool:
    """The use of one pool by this gateway's requests. ``slots``: the threads that serve it, if they are not workers'."""

    name: str
    slots: int | None = None
    most: int = 0
    tenants: LRUCache[TenantId, _Tenant] = field(default_factory=lambda: LRUCache(_MOST_PACES))
    lines: OrderedDict[TenantId, _Tenant] = field(default_factory=OrderedDict)  # in the order of their turns
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    is_pumped: bool = False
    none_free: bool = False  # the last attempt of a line found no place free
    tries: int = 0  # attempts of the lines that are under way
    under_way: dict[str, TenantId] = field(default_factory=dict)  # whose work has a place
    seconds: float = 0.0  # that all of it has been under way
    counted_at: float = 0.0
    latest: TenantId | None = None  # that got a place
    shared_until: float = 0.0
    concurrency: Concurrency = field(default_factory=Concurrency)

    def count(self, now: float) -> float:
        """Return the seconds that work has been under way, all pieces together. To call before a piece begins or ends."""
        self.seconds += len(self.under_way) * (now - self.counted_at)
        self.counted_at = now
        return self.seconds

    def note_place(self, work_id: str, tenant_id: TenantId, now: float) -> None:
        """Note that work has a place, and whether tenants share the pool lately."""
        self.under_way[work_id] = tenant_id
        if self.latest not in (None, tenant_id):
            self.shared_until = now + _SHARED_S
        self.latest = tenant_id

    def most_now(self, time_s: float) -> int:
        """Return the limit of places for work that has ``time_s``.

        The tenants with work under way share the number of places that is worth having. One share more stays free for a
        tenant that has none. A new process begins with few: a first wave on a busy host would end late as a whole."""
        if not self.most or self.name in (WorkKind.MODEL, WorkKind.COMPUTE):
            return self.most
        holders = max(1, len(set(self.under_way.values())))
        worth = self.concurrency.worth(time_s, is_shared=self.counted_at < self.shared_until) * (holders + 1) / holders
        return max(LEAST_PLACES, math.ceil(min(self.most, worth, FIRST_PLACES + self.concurrency.measured)))

    def of(self, tenant_id: TenantId) -> _Tenant:
        """Return a tenant's use of the pool. A tenant with a line is kept however many others come."""
        tenant = self.lines.get(tenant_id) or self.tenants.get(tenant_id)
        if tenant is None:
            tenant = _Tenant()
        self.tenants[tenant_id] = tenant
        return tenant

    def leave_line(self, tenant_id: TenantId, waiting: _Waiting) -> None:
        """Take a request out of its tenant's line, if it is there."""
        tenant = self.lines.get(tenant_id)
        if tenant is None:
            return
        with suppress(ValueError):
            tenant.line.remove(waiting)
        if not tenant.line:
            tenant.pace.line_ends()
            del self.lines[tenant_id]


class Admission:
    """The lines of this gateway. ``slots`` returns how many threads or processes listen to a queue, as far as is known;
    ``usual_s``: the time that queries have by default. Used on the event loop."""

    def __init__(
        self,
        slots: Callable[[str], Awaitable[int]],
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        usual_s: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._slots = slots
        self._spawn = spawn
        self._usual_s = usual_s
        self._jitter = jitter
        self._pools: dict[str, _Pool] = {}
        self._work: dict[str, tuple[str, TenantId]] = {}
        self._held_back = 0

    @property
    def waiting(self) -> dict[str, int]:
        """The number of requests in lines, by pool."""
        return {name: sum(len(each.line) for each in pool.lines.values()) for name, pool in self._pools.items()}

    def has_line(self, pool_name: str, tenant_id: TenantId) -> bool:
        """Return whether requests of a tenant wait for a place."""
        return tenant_id in self._pool(pool_name).lines

    async def refuse_crowd(self, tenant_id: TenantId) -> None:
        """Refuse a query, before its body is read, if its tenant has more queries under way than can be answered in time.
        Raises Problem(503)."""
        pool = self._pool(WorkKind.QUERY)
        tenant = pool.of(tenant_id)
        now = asyncio.get_running_loop().time()
        before = max(0, tenant.inside - self._beside_line(tenant_id))
        if pool.most and tenant.is_full(before, pool.most, now, left_s=max(tenant.usual_s, self._usual_s)):
            raise await self._refusal(WorkKind.QUERY, tenant.wait_s(before, now), "crowd")

    @asynccontextmanager
    async def counted(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Count a query of a tenant while it is read, waits and is answered. Raises Problem(503) as `refuse_crowd` does."""
        await self.refuse_crowd(tenant_id)
        tenant = self._pool(WorkKind.QUERY).of(tenant_id)
        tenant.inside += 1
        try:
            yield
        finally:
            tenant.inside -= 1

    async def refuse_late(self, pool_name: str, tenant_id: TenantId, *, left_s: float, patience_s: float) -> None:
        """Refuse a query, before anything is read for it, if its tenant's line is too long for it. Raises Problem(503)."""
        pool = self._pool(pool_name)
        tenant = pool.of(tenant_id)
        tenant.usual_s = left_s
        now = asyncio.get_running_loop().time()
        if not tenant.line or not tenant.is_full(
            len(tenant.line), pool.most, now, left_s=left_s, patience_s=patience_s
        ):
            return
        raise await self._refusal(pool_name, tenant.wait_s(len(tenant.line), now), "line")

    async def enter(
        self,
        pool_name: str,
        tenant_id: TenantId,
        work_id: str,
        attempt: Attempt,
        *,
        slots: int | None = None,
        left_s: Callable[[], float],
        patience_s: float = math.inf,
        only_begins: bool = False,
        receive: Receive | None = None,
    ) -> None:
        """Get a place by ``attempt``, at once or after waiting in the tenant's line. `ended` gives the place back.

        The request waits up to ``patience_s`` seconds, and only as long as the work can end before its deadline, which
        ``left_s`` counts down; with ``only_begins`` it only has to begin before. ``slots``: the threads that serve the pool,
        if they are not workers'.

        Raises Problem(503) `overloaded`, the errors of ``attempt``, and ClientDisconnect while the request waits. An attempt
        under way at that moment may still take a place.
        """
        pool = self._pool(pool_name)
        pool.slots = slots
        tenant = pool.of(tenant_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + min(patience_s, left_s() * LONGEST_WAIT)
        waiting = _Waiting(work_id, attempt, left_s, until, only_begins, loop.create_future())
        try:
            waits = bool(tenant.line) or tenant.tries >= _MOST_TRIES
            if waits or await self._try(pool, tenant_id, waiting) <= Verdict.ALL_TAKEN:
                await self._line_up(pool, tenant_id, waiting, receive)
        finally:
            waiting.turn.cancel()

    async def hold_back(self) -> None:
        """Wait for a moment before a refusal, so that clients which try again at once leave processor time for answers."""
        if self._held_back < _MOST_HELD_BACK:
            self._held_back += 1
            try:
                await asyncio.sleep(held_back_s(self._held_back, jitter=self._jitter))
            finally:
                self._held_back -= 1

    def ended(self, work_id: str) -> None:
        """Note the end of work that had a place; anything else is ignored."""
        pool_name, tenant_id = self._work.pop(work_id, (None, None))
        if pool_name is None or tenant_id is None:
            return
        pool = self._pool(pool_name)
        tenant = pool.of(tenant_id)
        began = tenant.began.pop(work_id, None)
        if began is not None:
            now = asyncio.get_running_loop().time()
            tenant.pace.served(now - began.at)
            pool.concurrency.served(now - began.at, beside_s=pool.count(now) - began.seconds)
        else:
            pool.count(asyncio.get_running_loop().time())
        pool.under_way.pop(work_id, None)
        pool.freed.set()

    def _beside_line(self, tenant_id: TenantId) -> int:
        """Return how many queries of a tenant are answered, or wait for another pool than that of queries."""
        count = 0
        for name, pool in self._pools.items():
            tenant = pool.tenants.get(tenant_id)
            if tenant is not None and name != WorkKind.COMPUTE:
                count += len(tenant.began) + (0 if name == WorkKind.QUERY else len(tenant.line))
        return count

    def _pool(self, name: str) -> _Pool:
        return self._pools.setdefault(name, _Pool(name))

    async def _try(self, pool: _Pool, tenant_id: TenantId, waiting: _Waiting) -> Verdict:
        """Ask for a place. Raises the errors of the attempt."""
        queue, each = (Queue.RECALL, 1) if pool.slots is not None else _SERVED_BY[WorkKind(pool.name)]
        threads = await self._slots(queue) if pool.slots is None else pool.slots
        pool.most = most_places(each * threads)
        PLACES.labels(pool.name).set(pool.most)
        left_s = max(0.0, waiting.left_s()) + _GRACE_S
        tenant = pool.of(tenant_id)
        place = Place(pool=pool.name, most=pool.most_now(tenant.usual_s or self._usual_s), left_s=left_s)
        is_query = pool.name not in (WorkKind.MODEL, WorkKind.COMPUTE)
        if is_query and tenant.began and pool.most and tenant.pace.hangs(asyncio.get_running_loop().time()):
            place = replace(place, pool=hung_pool(pool.name), most=2 * pool.most)
        self._work[waiting.work_id] = pool.name, tenant_id
        verdict = Verdict.ALL_TAKEN
        asked = asyncio.get_running_loop().time()
        began = _Begun(asked, pool.count(asked))
        tenant.tries += 1
        try:
            verdict = await waiting.attempt(place)
        finally:
            tenant.tries -= 1
            if verdict is not Verdict.TAKEN or waiting.turn.done():  # it is done if the request left meanwhile
                self._work.pop(waiting.work_id, None)
        if verdict is Verdict.TAKEN and waiting.work_id in self._work:  # otherwise it has ended already
            now = asyncio.get_running_loop().time()
            pool.count(now)
            pool.seconds += now - asked  # its place is held since then
            tenant.began[waiting.work_id] = began
            pool.note_place(waiting.work_id, tenant_id, now)
        if verdict is Verdict.TAKEN and place.pool == pool.name:
            tenant.pace.turned(asyncio.get_running_loop().time())
        return verdict

    async def _line_up(self, pool: _Pool, tenant_id: TenantId, waiting: _Waiting, receive: Receive | None) -> None:
        """Wait in the line of a tenant. Raises as `enter` does."""
        tenant = pool.of(tenant_id)
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not tenant.fits(waiting, len(tenant.line), pool.most, now, most_of=NEW):
            raise await self._refusal(pool.name, tenant.wait_s(len(tenant.line), now), "line")
        if not tenant.line:
            tenant.pace.line_begins(now)
        tenant.line.append(waiting)
        pool.lines[tenant_id] = tenant
        if not pool.is_pumped:
            pool.is_pumped = True
            self._spawn(self._pump(pool))
        gone = None if receive is None else asyncio.ensure_future(disconnected(receive))
        try:
            await self._wait(pool, tenant, waiting, gone)
        finally:
            if gone is not None:
                gone.cancel()
            pool.leave_line(tenant_id, waiting)

    async def _wait(self, pool: _Pool, tenant: _Tenant, waiting: _Waiting, gone: asyncio.Future[None] | None) -> None:
        """Wait for the turn of a request, and judge again and again whether it comes in time."""
        loop = asyncio.get_running_loop()
        watched = {waiting.turn} if gone is None else {waiting.turn, gone}
        seconds = _JUDGED_S
        while True:
            await asyncio.wait(watched, timeout=seconds, return_when="FIRST_COMPLETED")
            if waiting.turn.done():
                break
            if gone is not None and gone.done():
                raise ClientDisconnect
            now, before = loop.time(), tenant.line.index(waiting)
            if now < waiting.until and tenant.fits(waiting, before, pool.most, now):
                seconds = min(_JUDGED_S, waiting.until - now)
            elif waiting.is_tried:  # it may just get a place
                seconds = _LOOK_S
            else:
                raise await self._refusal(pool.name, tenant.wait_s(before, now), "waited", held_back=False)
        waiting.turn.result()

    async def _pump(self, pool: _Pool) -> None:
        """Give places to those who wait, as they become free, until nobody waits."""
        try:
            while pool.lines:
                pool.freed.clear()
                self._try_lines(pool)
                with suppress(TimeoutError):
                    await asyncio.wait_for(pool.freed.wait(), _LOOK_S)
        finally:
            pool.is_pumped = False

    def _try_lines(self, pool: _Pool) -> None:
        """Try the first requests of the lines in turn.

        A tenant whose last attempt failed tries one request. Each success doubles that number, because an attempt may take
        longer than a place is held."""
        for tenant_id in list(pool.lines)[:_MOST_TRIED]:
            tenant = pool.lines[tenant_id]
            under_way = sum(waiting.is_tried for waiting in tenant.line)
            for waiting in islice(tenant.line, _MOST_TRIES):
                if under_way >= tenant.at_once or pool.tries >= (1 if pool.none_free else _MOST_TRIES):
                    break
                if not waiting.is_tried:
                    waiting.is_tried = True
                    under_way += 1
                    pool.tries += 1
                    pool.lines.move_to_end(tenant_id)
                    self._spawn(self._try_waiting(pool, tenant_id, waiting))

    async def _try_waiting(self, pool: _Pool, tenant_id: TenantId, waiting: _Waiting) -> None:
        """Try a request of a line, and take it out of the line if it got a place or has an answer."""
        try:
            (verdict,) = await asyncio.gather(self._try(pool, tenant_id, waiting), return_exceptions=True)
        finally:
            waiting.is_tried = False
            pool.tries -= 1
        if isinstance(verdict, BaseException):  # its request raises it
            if not waiting.turn.done():
                waiting.turn.set_exception(verdict)
            verdict = Verdict.NOT_NEEDED
        tenant = pool.of(tenant_id)
        pool.none_free = verdict is Verdict.ALL_TAKEN
        if verdict <= Verdict.ALL_TAKEN:
            tenant.at_once = 1
            return
        tenant.at_once = min(2 * tenant.at_once, _MOST_AT_ONCE)
        pool.leave_line(tenant_id, waiting)
        if not waiting.turn.done():
            waiting.turn.set_result(None)
        pool.freed.set()

    async def _refusal(self, pool_name: str, wait_s: float, reason: str, *, held_back: bool = True) -> Problem:
        """Return the Problem for a request that finds no place in time, after holding it back for a moment."""
        REFUSED.labels(pool_name, reason).inc()
        seconds = retry_after_s(wait_s, jitter=self._jitter)
        if held_back:
            await self.hold_back()
        return overloaded(seconds)


def overloaded(seconds: int) -> Problem:
    """Return Problem(503) for work that could not be done in time; a place is expected after so many seconds."""
    detail = f"More is asked than can be answered in time; send this again in {seconds} s."
    return Problem(503, "overloaded", detail, headers={"Retry-After": str(seconds)})
