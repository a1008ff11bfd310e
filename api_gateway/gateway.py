"""The objects that routes share: resources, caches, waiters, and threads for blocking calls."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ParamSpec, TypeVar

import redis
from anyio import CapacityLimiter, to_thread
from fastapi import Request

from api_gateway.http.auth import WRONG_KEYS_RATE, Keys, WrongKeys
from api_gateway.live.admission import Admission
from api_gateway.live.computations import Turns
from api_gateway.live.job_feed import Following, JobSource
from api_gateway.live.lane import Lane
from api_gateway.live.query_deadlines import Deadlines
from api_gateway.live.readiness import LiveWorkers, Probes
from api_gateway.live.stale_cache import Configurations, KnownNamespaces, OwnRates
from api_gateway.live.wakes import Wakes
from pipeline.administration.edit_profiles import load_configuration
from pipeline.administration.manage_tenants import principal_of
from pipeline.database.redis_connections import redis_of
from pipeline.database.worker_heartbeats import ProcessSign
from pipeline.errors import Unavailable
from pipeline.garbage import keep_for_good
from pipeline.query.configuration import Configuration, make_assigner
from pipeline.query.keywords import segment
from pipeline.query.places import place_id
from pipeline.query.wake_names import own_channel
from pipeline.records import TenantId
from pipeline.resources import Resources
from pipeline.retrieval.reuse_answer import AnswerCache
from pipeline.settings import Settings
from pipeline.tenants.accounts import Principal
from pipeline.tenants.provider_client import ProviderClient
from workers import dispatch

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 40
HEAVY_THREADS = 4  # for large bodies and deletions, separate from other requests' threads
CALLING_THREADS = 8  # for servers that tenants name: a slow one must not keep other requests from a thread
LOOKING = 4  # queries with a line before them that look for a cached answer at a time
QUICK_TIMEOUT_S = 2.0  # for the short look-ups ahead of a request
SILENT_S = 3.0  # of a store that greets nobody: callers learn at once that nothing was accepted
CACHE_TIMEOUT_S = 0.3  # for the answer cache: waiting longer would cost more than a hit saves


class SharedReads:
    """Share one read per name among concurrent callers. A caller that comes during a read shares the next one, so no
    result is stale."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, name: Hashable, do: Callable[[], Awaitable[T]]) -> T:
        """Return the result of ``do``, called by this or by another caller. Raises the same errors."""
        task = self._next.get(name)
        if task is None:
            task = self._next[name] = asyncio.ensure_future(self._in_turn(name, do))
        result: T = await asyncio.shield(task)
        return result

    async def _in_turn(self, name: Hashable, do: Callable[[], Awaitable[T]]) -> T:
        try:
            while (before := self._running.get(name)) is not None:
                await asyncio.wait({before})
        finally:
            task = self._next.pop(name)
        self._running[name] = task
        try:
            return await do()
        finally:
            del self._running[name]


class Gateway:
    """The shared objects of one gateway process. Made by `create_app`; connects to nothing before it is used. ``resources``
    has the connections for requests, ``quick`` those for short look-ups."""

    def __init__(self, settings: Settings, resources: Resources) -> None:
        self.settings = settings
        self.resources = resources
        self.quick = quick = replace(resources, timeout_s=QUICK_TIMEOUT_S)
        self.sign = ProcessSign(host=settings.host, name="gateway", serves=("gateway",))
        self.wakes = Wakes(own_channel(self.sign.process_id))
        self.shared_reads = SharedReads()
        self.keys = Keys(self._look_up)
        away = self.keys.is_away  # all read from the same MySQL; only the keys tell an outage
        self.provider = None if settings.oidc is None else ProviderClient(settings.oidc)
        self.installation_id: str | None = None  # set when the gateway starts to serve
        self.answer_cache = AnswerCache(replace(resources, timeout_s=CACHE_TIMEOUT_S, reading=True), away=away)
        self.namespaces = KnownNamespaces(self.run, quick, away)
        self.configurations = Configurations(self._configuration, away)
        self.assigner = make_assigner(settings)
        self.probes = Probes(settings, quick)
        self.live_workers = LiveWorkers(self.run, lambda: quick.heartbeats.all())
        self.lane = Lane(
            settings.query_lane_processes,
            run=self.run_or_leave,
            spawn=self.spawn,
            use=resources,
            wake=self.wakes.wake,
        )
        self.admission = Admission(self.live_workers.slots, spawn=self.spawn, usual_s=settings.query_deadline_ms / 1000)
        self.turns = Turns(settings.max_body_bytes, self.admission.hold_back)
        self.looking = asyncio.Semaphore(LOOKING)
        self.deadlines = Deadlines(
            self.wakes,
            self.run_or_leave,
            self.live_workers.unserved,
            resources,
            spawn=self.spawn,
            lane=self.lane,
            ended=lambda query: self.admission.ended(place_id(query.tenant_id, query.query_id)),
        )
        self.following = Following(JobSource(self.run, quick), self.wakes)
        self.broker_redis = _broker_redis(settings)
        self.request_rates = resources.request_rates
        self.wrong_keys = WrongKeys(self.request_rates.take_named, WRONG_KEYS_RATE, proxies=settings.trusted_proxies)
        self.own_rates = OwnRates(self.run, quick, away)
        self._background: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads, self._heavy, self._calling = map(CapacityLimiter, (THREADS, HEAVY_THREADS, CALLING_THREADS))

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function in a thread."""
        return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._threads)

    async def run_or_leave(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a blocking function in a thread, for a caller with a deadline. On cancellation return at once and let
        the call finish."""
        call = partial(function, *args, **kwargs)
        return await to_thread.run_sync(call, limiter=self._threads, abandon_on_cancel=True)

    async def run_heavy(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that may take seconds, in the threads for heavy work."""
        return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._heavy)

    async def run_calling(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that waits for a server of a tenant's choosing, in threads of its own."""
        return await to_thread.run_sync(partial(function, *args, **kwargs), limiter=self._calling)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that continues after the request that started it."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def started(self) -> None:
        """Start the background tasks. Called on the event loop that serves requests, before the first request."""
        self._loop = asyncio.get_running_loop()
        if self.settings.query_lane == "in_process":
            self.lane.start()

    async def warm_up(self) -> None:
        """Load the dictionary of Chinese words, connect to what the first query needs, and exclude all objects loaded so far
        from garbage collection."""
        try:
            await self.run(segment, "预热")
            await asyncio.gather(
                self.run(dispatch.get_ready),
                self.run(self._read_spaces),
                *(self.run(use.warm_up) for use in (self.quick, self.answer_cache.use, self.resources)),
            )
        finally:
            await self.run(keep_for_good)

    def _read_spaces(self) -> None:
        with suppress(Unavailable):
            self.quick.spaces.live()

    def release_soon(self) -> None:
        """End all waiting. May be called from a signal handler."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.wakes.release)

    async def close(self) -> None:
        """Close all connections."""
        await self.following.close()
        await self.lane.close()
        for task in tuple(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        with suppress(Unavailable):
            await to_thread.run_sync(self.quick.heartbeats.withdraw_sign, self.sign)
        await self.resources.async_redis.aclose()
        for resources in (self.resources, self.quick, self.answer_cache.use):
            await to_thread.run_sync(resources.close)
        if self.broker_redis is not None:
            await to_thread.run_sync(self.broker_redis.close)

    async def _configuration(self, tenant_id: TenantId) -> Configuration:
        return await self.run(lambda: load_configuration(tenant_id, self.quick))

    async def _look_up(self, api_key: str) -> Principal | None:
        principal = await self.run(principal_of, api_key, self.quick)
        if principal is not None:
            self.spawn(self.configurations.keep(principal.tenant_id))
        return principal


def _broker_redis(settings: Settings) -> redis.Redis | None:
    """Return a client of the broker if it is a Redis, not connected yet; else None."""
    if not settings.has_redis_as_broker:
        return None
    return redis_of(settings.broker, socket_timeout=0.5, socket_connect_timeout=0.5)


def gateway_of(request: Request) -> Gateway:
    """Return the gateway that serves this request."""
    gateway: Gateway = request.app.state.gateway
    return gateway
