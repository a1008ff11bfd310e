"""The lock by which one of several clocks sends the periodic tasks."""

import uuid
from typing import Final

import redis

from pipeline.database.engines import redis_errors

KEY: Final = "chordwise:clock"

# Take a free lock or renew one's own, in one step. Returns 1 for the holder.
_HOLD = (
    "local holder = redis.call('GET', KEYS[1]) if holder == ARGV[1] or not holder then"
    " redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1 end return 0"
)
_LET_GO = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class ClockLock:
    """A lock that lasts ``seconds`` after its last renewal. It belongs to the installation, not to a tenant."""

    def __init__(self, client: redis.Redis, *, seconds: float) -> None:
        self._redis = client
        self._milliseconds = int(seconds * 1000)
        self._own = uuid.uuid4().hex

    def hold(self) -> bool:
        """Take or renew the lock; return whether this clock holds it. Raises StoreUnavailable."""
        with redis_errors():
            return bool(self._redis.eval(_HOLD, 1, KEY, self._own, str(self._milliseconds)))

    def let_go(self) -> None:
        """Free the lock for a standby at once. Raises StoreUnavailable."""
        with redis_errors():
            self._redis.eval(_LET_GO, 1, KEY, self._own)
