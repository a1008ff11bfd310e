"""Places of work under way, in Redis: shared by all gateways, and free again by themselves when their time is over.

A place is an entry of its pool's sorted set, with the time of Redis' clock at which it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import redis

from pipeline.database.engines import redis_errors
from pipeline.query.places import Place, Verdict, place_id, pool_key
from pipeline.records import TenantId

_KEY_KEPT_S: Final = 6 * 3600  # longer than any place is held

# Defines take(pool's key, id, seconds, most, time), with the rule of `places.verdict`. A tenant's places are counted only in a
# pool that is half full: before that all of them are within its share. Each call removes some places whose time is over.
TAKE_PLACE = f"""
local function own_of(pool, tenant, after)
  local own = 0
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', pool, after, '+inf')) do
    if string.sub(id, 1, #tenant) == tenant then own = own + 1 end
  end
  return own
end

local function take(pool, id, seconds, most, clock)
  local now = tonumber(clock[1]) + tonumber(clock[2]) / 1e6
  if clock[2] % 50 == 0 then redis.call('ZREMRANGEBYSCORE', pool, '-inf', now) end
  if most > 0 then
    local after = string.format('(%.3f', now)
    local held = redis.call('ZCOUNT', pool, after, '+inf')
    if held >= most then return 0 end
    if 2 * held >= most and own_of(pool, string.match(id, '^.*/'), after) >= most - held then return -1 end
  end
  redis.call('ZADD', pool, string.format('%.3f', now + seconds), id)
  redis.call('EXPIRE', pool, {_KEY_KEPT_S})
  return 1
end
"""

# Gives back the place that a stored query holds. Its field `place` has the key of the pool and the entry.
GIVE_BACK_PLACE = """
local function give_back(place)
  local pool, id = string.match(place or '', '^(%S+) (%S+)$')
  if id then redis.call('ZREM', pool, id) end
end
"""

_TAKE = f"""
{TAKE_PLACE}
return take(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), redis.call('TIME'))
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
        arguments = place_id(tenant_id, work_id), f"{place.left_s:.3f}", str(place.most)
        with redis_errors():
            reply = self._redis.eval(_TAKE, 1, pool_key(place.pool), *arguments)
        return Verdict(int(reply))  # type: ignore[arg-type]

    def give_back(self, tenant_id: TenantId, work_id: str, pool: str) -> None:
        """Give back such a place. Raises StoreUnavailable."""
        with redis_errors():
            self._redis.zrem(pool_key(pool), place_id(tenant_id, work_id))

    def held(self, pools: Sequence[str]) -> dict[str, int]:
        """Return how many places of each pool are held. Raises StoreUnavailable."""
        with redis_errors():
            counts = self._redis.eval(_HELD, len(pools), *map(pool_key, pools))
        return dict(zip(pools, map(int, counts), strict=True))  # type: ignore[arg-type]
