"""The memory of Redis that a tenant's queries and answers occupy, and the limit on it.

The scripts that write a query count its bytes: an estimate when it is opened, the real number when it is answered. The
account is a hash of each tenant: for each slot of time the bytes that expire in it, so it shrinks as keys expire without
another write. A limit is the installation's quota and never more than a share of the free memory: where several fill
Redis, the largest are refused first, and space remains for the others.
"""

from typing import Final

import redis

from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import LIFETIME, RedisMemory
from pipeline.errors import QuotaExceeded
from pipeline.records import TenantId

QUOTA: Final = "answer_bytes"

LEAST_KEPT_S: Final = 60  # seconds for which an answer can be fetched, however full Redis is

_SHARE_OF_FREE: Final = 0.5  # one tenant takes a third of the free memory at most, two take a half together
_LONGEST_WAIT_S: Final = 60  # of a Retry-After: answers of other queries may expire before what is counted here

# Functions of scripts that open a query. A slot collects the bytes of queries that end about the same time, a sixteenth of the
# lifetime at most. `charge` returns slot and bytes in the form that `discharge` and `recharge` take.
ACCOUNT: Final = f"""{LIFETIME}
local clock = redis.call('TIME')
local now = tonumber(clock[1])

local function used_of(account)
  local sum, slots, fields = 0, {{}}, redis.call('HGETALL', account)
  for index = 1, #fields, 2 do
    local slot, bytes = tonumber(fields[index]), tonumber(fields[index + 1])
    if slot <= now then
      redis.call('HDEL', account, fields[index])
    else
      sum = sum + bytes
      slots[#slots + 1] = {{slot, bytes}}
    end
  end
  return sum, slots
end

local function slot_after(seconds)
  local width = 1
  while width * 32 < seconds do width = width * 2 end
  return (math.floor((now + seconds) / width) + 1) * width
end

local function charge(account, seconds, bytes)
  local slot = slot_after(seconds)
  local is_new = redis.call('HINCRBY', account, slot, bytes) == bytes
  if is_new and redis.call('TTL', account) < slot - now then redis.call('EXPIREAT', account, slot) end
  return slot .. ':' .. bytes
end

local function wait_for(slots, excess)
  table.sort(slots, function(one, other) return one[1] < other[1] end)
  for _, slot in ipairs(slots) do
    excess = excess - slot[2]
    if excess <= 0 then return slot[1] - now end
  end
  return {_LONGEST_WAIT_S}
end

local function fill(share, used, limit)
  if limit > 0 then return math.max(share, used / limit) end
  return share
end
"""

# Functions of scripts that find a query, so that its slot has not ended.
CHARGED: Final = """
local function discharge(account, charged)
  local slot, bytes = string.match(charged or '', '^(%d+):(%d+)$')
  if not slot then return end
  -- A full Redis refuses the new number: then the account is too large until the slot ends.
  local left = redis.pcall('HINCRBY', account, slot, -bytes)
  if type(left) == 'number' and left <= 0 then redis.call('HDEL', account, slot) end
end

local function recharge(account, charged, bytes)
  local slot, before = string.match(charged or '', '^(%d+):(%d+)$')
  if not slot then return '' end
  redis.call('HINCRBY', account, slot, bytes - before)
  return slot .. ':' .. bytes
end
"""

_USED = f"{ACCOUNT} return (used_of(KEYS[1]))"


def account_key(tenant_id: TenantId) -> str:
    """Return the key of a tenant's account."""
    return f"{tenant_id}:memory"


def answer_limit(memory: RedisMemory, quota: int) -> int:
    """Return the bytes that the queries of one tenant may occupy now, 0 for any number. ``quota`` 0 is no quota."""
    free = memory.free
    if free is None:
        return quota
    share = max(1, int(free * _SHARE_OF_FREE))
    return min(quota, share) if quota else share


def answer_bytes(client: redis.Redis, tenant_id: TenantId) -> int:
    """Return the bytes that a tenant's queries occupy. Raises StoreUnavailable."""
    with redis_errors():
        return int(client.eval(_USED, 1, account_key(tenant_id)))  # type: ignore[arg-type]


def too_many_answers(used: int, limit: int, wait_s: float) -> QuotaExceeded:
    """Return the error of a tenant over its limit. ``wait_s``: until enough of its answers have expired."""
    detail = (
        f"Stored answers of the tenant take {_shown(used)} of the {_shown(limit)} that they may take now; ask again once some"
        " have expired, delete queries that are done, or ask for fewer chunks (top_k)."
    )
    return QuotaExceeded(
        detail,
        code="too_many_answers",
        retry_after_s=min(_LONGEST_WAIT_S, max(1.0, wait_s)),
        quota={"name": QUOTA, "limit": limit, "used": used},
    )


def _shown(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
