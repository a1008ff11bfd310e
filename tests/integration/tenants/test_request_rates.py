"""The tenants' buckets in Redis: a burst, then an even rate, and nobody limited while Redis is away."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from pipeline.errors import StoreUnavailable
from pipeline.records import TenantId
from pipeline.tenants.request_buckets import Rate
from pipeline.tenants.request_rate_store import RequestRates

SLOW = Rate(per_minute=60, burst=3)


@pytest.fixture
async def rates(settings):
    client = redis.asyncio.Redis.from_url(settings.redis_url.get_secret_value())
    yield RequestRates(client)
    await client.aclose()


class DescribeABucket:
    async def it_gives_a_burst_and_then_says_how_long_to_wait(self, rates, tenant):
        found = [await rates.take(tenant, SLOW) for _ in range(5)]
        assert [each.admitted for each in found] == [True] * 3 + [False] * 2
        assert [each.left for each in found] == [2, 1, 0, 0, 0]
        assert 0.5 < found[-1].wait_s <= 1.0

    async def it_fills_again(self, rates, tenant):
        quick = Rate(per_minute=1200, burst=1)
        assert (await rates.take(tenant, quick)).admitted
        assert not (await rates.take(tenant, quick)).admitted
        await asyncio.sleep(0.1)
        assert (await rates.take(tenant, quick)).admitted

    async def it_is_one_for_all_who_ask_at_once(self, rates, tenant):
        found = await asyncio.gather(*(rates.take(tenant, Rate(per_minute=1, burst=20)) for _ in range(50)))
        assert sum(each.admitted for each in found) == 20

    async def it_answers_many_at_once_in_few_turns_of_the_event_loop(self, rates, tenant):
        """A busy event loop has 20 turns a second, and 300 clients may ask at once."""
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        await rates.take(tenant, SLOW)
        counting = asyncio.create_task(count())
        await asyncio.gather(*(rates.take(tenant, SLOW) for _ in range(300)))
        counting.cancel()
        assert turns < 100

    async def it_gives_each_of_those_who_ask_at_once_what_is_left_then(self, rates, tenant):
        replies = await asyncio.gather(*(rates.take(tenant, SLOW) for _ in range(5)))
        assert [reply.admitted for reply in replies] == [True] * 3 + [False] * 2
        assert [reply.left for reply in replies] == [2, 1, 0, 0, 0]

    async def it_goes_on_for_others_when_one_has_left(self, rates, tenant):
        leaving = asyncio.create_task(rates.take(tenant, SLOW))
        staying = asyncio.create_task(rates.take(tenant, SLOW))
        await asyncio.sleep(0)
        leaving.cancel()
        assert (await staying).left == 1

    async def it_says_so_when_redis_is_away(self):
        nobody = redis.asyncio.Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)
        with pytest.raises(StoreUnavailable):
            await RequestRates(nobody).take(TenantId("t"), SLOW)
