"""A Redis cache of vectors that a service made, in two layers of hashes per tenant and model. The upper layer becomes
the lower at half the allowed memory or age; vectors found below move up, so unused ones expire after two turns."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import redis
import structlog
from numpy.typing import NDArray

from pipeline.database.engines import redis_errors
from pipeline.database.redis_memory import UNLIMITED, ReadMemory
from pipeline.database.rows import slices
from pipeline.outages import OutagePause, OutageTolerated
from pipeline.records import TenantId

log = structlog.get_logger(__name__)

_STATE: Final = "chordwise:vectors"
_AT_ONCE: Final = 1000  # texts in one call of a script
_OVERHEAD_BYTES: Final = 100  # Redis' overhead of an entry
_KEPT_S: Final = 7 * 24 * 3600
_LEFT_ALONE_S: Final = 2.0  # after Redis did not answer

_GET = """
local layer = tonumber(redis.call('HGET', KEYS[1], 'layer') or '0')
local texts = {unpack(ARGV, 2)}
local upper = redis.call('HMGET', ARGV[1] .. layer, unpack(texts))
local lower = {}
local sought = {}
for index = 1, #texts do
  if not upper[index] then sought[#sought + 1] = texts[index] end
end
if #sought > 0 then lower = redis.call('HMGET', ARGV[1] .. (layer - 1), unpack(sought)) end
return {upper, lower}
"""

_PUT = """
local now = tonumber(redis.call('TIME')[1])
local layer = tonumber(redis.call('HGET', KEYS[1], 'layer') or '0')
local bytes = tonumber(redis.call('HGET', KEYS[1], 'bytes') or '0')
local since = tonumber(redis.call('HGET', KEYS[1], 'since') or now)
local most, seconds, overhead = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if bytes >= most / 2 or now - since >= seconds / 2 then
  local below = KEYS[1] .. ':' .. (layer - 1)
  for _, key in ipairs(redis.call('SMEMBERS', below)) do redis.call('UNLINK', key) end
  redis.call('DEL', below)
  layer, bytes, since = layer + 1, 0, now
end
local key, members = ARGV[1] .. layer, KEYS[1] .. ':' .. layer
for index = 5, #ARGV, 2 do
  if redis.call('HSETNX', key, ARGV[index], ARGV[index + 1]) == 1 then bytes = bytes + #ARGV[index + 1] + overhead end
end
redis.call('SADD', members, key)
if redis.call('TTL', key) < 0 then redis.call('EXPIRE', key, seconds) end
if redis.call('TTL', members) < 0 then redis.call('EXPIRE', members, seconds * 2) end
redis.call('HSET', KEYS[1], 'layer', layer, 'bytes', bytes, 'since', since)
redis.call('EXPIRE', KEYS[1], seconds * 2)
return bytes
"""


class VectorCacheStore:
    """The shared part of all tenants' caches: the connection, the total size, the last failure of Redis."""

    def __init__(
        self, client: redis.Redis, *, most_bytes: int, ttl_s: int = _KEPT_S, memory: ReadMemory = lambda: UNLIMITED
    ) -> None:
        self.redis = client
        self.memory = memory
        self.most_bytes = most_bytes
        self.ttl_s = ttl_s
        self.pause = OutagePause(_LEFT_ALONE_S)

    @property
    def usable(self) -> bool:
        """Whether Redis is worth a request now."""
        return self.most_bytes > 0 and self.pause.is_over

    @property
    def has_space(self) -> bool:
        """Whether vectors may be kept; False while Redis does not answer."""
        with self.outage_noted():
            return self.usable and not self.memory().is_nearly_full
        return False

    def outage_noted(self) -> OutageTolerated:
        """Return a block for a call of Redis; if that does not answer, every vector is missing for a moment."""
        return self.pause.after_outage(log.warning, "vector_cache_unavailable")


class VectorCache:
    """One tenant's vectors of one model by text, in half precision as stored; empty without Redis."""

    def __init__(self, store: VectorCacheStore, tenant_id: TenantId, *, model: str, dimension: int) -> None:
        digest = hashlib.blake2b(f"{dimension} {model}".encode(), digest_size=8).hexdigest()
        self._store = store
        self._prefix = f"{tenant_id}:vectors:{digest}:"
        self._bytes = dimension * 2

    def get(self, digests: Sequence[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Return the cached vectors by the digests of their texts."""
        vectors: dict[bytes, NDArray[np.float32]] = {}
        moving_up: dict[bytes, NDArray[np.float32]] = {}
        for batch in slices(digests, _AT_ONCE):
            upper, lower = self._call(_GET, *batch) or ([], [])
            above = dict(zip(batch, upper, strict=False))
            below = dict(zip([digest for digest in batch if above.get(digest) is None], lower, strict=False))
            vectors |= self._vectors(above)
            moving_up |= self._vectors(below)
        self.put(moving_up)
        return vectors | moving_up

    def put(self, vectors: Mapping[bytes, NDArray[np.floating[Any]]]) -> None:
        """Keep vectors by digest, unless Redis is nearly full."""
        if not vectors or not self._store.has_space:
            return
        limits = (self._store.most_bytes, self._store.ttl_s, _OVERHEAD_BYTES)
        for batch in slices(list(vectors.items()), _AT_ONCE):
            pairs = ((digest, vector.astype("<f2").tobytes()) for digest, vector in batch)
            self._call(_PUT, *limits, *chain.from_iterable(pairs))

    def _call(self, script: str, *arguments: Any) -> Any:
        if not self._store.usable:
            return None
        with self._store.outage_noted(), redis_errors():
            return self._store.redis.eval(script, 1, _STATE, self._prefix, *arguments)
        return None

    def _vectors(self, raw: Mapping[bytes, bytes | None]) -> dict[bytes, NDArray[np.float32]]:
        return {
            digest: np.frombuffer(value, dtype="<f2").astype(np.float32)
            for digest, value in raw.items()
            if value is not None and len(value) == self._bytes
        }


def digest_of(text: str) -> bytes:
    """Return the digest that names a text in the cache."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
