"""The tenants' token buckets in Redis: shared by all gateways, by Redis' own clock."""

import redis.asyncio
from redis.exceptions import RedisError

from pipeline.errors import StoreUnavailable
from pipeline.records import TenantId
from pipeline.tenants.request_buckets import BucketReply, Rate

# KEYS[1]: the bucket. ARGV: requests a minute, burst. An untouched bucket is full, so a bucket that would be full
# again need not be kept.
_TAKE = """
local rate, burst = tonumber(ARGV[1]) / 60, tonumber(ARGV[2])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
local kept = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = burst
if kept[1] then left = math.min(burst, tonumber(kept[1]) + math.max(0, now - tonumber(kept[2])) * rate) end
local admitted = 0
if left >= 1 then left = left - 1; admitted = 1 end
redis.call('HSET', KEYS[1], 'left', string.format('%.6f', left), 'at', string.format('%.6f', now))
redis.call('EXPIRE', KEYS[1], math.ceil((burst - left) / rate) + 1)
local wait = 0
if left < 1 then wait = (1 - left) / rate end
return {admitted, math.floor(left), string.format('%.3f', wait)}
"""


class RequestRates:
    """Every tenant's bucket."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._take = client.register_script(_TAKE)

    async def take(self, tenant_id: TenantId, rate: Rate) -> BucketReply:
        """Take one token from the tenant's bucket. Raises StoreUnavailable."""
        return await self.take_named(f"{tenant_id}:requests", rate)

    async def take_named(self, name: str, rate: Rate) -> BucketReply:
        """Take one token from the bucket under this key of Redis. Raises StoreUnavailable."""
        try:
            admitted, left, wait_s = await self._take(keys=[name], args=[rate.per_minute, rate.burst])
        except (RedisError, OSError, TimeoutError) as error:
            raise StoreUnavailable(f"Redis: {type(error).__name__}") from error
        return BucketReply(admitted=bool(admitted), left=int(left), wait_s=float(wait_s))
