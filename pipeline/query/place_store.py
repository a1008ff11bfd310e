"""Places of work under way, in Redis: shared by all gateways, and free again by themselves when their time is over.

A place is an entry of two sorted sets, of its pool and of its tenant, with the time of Redis' clock at which it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import redis

from pipeline.database.engines import redis_errors
from pipeline.query.places import Place, Verdict, own_key, place_id, pool_key
from pipeline.records import TenantId

# Defines take(pool's key, tenant's key, id, seconds, most), with the rule of `places.verdict`.
TAKE_PLACE = """
local function take(all, own, id, seconds, most)
  local clock = redis.call('TIME')
  local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
  redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
  redis.call('ZREMRANGEBYSCORE', own, '-inf', now)
  if most > 0 then
    local held = redis.call('ZCARD', all)
    if held >= most then return 0 end
    if redis.call('ZCARD', own) >= most - held then return -1 end
  end
  for _, key in ipairs({all, own}) do
    redis.call('ZADD', key, string.format('%.3f', now + seconds), id)
    if redis.call('TTL', key) <= seconds then redis.call('EXPIRE', key, math.ceil(seconds) + 1) end
  end
  return 1
end
"""

# Gives back the place that a stored query holds. Its field `place` has both keys and the entry.
GIVE_BACK_PLACE = """
local function give_back(query)
  local all, own, id = string.match(redis.call('HGET', query, 'place') or '', '(%S*) (%S*) (%S*)')
  if id then redis.call('ZREM', all, id); redis.call('ZREM', own, id) end
end
"""

_TAKE = f"""
{TAKE_PLACE}
return take(KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
"""

_HELD = """
local clock = redis.call('TIME')
local after = string.format('(%d.%06d', clock[1], clock[2])
local counts = {}
for index, key in ipairs(KEYS) do counts[index] = redis.call('ZCOUNT', key, after, '+inf') end
return counts
"""


class Places:
    """The places of every pool."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def take(self, tenant_id: TenantId, work_id: str, place: Place) -> Verdict:
        """Take a place for a piece of work that is no query. Raises StoreUnavailable."""
        keys = pool_key(place.pool), own_key(tenant_id, place.pool)
        with redis_errors():
            reply = self._redis.eval(
                _TAKE, 2, *keys, place_id(tenant_id, work_id), f"{place.left_s:.3f}", str(place.most)
            )
        return Verdict(int(reply))  # type: ignore[arg-type]

    def give_back(self, tenant_id: TenantId, work_id: str, pool: str) -> None:
        """Give back such a place. Raises StoreUnavailable."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            for key in (pool_key(pool), own_key(tenant_id, pool)):
                pipe.zrem(key, place_id(tenant_id, work_id))
            pipe.execute()

    def held(self, pools: Sequence[str]) -> dict[str, int]:
        """Return how many places of each pool are held. Raises StoreUnavailable."""
        with redis_errors():
            counts = self._redis.eval(_HELD, len(pools), *map(pool_key, pools))
        return dict(zip(pools, map(int, counts), strict=True))  # type: ignore[arg-type]
