"""The answer that a client waits for comes with the message that wakes its gateway; who waits elsewhere is woken as well."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import fakeredis
import orjson
import pytest

from api_gateway.live.ask import await_answer, followed_state
from api_gateway.live.wakes import Wakes, stays_connected
from pipeline.query.compression import is_compressed
from pipeline.query.query_store import Queries
from pipeline.query.request import Query
from pipeline.query.wake_names import WAKE_CHANNEL, own_channel, wake_name
from pipeline.records import TenantId
from tests.support.corpora.queries import query_of

TENANT = TenantId("a")
ANSWERS = [{"text": "Green tea is steeped at 80 degrees."}, {"text": "绿茶用八十度的水冲泡。"}]


class CountedQueries(Queries):
    """Count the reads of a stored answer."""

    reads = 0

    def compressed_answer(self, query_id: Any) -> bytes | None:
        self.reads += 1
        return super().compressed_answer(query_id)


class Side:
    """One gateway at a Redis that it shares with others."""

    def __init__(self, server: fakeredis.FakeServer, name: str) -> None:
        self.wakes = Wakes(own_channel(name))
        self.queries = CountedQueries(fakeredis.FakeRedis(server=server), TENANT, ttl_s=60)
        self.gateway: Any = SimpleNamespace(
            wakes=self.wakes,
            resources=SimpleNamespace(queries=lambda _: self.queries),
            run_or_leave=asyncio.to_thread,
        )

    async def waits(self, query: Query, *, as_stored: bool = False) -> asyncio.Task[bytes | None]:
        """Begin to wait for an answer as a client's request does."""
        caller: Any = SimpleNamespace(gateway=self.gateway, request=SimpleNamespace(receive=stays_connected))
        begun = asyncio.Event()

        async def wait() -> bytes | None:
            with self.wakes.watch(wake_name("query", query.tenant_id, query.query_id)) as waiter:
                begun.set()
                return await await_answer(query, waiter, caller, as_stored=as_stored)

        waiting = asyncio.create_task(wait())
        await begun.wait()
        return waiting


@asynccontextmanager
async def gateways(*names: str) -> AsyncIterator[list[Side]]:
    """Gateways that listen."""
    server = fakeredis.FakeServer()
    sides = [Side(server, name) for name in names]
    clients = [fakeredis.FakeAsyncRedis(server=server) for _ in sides]
    tasks = [asyncio.create_task(side.wakes.listen(client)) for side, client in zip(sides, clients, strict=True)]
    async with asyncio.timeout(5):
        while not all(side.wakes.listening for side in sides):
            await asyncio.sleep(0.005)
    yield sides
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.aclose()


@pytest.mark.parametrize("answer", ANSWERS)
async def it_brings_the_answer_without_a_read(answer):
    query = query_of(tenant_id=TENANT)
    async with gateways("one") as (one,):
        one.queries.open(query, waits=one.wakes.own_channel)
        plain, stored = await one.waits(query), await one.waits(query, as_stored=True)
        one.queries.answer(query, orjson.dumps(answer))
        async with asyncio.timeout(0.9):  # sooner than anybody would look by himself
            assert orjson.loads(await plain or b"") == answer
            assert is_compressed(await stored or b"")
        assert one.queries.reads == 0


async def it_wakes_who_waits_at_another_gateway():
    query = query_of(tenant_id=TENANT)
    async with gateways("one", "other") as (one, other):
        one.queries.open(query, waits=one.wakes.own_channel)
        followed_state(TENANT, query.query_id, other.gateway)
        waiting = await other.waits(query)
        one.queries.answer(query, b'{"found": "\xe7\xbb\xbf"}')
        async with asyncio.timeout(0.9):
            assert await waiting == b'{"found": "\xe7\xbb\xbf"}'
        assert other.queries.reads == 1, "only the gateway that sent it gets the bytes"


@pytest.mark.parametrize(("waits", "size", "told"), [("", 10, "all"), ("own", 10, "own"), ("own", 200_000, "all")])
def it_sends_no_large_answer_and_none_that_nobody_waits_for(waits, size, told):
    redis = fakeredis.FakeRedis()
    channels = {"all": WAKE_CHANNEL, "own": own_channel("g")}
    queries, query = Queries(redis, TENANT, ttl_s=60), query_of(tenant_id=TENANT)
    listener = redis.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(*channels.values())
    for _ in channels:
        listener.get_message(timeout=1)
    queries.open(query, waits=channels["own"] if waits else "")
    queries.answer(query, random.Random(size).randbytes(size))
    messages = list(iter(lambda: listener.get_message(timeout=0.1), None))
    assert [each["channel"].decode() for each in messages] == [channels[told]]
    listener.close()
