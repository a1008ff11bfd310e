"""How full the memory of Redis is: everything that is stored for a while is stored for less time as it fills."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import redis

from pipeline.caches import RefreshingValue
from pipeline.database.engines import redis_errors

_READ_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 0.05  # a query does not wait for a Redis that is silent twice
_FULL_TIME_UNTIL: Final = 0.5  # share of maxmemory up to which a lifetime is the one that is set
NEARLY_FULL: Final = 0.9  # share from which it is the shortest, and what could be left out is not stored

# A function of scripts: the lifetime between `full` and `least` seconds when a share of the memory is in use.
LIFETIME: Final = f"""
local function lifetime(full, least, share)
  local left = 1 - math.min(1, math.max(0, (share - {_FULL_TIME_UNTIL}) / {NEARLY_FULL - _FULL_TIME_UNTIL:.6f}))
  return math.ceil(math.min(full, least) + math.max(0, full - least) * left)
end
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisMemory:
    """``used`` bytes of ``limit`` (``maxmemory``), which is 0 without a limit, or if it may not be read."""

    used: int = 0
    limit: int = 0

    @property
    def share(self) -> float:
        """The share in use, from 0; 0 without a limit."""
        return self.used / self.limit if self.limit else 0.0

    @property
    def free(self) -> int | None:
        """The free bytes; None without a limit."""
        return max(0, self.limit - self.used) if self.limit else None

    @property
    def is_nearly_full(self) -> bool:
        """Whether nothing should be stored that could be left out."""
        return self.share >= NEARLY_FULL

    def scaled(self, full: int, least: int) -> int:
        """Return a bound, in seconds or entries, that is ``full`` while there is space and falls to ``least``."""
        left = 1 - min(1.0, max(0.0, (self.share - _FULL_TIME_UNTIL) / (NEARLY_FULL - _FULL_TIME_UNTIL)))
        return math.ceil(min(full, least) + max(0, full - least) * left)


UNLIMITED: Final = RedisMemory()

ReadMemory = Callable[[], RedisMemory]


def read_redis_memory(client: redis.Redis) -> RedisMemory:
    """Return the memory in use and its limit; no limit where the user may not run INFO. Raises StoreUnavailable."""
    with redis_errors():
        try:
            memory: dict[str, Any] = client.info("memory")  # type: ignore[assignment]
        except redis.ResponseError:  # not permitted, or renamed
            return UNLIMITED
    return RedisMemory(used=int(memory.get("used_memory", 0)), limit=int(memory.get("maxmemory", 0)))


def memory_reader(client: redis.Redis) -> ReadMemory:
    """Return a function that reads the memory once a second at most, and waits for it no longer than `_PATIENCE_S`. The
    last figures stay while Redis is away; before any, there is no limit."""
    return RefreshingValue(
        lambda: read_redis_memory(client), fresh_s=_READ_EVERY_S, initial=(UNLIMITED,), patience_s=_PATIENCE_S
    ).get
