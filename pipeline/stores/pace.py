"""One pace for the whole fleet: a value in Redis that is read, thought about and put back if nobody was quicker."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import redis
from pydantic import TypeAdapter, ValidationError

from pipeline.core.pacing import Pace
from pipeline.errors import StoreUnavailable
from pipeline.stores.engines import redis_errors

T = TypeVar("T")

_KEPT_S: Final = 86_400  # a pace nobody has asked for since is learnt again
_TRIES: Final = 50
_PACE: TypeAdapter[Pace] = TypeAdapter(Pace)

# Redis tells the time, so that the clocks of the hosts need not agree.
_READ = "local t = redis.call('TIME') return {redis.call('GET', KEYS[1]) or '', t[1], t[2]}"

# Puts the value back if it is still the one that was read; otherwise gives the one that is there.
_SWAP = """
local found = redis.call('GET', KEYS[1]) or ''
if found == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return {'', '', ''}
end
local t = redis.call('TIME')
return {found, t[1], t[2]}
"""


class SharedPace:
    """The pace of one account at one service. Says nothing of any tenant."""

    def __init__(self, client: redis.Redis, account: str, *, beginning: Pace) -> None:
        digest = hashlib.blake2b(account.encode(), digest_size=8).hexdigest()
        self._redis = client
        self._key = f"chordwise:pace:{digest}"
        self._beginning = beginning

    def read(self) -> tuple[Pace, float]:
        """The pace and the time. Raises StoreUnavailable."""
        _, pace, now = self._parsed(self._eval(_READ))
        return pace, now

    def change(self, step: Callable[[Pace, float], tuple[Pace, T]]) -> T:
        """Replace the pace by ``step`` of it and the time; return what else it gives. ``step`` may run several times.
        Raises StoreUnavailable."""
        found = self._eval(_READ)
        for _ in range(_TRIES):
            raw, pace, now = self._parsed(found)
            changed, said = step(pace, now)
            if changed == pace and raw:
                return said
            found = self._eval(_SWAP, raw, _PACE.dump_json(changed), str(_KEPT_S))
            if found[1] == b"":
                return said
            time.sleep(random.uniform(0, 0.002))
        raise StoreUnavailable("Redis: the pace was changed by others all the time")

    def _eval(self, script: str, *arguments: Any) -> Any:
        with redis_errors():
            return self._redis.eval(script, 1, self._key, *arguments)

    def _parsed(self, found: Any) -> tuple[bytes, Pace, float]:
        raw, seconds, microseconds = found
        try:
            pace = _PACE.validate_json(raw) if raw else self._beginning
        except ValidationError:  # written by another release
            pace = replace(self._beginning)
        return raw, pace, int(seconds) + int(microseconds) / 1e6
