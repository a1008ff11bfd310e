"""The time of the sweeper's last complete sweep by Redis's clock: evidence that clock, broker and worker cooperate."""

from typing import Final

import redis

from pipeline.database.engines import redis_errors

_KEY: Final = "chordwise:last_sweep"
_NOTE: Final = "local time = redis.call('TIME') redis.call('SET', KEYS[1], string.format('%d.%06d', time[1], time[2]))"


class LastSweep:
    """The last sweep, written by the sweeper and read by gateways. Methods raise StoreUnavailable without Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def note(self) -> None:
        """Record that a sweep has ended now."""
        with redis_errors():
            self._redis.eval(_NOTE, 1, _KEY)

    def age_s(self) -> float | None:
        """Return the seconds since the last sweep, at least 0; None if none is known, as after Redis lost its data."""
        with redis_errors(), self._redis.pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.get(_KEY)
            now, swept_at = pipe.execute()
        return None if swept_at is None else max(0.0, _seconds(now) - float(swept_at))


def _seconds(time: tuple[int, int]) -> float:
    seconds, microseconds = time
    return seconds + microseconds / 1e6
