"""A Redis cache of models' results for queries: one key per step, named by tenant and a digest of its inputs, never the
query. An index by age bounds each tenant's number. Without Redis there are none."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Final

import redis
import structlog

from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import UNLIMITED, ReadMemory
from pipeline.outages import tolerate_outage
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

_MOST: Final = 10_000  # results of one tenant, about half a kilobyte each
_LEAST: Final = 100  # while Redis is nearly full
_LONGEST_BYTES: Final = 2_048  # of one result; a longer one is not cached

# Keeps one result, notes its age, and drops the oldest beyond the bound with their entries in the index.
_PUT = """
redis.call('SET', ARGV[1] .. ARGV[2], ARGV[3], 'EX', ARGV[4])
redis.call('ZADD', KEYS[1], ARGV[5], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[5] - ARGV[4])
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[6])
if over > 0 then
  over = math.min(over, 1000)
  for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, over - 1)) do redis.call('DEL', ARGV[1] .. name) end
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
end
return over
"""


class Understandings:
    """One tenant's cached results, fewer as ``memory`` fills."""

    def __init__(
        self,
        client: redis.Redis,
        tenant_id: TenantId,
        *,
        ttl_s: int = 3600,
        most: int = _MOST,
        memory: ReadMemory = lambda: UNLIMITED,
    ) -> None:
        self._memory = memory
        self._redis = client
        self._prefix = f"{tenant_id}:understood:"
        self._index = f"{tenant_id}:understood"
        self._ttl_s = ttl_s
        self._most = most

    def get(self, digests: Sequence[str]) -> dict[str, bytes]:
        """Return the cached results by digest."""
        if not digests:
            return {}
        with tolerate_outage(log.warning, "understanding_cache_unavailable"):
            with redis_errors():
                values: list[bytes | None] = self._redis.mget([self._prefix + digest for digest in digests])  # type: ignore[assignment]
            return {digest: value for digest, value in zip(digests, values, strict=True) if value is not None}
        return {}

    def put(self, results: Mapping[str, bytes]) -> None:
        """Cache results by digest."""
        with tolerate_outage(log.warning, "understanding_cache_unavailable"):
            most = self._memory().scaled(self._most, _LEAST)
            for digest, value in results.items():
                if len(value) <= _LONGEST_BYTES:
                    with redis_errors():
                        arguments = (self._prefix, digest, value.decode(), self._ttl_s, int(time.time()), most)
                        self._redis.eval(_PUT, 1, self._index, *map(str, arguments))


def digest_of(*parts: object) -> str:
    """Return a digest of numbers and texts; a length before each keeps them apart."""
    hashing = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = str(part).encode("utf-8", "surrogatepass")
        hashing.update(len(encoded).to_bytes(4, "big") + encoded)
    return hashing.hexdigest()
