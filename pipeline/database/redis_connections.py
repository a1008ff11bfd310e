"""Clients of a Redis, named by its address or by the sentinels that watch it.

Sentinels are asked for the primary server whenever a connection is made, and every second while connections are used: a server
that hands its role over takes writes for eight seconds more, and then throws them away. A server that turns out to be a replica
closes its connections on this side, and the next one goes to its successor (`redis.sentinel`).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

import redis
import redis.asyncio
import redis.asyncio.client
import redis.asyncio.retry
import redis.asyncio.sentinel
import redis.sentinel
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from pipeline.store_urls import SentinelUrl, sentinel_url

REDIS_IDLE_S: Final = 60.0
_LOST_AFTER_S: Final = 4  # a worker's connection that hears nothing
_SENTINEL_S: Final = 0.5  # for a sentinel's answer; the others are asked after it
_ASKS_EVERY_S: Final = 1.0  # whether the primary server is still the same
_ASKS_AGAIN_S: Final = 10.0  # after no sentinel answered: without them no server hands over
_BRIEF_READ: Final = 4096  # bytes


def redis_of(url: str, *, idle_s: float = REDIS_IDLE_S, **options: Any) -> redis.Redis:
    """Return a client of the Redis of a URL, with the options of redis-py's connections. ``idle_s``: after that long an
    unused connection is closed."""
    named = sentinel_url(url)
    if named is None:
        return _ScriptedRedis.from_pool(_Pool.from_url(url, idle_s=idle_s, **options))
    sentinels = redis.sentinel.Sentinel(named.nodes, sentinel_kwargs=_of_sentinels(named))  # type: ignore[no-untyped-call]
    of_server = _of_server(named)
    connection = WatchedTlsConnection if of_server.pop("ssl") else WatchedConnection
    pool = _SentinelPool(named.name, sentinels, idle_s=idle_s, connection_class=connection, **(of_server | options))
    return _ScriptedRedis.from_pool(pool)


@contextmanager
def brief_redis(url: str, *, timeout_s: float = 1.0) -> Iterator[redis.Redis]:
    """Provide a client for a few commands on a new connection, without a second try.

    It reads into a small buffer: redis-py leaves the parser of every closed connection in a cycle, and what a gateway reads
    for a scrape makes so few objects that the collector came after 80 MB of buffers of the usual 64 KB.
    """
    waits = {"socket_timeout": timeout_s, "socket_connect_timeout": timeout_s}
    with closing(redis_of(url, retry=Retry(NoBackoff(), 0), socket_read_size=_BRIEF_READ, **waits)) as client:
        yield client


def async_redis_of(url: str, **options: Any) -> redis.asyncio.Redis:
    """Return a client for an event loop, whose owner closes it."""
    named = sentinel_url(url)
    if named is None:
        client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url, **options)
        return client
    account = _of_sentinels(named, is_async=True)
    sentinels = redis.asyncio.sentinel.Sentinel(named.nodes, sentinel_kwargs=account)  # type: ignore[no-untyped-call]
    watched: redis.asyncio.Redis = sentinels.master_for(named.name, **(_of_server(named) | options))
    return watched


async def until_handed_over(subscription: redis.asyncio.client.PubSub) -> None:
    """Return once sentinels name another primary server than the one of this subscription; without sentinels, never."""
    pool: Any = subscription.connection_pool
    is_named = isinstance(pool, redis.asyncio.sentinel.SentinelConnectionPool)
    while True:
        await asyncio.sleep(_ASKS_EVERY_S if is_named else math.inf)
        with suppress(redis.RedisError):
            address = await pool.get_master_address()
            connection: Any = subscription.connection
            if connection is not None and address != (connection.host, connection.port):
                return


def sentinel_options(url: str) -> dict[str, Any]:
    """Return the options of kombu's transport for a broker that sentinels name; none for another one."""
    named = sentinel_url(url)
    if named is None:
        return {}
    return {
        "master_name": named.name,
        "sentinel_kwargs": _of_sentinels(named),
        "health_check_interval": _LOST_AFTER_S,  # kombu's 25 s would keep workers for most of a minute at a frozen server
    }


def _of_server(named: SentinelUrl) -> dict[str, Any]:
    """Return the options of connections to the server that sentinels name."""
    options: dict[str, Any] = parse_url(named.server)  # type: ignore[no-untyped-call]
    is_tls = options.pop("connection_class", None) is not None
    return {name: value for name, value in options.items() if name not in ("host", "port")} | {"ssl": is_tls}


def _of_sentinels(named: SentinelUrl, *, is_async: bool = False) -> dict[str, Any]:
    """Return the options of connections to the sentinels: TLS as the server has it, an account of their own."""
    tls = {name: value for name, value in _of_server(named).items() if name.startswith("ssl")}
    account = {"username": named.username, "password": named.password}
    # By default redis-py asks a sentinel four times, with pauses of up to four seconds, before the next one.
    once = (redis.asyncio.retry.Retry if is_async else Retry)(NoBackoff(), 0)
    waits = {"socket_timeout": _SENTINEL_S, "socket_connect_timeout": _SENTINEL_S}
    return tls | account | waits | {"retry": once}


class _ScriptedRedis(redis.Redis):
    """A client that names a script by its digest, and sends its text only to a server that does not have it."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any:
        """Run a script."""
        try:
            digest = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()  # as Redis names scripts
            return self.evalsha(digest, numkeys, *keys_and_args)
        except redis.exceptions.NoScriptError:
            return super().eval(script, numkeys, *keys_and_args)


class _Pool(redis.ConnectionPool):
    """A pool that closes connections which were idle for a while. redis-py keeps as many as were ever in use at once."""

    def __init__(self, *arguments: Any, idle_s: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._idle_s = idle_s
        self._released_at: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        self._looked_at = time.monotonic()

    def release(self, connection: Any) -> None:
        """Return a connection to the pool, and now and then disconnect the idle ones, which connect again when used."""
        super().release(connection)
        moment = time.monotonic()
        with self._lock:
            self._released_at[connection] = moment
            if moment - self._looked_at < self._idle_s / 2:
                return
            self._looked_at = moment
            for idle in self._available_connections:
                if moment - self._released_at.get(idle, moment) > self._idle_s:
                    idle.disconnect()


class WatchedConnection(redis.sentinel.SentinelManagedConnection):
    """A connection to a server that sentinels name, closed after an error. redis-py leaves it open: after a timeout the next
    command would read the reply to the one before, and go on waiting for a server that hangs."""

    def read_response(self, disable_decoding: bool = False, **options: Any) -> Any:
        """Read one reply. After a timeout the unused connections are closed too, or each would wait for the same server.
        Raises redis.RedisError."""
        try:
            return super().read_response(disable_decoding, **{"disconnect_on_error": True, **options})
        except redis.TimeoutError:
            pool = self.connection_pool.connection_pool_ref()  # redis-py gives its connections a proxy of the pool
            if pool is not None:
                pool.disconnect(inuse_connections=False)
            raise


class WatchedTlsConnection(WatchedConnection, redis.sentinel.SentinelManagedSSLConnection):
    """The same over TLS."""


class _SentinelPool(_Pool, redis.sentinel.SentinelConnectionPool):
    """The same for a server that sentinels name."""

    _asks_at = 0.0

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """Return a connection to the server that the sentinels call primary, or called so a second ago."""
        moment = time.monotonic()
        with self._lock:
            is_due = moment >= self._asks_at
            if is_due:
                self._asks_at = moment + _ASKS_EVERY_S
        if is_due:
            try:
                self.get_master_address()  # type: ignore[no-untyped-call]  # closes connections to another one
            except redis.RedisError:
                self._asks_at = moment + _ASKS_AGAIN_S
        return super().get_connection(*arguments, **options)
