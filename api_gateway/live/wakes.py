"""Waiting for queries and jobs: one Redis subscriber per process wakes whoever waits for a name."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import redis.asyncio
import structlog
from redis.exceptions import RedisError
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from api_gateway.http.problems import Problem
from pipeline.query.query_store import WAKE_CHANNEL

log = structlog.get_logger(__name__)

T = TypeVar("T")

LOOK_AGAIN_S = 1.0  # while Redis is away, and at first
TRUSTED_S = 5.0  # while Redis would tell: what a message that was never sent costs at most
_AFTER_ALARM_S = 0.005  # until the next look, then twice as long each time
MOST_WAITERS = 10_000
_SHARE = 4  # a tenant may have a fourth of the places
_LISTEN_S = 15.0  # a silent connection is pinged this often
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0)


class Waiter:
    """One who waits for a name. Waking it twice, or before it waits, does no harm."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Let it look."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def sleep(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Until woken, until ``gone`` is done, or until the time is over."""
        await asyncio.wait({self._woken, gone}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        if self._woken.done():
            self._woken = asyncio.get_running_loop().create_future()


class Bell:
    """Rings whenever its name is said, for someone who does not wait but is kept busy. Not rung by ``wake_all``."""

    __slots__ = ("wake",)

    def __init__(self, ring: Callable[[], object]) -> None:
        self.wake = ring


class Wakes:
    """Everyone who waits in this process, by the name that is said on the wake channel."""

    def __init__(self, *, most_waiters: int = MOST_WAITERS) -> None:
        self._waiters: dict[str, set[Waiter | Bell]] = {}
        self._by_tenant: Counter[str] = Counter()
        self._count = 0
        self._most_waiters = most_waiters
        self._released = False
        self.listening = False  # whether Redis would tell; if not, everyone has to look by himself

    @property
    def released(self) -> bool:
        """Whether all waiting has ended, because the process is about to go."""
        return self._released

    @property
    def count(self) -> int:
        """How many wait now."""
        return self._count

    @contextmanager
    def watch(self, name: str) -> Iterator[Waiter]:
        """Be woken for ``name``, which begins with the tenant, from here on. Watch first, publish then, and nothing can
        be missed.

        Raises Problem 503 when too many wait already, and 429 when too many of the tenant's do: nobody's long polls
        keep others from theirs.
        """
        tenant = name.partition(":")[0]
        if self._count >= self._most_waiters:
            detail = "Too many requests wait for an answer; ask again without waiting."
            raise Problem(503, "too_many_waiters", detail, headers={"Retry-After": "1"})
        if self._by_tenant[tenant] * _SHARE >= self._most_waiters:
            detail = "Too many requests of this tenant wait for an answer; ask again without waiting."
            raise Problem(429, "too_many_waiters", detail, headers={"Retry-After": "1"})
        waiter = Waiter()
        self._count += 1
        self._by_tenant[tenant] += 1
        try:
            with self._listed(name, waiter):
                yield waiter
        finally:
            self._count -= 1
            self._by_tenant[tenant] -= 1
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]

    def watch_for(self, name: str, *, seconds: float) -> AbstractContextManager[Waiter | None]:
        """``watch`` for one who waits, and None for one who does not: it takes no place among those who do, and is not
        refused when there is none. Raises Problem 503 and 429."""
        return self.watch(name) if seconds > 0 else nullcontext()

    @contextmanager
    def bell(self, name: str, ring: Callable[[], object]) -> Iterator[None]:
        """Call ``ring`` whenever the name is said, and when all waiting ends."""
        with self._listed(name, Bell(ring)):
            yield

    @contextmanager
    def _listed(self, name: str, waiter: Waiter | Bell) -> Iterator[None]:
        self.add(name, waiter)
        try:
            yield
        finally:
            self.discard(name, waiter)

    def add(self, name: str, waiter: Waiter | Bell) -> None:
        """Wake ``waiter`` for this name from now on."""
        self._waiters.setdefault(name, set()).add(waiter)

    def discard(self, name: str, waiter: Waiter | Bell) -> None:
        """Stop waking ``waiter`` for this name; do nothing if it is not registered."""
        waiting = self._waiters.get(name)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiters[name]

    def wake(self, name: str) -> None:
        """Wake who waits for this name."""
        for waiter in tuple(self._waiters.get(name, ())):
            waiter.wake()

    def wake_all(self) -> None:
        """Let everyone look for himself: messages may have been missed."""
        for waiter in self._everyone():
            if isinstance(waiter, Waiter):
                waiter.wake()

    def _everyone(self) -> list[Waiter | Bell]:
        return [waiter for waiters in self._waiters.values() for waiter in waiters]

    def release(self) -> None:
        """End all waiting, for good: the process is about to go."""
        self._released = True
        for waiter in self._everyone():
            waiter.wake()

    async def until(
        self,
        waiter: Waiter,
        look: Callable[[], Awaitable[T | None]],
        *,
        seconds: float,
        receive: Receive,
        look_first: bool = True,
        alarm_in_s: float | None = None,
    ) -> T | None:
        """Call ``look`` until it returns a value and return that; return None when ``seconds`` are over.

        Call it when woken, every few seconds, and after ``alarm_in_s``: then often at first, because the clock of the
        observed process may be a little behind this one. When the seconds are over, a hanging call is cancelled, so
        ``look`` must tolerate cancellation. ``receive`` is the request's, after its body was read: raises
        ClientDisconnect if the client has closed its connection.
        """
        loop, pause_s = asyncio.get_running_loop(), LOOK_AGAIN_S
        ends_at = loop.time() + seconds
        alarm_at = math.inf if alarm_in_s is None else loop.time() + alarm_in_s
        gone = asyncio.ensure_future(disconnected(receive))

        async def look_in_time() -> T | None:
            try:
                async with asyncio.timeout_at(ends_at):
                    return await look()
            except TimeoutError:
                return None

        try:
            if look_first and (found := await look_in_time()) is not None:
                return found
            while not self._released and (now := loop.time()) < ends_at:
                if now >= alarm_at:
                    alarm_at, pause_s = math.inf, _AFTER_ALARM_S
                await waiter.sleep(min(now + pause_s, ends_at, alarm_at) - now, gone)
                pause_s = min(2 * pause_s, TRUSTED_S if self.listening else LOOK_AGAIN_S)
                if gone.done():
                    raise ClientDisconnect
                if (found := await look_in_time()) is not None:
                    return found
            return None
        finally:
            gone.cancel()

    async def listen(self, client: redis.asyncio.Redis) -> None:
        """Pass on what is said on the wake channel, for ever; connects again whenever the connection is lost."""
        failures = 0
        while True:
            try:
                async with client.pubsub(ignore_subscribe_messages=True) as pubsub:
                    await pubsub.subscribe(WAKE_CHANNEL)
                    self.listening = True
                    self.wake_all()
                    if failures:
                        log.info("wake_channel_back", failures=failures)
                    failures = 0
                    await self._pass_on(pubsub)
            except (RedisError, OSError, TimeoutError) as error:
                self.listening = False
                delay = _BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]
                if not failures:
                    log.warning("wake_channel_lost", error=type(error).__name__)
                failures += 1
                await asyncio.sleep(delay)

    async def _pass_on(self, pubsub: redis.asyncio.client.PubSub) -> None:
        pinged = False
        while True:
            message = await pubsub.get_message(timeout=_LISTEN_S)
            if message is not None:
                pinged = False
                if message["type"] == "message":
                    self.wake(message["data"].decode())
            elif pinged:
                raise ConnectionError("no answer to a ping")
            else:
                pinged = True
                await pubsub.ping()


async def disconnected(receive: Receive) -> None:
    """Returns once the client is gone; the request's body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
