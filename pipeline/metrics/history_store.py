"""Samples of an installation's counters in Redis, one a minute for a day, one every ten minutes for a week; and the sizes of
the stores, as each of them reports its own."""

from typing import Any, Final

import orjson
import redis
from sqlalchemy import Connection, text

from pipeline.database.engines import redis_errors
from pipeline.metrics.history import HistorySample, Resolution

KEPT: Final = {60: 86_400 + 600, 600: 604_800 + 3600}  # seconds between samples: how long they are kept, some 1 MB

# KEYS: one sorted set a spacing. ARGV: the time, the sample, the share of a spacing after which a sample is due, as
# gateways' clocks differ a little, then spacing and seconds kept for each key.
_DUE_AFTER: Final = 0.9
_ADD: Final = """
local added = 0
for at = 1, #KEYS do
  local spacing, kept = tonumber(ARGV[2 + 2 * at]), tonumber(ARGV[3 + 2 * at])
  local last = redis.call('ZREVRANGE', KEYS[at], 0, 0, 'WITHSCORES')[2]
  if not last or tonumber(ARGV[1]) - tonumber(last) >= tonumber(ARGV[3]) * spacing then
    redis.call('ZADD', KEYS[at], ARGV[1], ARGV[2])
    redis.call('ZREMRANGEBYSCORE', KEYS[at], '-inf', tonumber(ARGV[1]) - kept)
    added = added + 1
  end
end
return added
"""


class MetricHistory:
    """The samples of an installation, written by every gateway. Methods raise StoreUnavailable without Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def is_due(self, now: float) -> bool:
        """Return whether the last sample is old enough for another one."""
        spacing = min(KEPT)
        with redis_errors():
            newest: Any = self._redis.zrevrange(_key(spacing), 0, 0, withscores=True)
        return not newest or now - newest[0][1] >= _DUE_AFTER * spacing

    def add(self, sample: HistorySample) -> bool:
        """Store the sample unless another gateway stored one within this minute; return whether it was stored."""
        arguments: list[Any] = [repr(sample.at), orjson.dumps(sample), repr(_DUE_AFTER)]
        for spacing, kept in KEPT.items():
            arguments += [str(spacing), str(kept)]
        with redis_errors():
            added: Any = self._redis.eval(_ADD, len(KEPT), *map(_key, KEPT), *arguments)
        return bool(added)

    def between(self, start: float, end: float, resolution: Resolution) -> list[HistorySample]:
        """Return the samples of these seconds since the epoch, in order of time."""
        with redis_errors():
            stored: Any = self._redis.zrangebyscore(_key(resolution.spacing_s), start, end)
        return [HistorySample(**orjson.loads(sample)) for sample in stored]


def _key(spacing_s: int) -> str:
    return f"chordwise:history:{spacing_s}"


def mysql_bytes(connection: Connection) -> int:
    """Return the bytes of all tables and indexes in the database, as InnoDB's statistics estimate them."""
    return int(connection.execute(_MYSQL).scalar_one() or 0)


def postgres_bytes(connection: Connection) -> int:
    """Return the bytes of the database on disk."""
    return int(connection.execute(_POSTGRES).scalar_one())


def redis_bytes(client: redis.Redis) -> int:
    """Return the bytes of memory that Redis uses. Raises StoreUnavailable."""
    with redis_errors():
        memory: Any = client.info("memory")
    return int(memory["used_memory"])


_MYSQL = text("SELECT SUM(data_length + index_length) FROM information_schema.tables WHERE table_schema = DATABASE()")
_POSTGRES = text("SELECT pg_database_size(current_database())")
