"""Wait for queries and jobs: one Redis subscriber per process wakes the waiters of a name."""

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain
from typing import Protocol, TypeVar

import redis.asyncio
import structlog
from redis.exceptions import RedisError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from api_gateway.http.problems import Problem
from pipeline.database.redis_connections import until_handed_over
from pipeline.query.wake_names import WAKE_CHANNEL, read_message

log = structlog.get_logger(__name__)

T = TypeVar("T")

LOOK_AGAIN_S = 1.0  # while Redis is away, and at first
TRUSTED_S = 5.0  # while Redis is connected: the cost of a message that was never sent
_AFTER_ALARM_S = 0.005  # until the next read, then twice as long each time
MOST_WAITERS = 10_000
_SHARE = 4  # a tenant may use a fourth of the places
_LISTEN_S = 2.0  # a silent connection is pinged this often: a dead one has answers come at their deadlines
_BACKOFF_S = (0.05, 0.2, 0.5, 1.0, 2.0)
_SETTLES_S = _BACKOFF_S[-1] + 0.5  # until each gateway is connected and has opened again what Redis lost


class Waiter:
    """One waiter of a name. Waking it twice, or before it waits, is harmless. ``brought``: the answer that the message
    brought which woke it, as it is stored, or None."""

    __slots__ = ("_woken", "brought")

    def __init__(self) -> None:
        self._woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.brought: bytes | None = None

    def wake(self, answer: bytes | None = None) -> None:
        """Wake the waiter, with the answer that it waits for if the message brought it."""
        self.brought = answer or self.brought
        self.look_again()

    def look_again(self) -> None:
        """Wake the waiter."""
        if not self._woken.done():
            self._woken.set_result(None)

    async def sleep(self, seconds: float, gone: asyncio.Future[None]) -> None:
        """Sleep until woken, until ``gone`` is done, or until the time is over."""
        await asyncio.wait({self._woken, gone}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        if self._woken.done():
            self._woken = asyncio.get_running_loop().create_future()


class Listener(Protocol):
    """An object that works when it is woken, instead of waiting."""

    def wake(self, _answer: bytes | None = None, /) -> None:
        """Do what is to be done, perhaps with the answer that the message brought."""

    def look_again(self) -> None:
        """Do what is to be done after messages may have been missed."""


class Callback:
    """The listener that calls a function."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def wake(self, _answer: bytes | None = None, /) -> None:
        """Call the function."""
        self._callback()

    def look_again(self) -> None:
        """Call the function."""
        self._callback()


class Wakes:
    """All waiters of this process, by their names on the wake channels. ``own_channel``: the one of this process alone."""

    def __init__(self, own_channel: str = "", *, most_waiters: int = MOST_WAITERS) -> None:
        self.own_channel = own_channel
        self._waiters: dict[str, set[Waiter | Listener]] = {}
        self._by_tenant: Counter[str] = Counter()
        self._count = 0
        self._most_waiters = most_waiters
        self._released = False
        self.listening = False  # whether the subscription works; if not, each waiter polls
        self._settles_at = math.inf

    @property
    def released(self) -> bool:
        """Whether all waiting has ended because the process is stopping."""
        return self._released

    @property
    def is_settled(self) -> bool:
        """Whether Redis has been there for so long that what it has lost by a failover is back."""
        return self.listening and asyncio.get_running_loop().time() > self._settles_at

    @property
    def count(self) -> int:
        """The number of waiters."""
        return self._count

    @contextmanager
    def watch(self, name: str) -> Iterator[Waiter]:
        """Register a waiter for ``name``, which begins with the tenant. Watch first and publish then, and no message is
        missed.

        Raises Problem(503) when too many wait already, and Problem(429) when too many of the tenant do, so that one
        tenant's long polls do not block the others.
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
        self.add(name, waiter)
        try:
            yield waiter
        finally:
            self.discard(name, waiter)
            self._count -= 1
            self._by_tenant[tenant] -= 1
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]

    def watch_for(self, name: str, *, seconds: float) -> AbstractContextManager[Waiter | None]:
        """Return ``watch`` for a caller that waits, and a null context otherwise, which takes no place and is never
        refused. Raises Problem(503) and Problem(429)."""
        return self.watch(name) if seconds > 0 else nullcontext()

    @contextmanager
    def on_wake(self, name: str, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback`` whenever the name is announced, and when all waiting ends."""
        waiter = Callback(callback)
        self.add(name, waiter)
        try:
            yield
        finally:
            self.discard(name, waiter)

    def add(self, name: str, waiter: Waiter | Listener) -> None:
        """Wake ``waiter`` for this name from now on."""
        self._waiters.setdefault(name, set()).add(waiter)

    def discard(self, name: str, waiter: Waiter | Listener) -> None:
        """Stop waking ``waiter`` for this name; do nothing if it is not registered."""
        waiters = self._waiters.get(name)
        if waiters is not None:
            waiters.discard(waiter)
            if not waiters:
                del self._waiters[name]

    def wake(self, name: str, answer: bytes | None = None) -> None:
        """Wake the waiters of this name. ``answer``: what they wait for, as it is stored."""
        for waiter in tuple(self._waiters.get(name, ())):
            waiter.wake(answer)

    def is_awaited(self, name: str) -> bool:
        """Return whether a request waits for the name."""
        return any(isinstance(waiter, Waiter) for waiter in self._waiters.get(name, ()))

    def wake_all(self) -> None:
        """Have all waiters read again: messages may have been missed."""
        for waiter in self._all():
            waiter.look_again()

    def _all(self) -> list[Waiter | Listener]:
        return list(chain.from_iterable(self._waiters.values()))

    def release(self) -> None:
        """End all waiting permanently: the process is stopping."""
        self._released = True
        for waiter in self._all():
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
            if look_first and (value := await look_in_time()) is not None:
                return value
            while not self._released and (now := loop.time()) < ends_at:
                if now >= alarm_at:
                    alarm_at, pause_s = math.inf, _AFTER_ALARM_S
                await waiter.sleep(min(now + pause_s, ends_at, alarm_at) - now, gone)
                pause_s = min(2 * pause_s, TRUSTED_S if self.listening else LOOK_AGAIN_S)
                if gone.done():
                    raise ClientDisconnect
                if (value := await look_in_time()) is not None:
                    return value
            return None
        finally:
            gone.cancel()

    async def listen(self, client: redis.asyncio.Redis) -> None:
        """Forward messages of the wake channels, forever; reconnect whenever the connection is lost."""
        failures = 0
        while True:
            try:
                async with client.pubsub() as pubsub:
                    async with asyncio.timeout(_LISTEN_S):  # the login to a frozen Redis has no limit of its own
                        await pubsub.subscribe(WAKE_CHANNEL, *filter(None, [self.own_channel]))
                    self.listening = True
                    self._settles_at = asyncio.get_running_loop().time() + (_SETTLES_S if failures else 0.0)
                    self.wake_all()
                    if failures:
                        log.info("wake_channel_restored", failures=failures)
                    failures = 0
                    await self._forward_until_handed_over(pubsub)
            except (RedisError, OSError, TimeoutError) as error:
                self.listening = False
                delay = _BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)]
                if not failures:
                    log.warning("wake_channel_lost", error=type(error).__name__)
                    self.wake_all()  # queries under way are answered without Redis
                failures += 1
                await asyncio.sleep(delay)

    async def _forward_until_handed_over(self, pubsub: redis.asyncio.client.PubSub) -> None:
        ends = [asyncio.ensure_future(self._forward(pubsub)), asyncio.ensure_future(until_handed_over(pubsub))]
        try:
            ended, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
            raise ConnectionError("another server is the primary")
        finally:
            for each in ends:
                each.cancel()

    async def _forward(self, pubsub: redis.asyncio.client.PubSub) -> None:
        pinged = False
        while True:
            message = await pubsub.get_message(timeout=_LISTEN_S)
            if message is not None:
                pinged = False
                if message["type"] == "message":
                    self.wake(*read_message(message["data"]))
            elif pinged:
                raise ConnectionError("no answer to a ping")
            else:
                pinged = True
                await pubsub.ping()


async def stays_connected() -> Message:
    """Never return: the ``receive`` of a request whose disconnection is noticed elsewhere."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


async def disconnected(receive: Receive) -> None:
    """Return once the client has disconnected; the request's body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
