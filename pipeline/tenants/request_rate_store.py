"""The tenants' token buckets in Redis: shared by all gateways, by Redis' own clock."""

import asyncio
from collections import defaultdict
from typing import Final

import redis.asyncio
from redis.exceptions import RedisError

from pipeline.errors import StoreUnavailable
from pipeline.records import TenantId
from pipeline.tenants.request_buckets import BucketReply, Rate

# KEYS[1]: the bucket. ARGV: requests a minute, burst, tokens to take. A bucket is the time at which it will be full again; a
# full one need not be kept.
_TAKE = """
local rate, burst, wanted = tonumber(ARGV[1]) / 60, tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
local left = math.max(0, burst - math.max(0, tonumber(redis.call('GET', KEYS[1]) or now) - now) * rate)
local taken = math.min(wanted, math.floor(left))
left = left - taken
local empty_s = (burst - left) / rate
redis.call('SET', KEYS[1], string.format('%.6f', now + empty_s), 'EX', math.ceil(empty_s) + 1)
local wait = 0
if left < 1 then wait = (1 - left) / rate end
return {taken, math.floor(left), string.format('%.3f', wait)}
"""

_PATIENCE_S: Final = 1.0  # for all of a message to Redis: a request waits for it, and no limit applies without a reply

_Bucket = tuple[str, Rate]


class RequestRates:
    """Every tenant's bucket. Used on the event loop.

    Requests that come while a message to Redis is under way share the next one: a client of redis-py hands out its
    connections one by one, which takes a turn of the event loop each, and a busy loop has 20 turns a second.
    """

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client
        self._take = client.register_script(_TAKE)
        self._waiting: defaultdict[_Bucket, list[asyncio.Future[BucketReply]]] = defaultdict(list)
        self._sender: asyncio.Task[None] | None = None

    async def take(self, tenant_id: TenantId, rate: Rate) -> BucketReply:
        """Take one token from the tenant's bucket. Raises StoreUnavailable."""
        return await self.take_named(f"{tenant_id}:requests", rate)

    async def take_named(self, name: str, rate: Rate) -> BucketReply:
        """Take one token from the bucket under this key of Redis. Raises StoreUnavailable."""
        reply: asyncio.Future[BucketReply] = asyncio.get_running_loop().create_future()
        self._waiting[name, rate].append(reply)
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send())
        return await reply

    async def _send(self) -> None:
        """Take the tokens that are waited for, until nobody waits."""
        while self._waiting:
            buckets, self._waiting = self._waiting, defaultdict(list)
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    replies = await self._taken(buckets)
                self._give(buckets, replies)
            except (RedisError, OSError, TimeoutError) as error:
                for reply in (reply for waiting in buckets.values() for reply in waiting if not reply.done()):
                    reply.set_exception(StoreUnavailable(f"Redis: {type(error).__name__}"))
            finally:  # after any other error nobody may wait for ever
                for reply in (reply for waiting in buckets.values() for reply in waiting):
                    reply.cancel()

    @staticmethod
    def _give(buckets: dict[_Bucket, list[asyncio.Future[BucketReply]]], replies: list[tuple[int, int, bytes]]) -> None:
        """Give each of those who wait its reply, as if they had come one after another."""
        for waiting, (taken, left, wait_s) in zip(buckets.values(), replies, strict=True):
            for number, reply in enumerate(waiting, start=1):
                if not reply.done():  # its request may have ended
                    left_then = int(left) + max(0, int(taken) - number)
                    reply.set_result(BucketReply(admitted=number <= taken, left=left_then, wait_s=float(wait_s)))

    async def _taken(self, buckets: dict[_Bucket, list[asyncio.Future[BucketReply]]]) -> list[tuple[int, int, bytes]]:
        """Return the reply of Redis for each bucket. Raises the errors of its client."""
        calls = [
            ([f"{name}:full"], [rate.per_minute, rate.burst, len(waiting)]) for (name, rate), waiting in buckets.items()
        ]
        if len(calls) == 1:  # a pipeline asks first whether Redis knows the script
            return [await self._take(*calls[0])]
        async with self._client.pipeline(transaction=False) as pipeline:
            for keys, args in calls:
                await self._take(keys, args, client=pipeline)
            replies: list[tuple[int, int, bytes]] = await pipeline.execute()
        return replies
