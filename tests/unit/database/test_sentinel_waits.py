"""A sentinel that hangs is asked once, then the next one, by a client of threads as by one of an event loop; and a server that
hands over is left although it still answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from pipeline.database.redis_connections import async_redis_of, redis_of
from tests.support.servers.clusters import NAME
from tests.support.servers.lying_sentinel import lying_sentinel
from tests.support.servers.proxy import Proxy

_WAITS = {"socket_timeout": 0.1, "socket_connect_timeout": 0.1}


async def _ping_in_loop(url: str, freeze: Callable[[], None]) -> None:
    client = async_redis_of(url, **_WAITS)
    pool: Any = client.connection_pool
    with suppress(redis.RedisError):
        await client.ping()
    freeze()
    with suppress(redis.RedisError):
        await client.ping()
    for each in (client, *pool.sentinel_manager.sentinels):
        await each.aclose()


def _ping(url: str, freeze: Callable[[], None]) -> None:
    client = redis_of(url, **_WAITS)
    pool: Any = client.connection_pool
    with suppress(redis.RedisError):
        client.ping()
    freeze()
    with suppress(redis.RedisError):
        client.ping()
    for each in (client, *pool.sentinel_manager.sentinels):
        each.close()


class DescribeASentinelThatHangs:
    @pytest.mark.parametrize("is_async", [False, True], ids=["threads", "event loop"])
    def it_is_asked_once_before_the_next_one(self, is_async: bool):
        """It was connected before. The primary server hangs as well: the kernel takes connections that nobody greets."""
        with (
            socket.create_server(("127.0.0.1", 0)) as primary,
            lying_sentinel(primary.getsockname()[1]) as sentinel,
            Proxy("127.0.0.1", sentinel.port) as first,
            lying_sentinel(primary.getsockname()[1]) as second,
        ):
            url = f"redis+sentinel://:p@127.0.0.1:{first.port},127.0.0.1:{second.port}/{NAME}/0"
            asyncio.run(_ping_in_loop(url, first.freeze)) if is_async else _ping(url, first.freeze)
            assert first.connected == 1


class DescribeAServerThatHandsOver:
    def it_is_left_within_a_second_although_it_still_answers(self, monkeypatch: pytest.MonkeyPatch):
        moment = [100.0]
        monkeypatch.setattr("pipeline.database.redis_connections.time", SimpleNamespace(monotonic=lambda: moment[0]))
        with (
            lying_sentinel(0) as former,  # which answers commands, as any server does
            lying_sentinel(0) as successor,
            Proxy("127.0.0.1", former.port) as to_former,
            Proxy("127.0.0.1", successor.port) as to_successor,
            lying_sentinel(to_former.port) as sentinel,
            closing(redis_of(f"redis+sentinel://:p@127.0.0.1:{sentinel.port}/{NAME}/0")) as client,
        ):
            client.ping()
            sentinel.names = to_successor.port
            moment[0] += 0.9
            client.ping()
            assert (to_former.connected, to_successor.connected) == (1, 0)
            moment[0] += 0.2
            client.ping()
            assert (to_former.connected, to_successor.connected) == (0, 1)

    def it_is_kept_while_no_sentinel_answers(self, monkeypatch: pytest.MonkeyPatch):
        moment = [100.0]
        monkeypatch.setattr("pipeline.database.redis_connections.time", SimpleNamespace(monotonic=lambda: moment[0]))
        with (
            lying_sentinel(0) as server,
            lying_sentinel(server.port) as sentinel,
            Proxy("127.0.0.1", sentinel.port) as to_sentinel,
            closing(redis_of(f"redis+sentinel://:p@127.0.0.1:{to_sentinel.port}/{NAME}/0")) as client,
        ):
            client.ping()
            to_sentinel.cut()
            for passed_s in (1.1, 1.1, 8.0):
                moment[0] += passed_s
                assert client.ping()
