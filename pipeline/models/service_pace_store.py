"""Share a service's limits between all processes: no process exceeds them, and queries go first."""

import hashlib
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import redis
import structlog
from pydantic import TypeAdapter, ValidationError

from pipeline.database.engines import redis_errors
from pipeline.deadline import Deadline
from pipeline.errors import RateLimited, StoreUnavailable
from pipeline.models import service_pace
from pipeline.models.service_pace import Grant, ProviderLimits, ServicePace
from pipeline.outages import tolerate_outage

_KEPT_S: Final = 86_400  # an unused pace is forgotten and learnt again
_TRIES: Final = 50
_PACE: TypeAdapter[ServicePace] = TypeAdapter(ServicePace)

# Redis gives the time, so that the clocks of the hosts need not agree.
_READ = "local t = redis.call('TIME') return {redis.call('GET', KEYS[1]) or '', t[1], t[2]}"

# Replaces the value if it is unchanged since it was read; otherwise returns the current one.
_SWAP = """
local stored = redis.call('GET', KEYS[1]) or ''
if stored == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return {'', '', ''}
end
local t = redis.call('TIME')
return {stored, t[1], t[2]}
"""
T = TypeVar("T")

log = structlog.get_logger(__name__)

_HORIZON_S: Final = 1.0  # slots are given away at most this far ahead
_LOOK_AGAIN_S: Final = 0.05  # after a longer wait, check that the service was not closed meanwhile
_WITHOUT_REDIS_S: Final = 2.0  # Redis is not called for this long after it did not answer
_BATCH_SHARE: Final = 0.25  # of a minute's tokens: services refuse a request above their limit outright


class SharedPace:
    """The pace of one account at one service, without any tenant's data."""

    def __init__(self, client: redis.Redis, account: str, *, beginning: ServicePace) -> None:
        digest = hashlib.blake2b(account.encode(), digest_size=8).hexdigest()
        self._redis = client
        self._key = f"chordwise:pace:{digest}"
        self._beginning = beginning

    def read(self) -> tuple[ServicePace, float]:
        """Return the pace and the time. Raises StoreUnavailable."""
        _, pace, now = self._parsed(self._eval(_READ))
        return pace, now

    def change(self, step: Callable[[ServicePace, float], tuple[ServicePace, T]]) -> T:
        """Replace the pace by ``step`` of it and the time (repeatable); return the rest of its result."""
        stored = self._eval(_READ)
        for _ in range(_TRIES):
            raw, pace, now = self._parsed(stored)
            changed, result = step(pace, now)
            if changed == pace and raw:
                return result
            stored = self._eval(_SWAP, raw, _PACE.dump_json(changed), str(_KEPT_S))
            if stored[1] == b"":
                return result
            time.sleep(random.uniform(0, 0.002))
        raise StoreUnavailable("Redis: every attempt to change the pace met a concurrent change")

    def _eval(self, script: str, *arguments: Any) -> Any:
        with redis_errors():
            return self._redis.eval(script, 1, self._key, *arguments)

    def _parsed(self, stored: Any) -> tuple[bytes, ServicePace, float]:
        raw, seconds, microseconds = stored
        try:
            pace = _PACE.validate_json(raw) if raw else self._beginning
        except ValidationError:  # written by another release
            pace = self._beginning
        return raw, pace, int(seconds) + int(microseconds) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestPermit:
    """Permission to send a request now. ``waited``: others were waiting. ``share``: below 1 without Redis."""

    pace: ServicePace
    at: float
    waited: bool
    share: float

    @property
    def is_look(self) -> bool:
        """Return whether the service had asked for a pause that was not over."""
        return self.pace.closed_until > self.at


class FleetGovernor:
    """Keeps one account at a service within its limits; thread-safe. Without Redis, at a tenth of the last pace."""

    def __init__(self, client: redis.Redis, account: str, configured: ProviderLimits) -> None:
        beginning = service_pace.beginning(configured)
        self._shared = SharedPace(client, account, beginning=beginning)
        self._configured = configured
        self._seen = beginning
        self._alone: ServicePace | None = None  # the pace of this process by itself, while Redis is away
        self._lock = threading.Lock()
        self._ask_redis_at = 0.0

    @property
    def largest_request_tokens(self) -> int | None:
        """The most tokens one request should have; None if no limit is known."""
        _, tokens = service_pace.most(self._configured, self._seen.reported)
        return max(1, int(tokens * 60 * _BATCH_SHARE)) if tokens else None

    def admit(self, tokens: float, *, urgent: bool, longest_s: float, stop: threading.Event) -> RequestPermit:
        """Wait at most ``longest_s`` for permission to send ``tokens``. Raises RateLimited with the seconds to wait, as
        soon as the time is known to be too short or ``stop`` is set."""
        deadline = Deadline.after(longest_s)
        while True:
            left_s = deadline.left_s()
            grant, share = self._ask(tokens, urgent=urgent, horizon_s=min(_HORIZON_S, left_s))
            if grant.wait_s > left_s:
                raise RateLimited("the model service is at its rate limit", retry_after_s=grant.wait_s)
            pause_s = grant.wait_s
            if not grant.granted:  # come back when there may be a slot, and not all at once
                pause_s = min(left_s, max(0.01, pause_s - _HORIZON_S / 2) * random.uniform(1.0, 1.05))
            if stop.wait(pause_s):
                raise RateLimited("the request was abandoned", retry_after_s=0.0)
            if grant.granted and (pause_s < _LOOK_AGAIN_S or not self._closed()):
                return RequestPermit(pace=grant.pace, at=grant.at, waited=grant.wait_s > 0.0, share=share)

    def answered(self, permit: RequestPermit, limits: ProviderLimits) -> None:
        """Record an answer with the limits that the service reported. Redis is called only if something changes."""

        def step(pace: ServicePace, now: float, share: float) -> tuple[ServicePace, None]:
            configured = self._configured.shared_by(share)
            reported = service_pace.adopt(pace, configured, limits.shared_by(share))
            if permit.is_look:
                reported = service_pace.reopened(reported, now=now)
            return service_pace.quickened(reported, configured, now=now, waited=permit.waited), None

        if permit.is_look or step(permit.pace, permit.pace.grown_at + 1.0, permit.share)[0] != permit.pace:
            self._change(step)

    def refused(
        self, permit: RequestPermit, *, too_many: bool, retry_after_s: float | None, limits: ProviderLimits
    ) -> None:
        """Record a refusal, because of ``too_many`` requests or for the service's own reasons."""

        def step(pace: ServicePace, now: float, share: float) -> tuple[ServicePace, None]:
            configured = self._configured.shared_by(share)
            reported = service_pace.adopt(pace, configured, limits.shared_by(share))
            if too_many:
                return service_pace.slowed(
                    reported, configured, now=now, sent_at=permit.at, retry_after_s=retry_after_s
                ), None
            return service_pace.closed_for(reported, now=now, seconds=retry_after_s or 0.0), None

        self._change(step)
        log.info("provider_limit_reached", too_many=too_many, retry_after_s=retry_after_s)

    def _ask(self, tokens: float, *, urgent: bool, horizon_s: float) -> tuple[Grant, float]:
        def step(pace: ServicePace, now: float, share: float) -> tuple[ServicePace, tuple[Grant, float]]:
            limits = self._configured.shared_by(share)
            grant = service_pace.admit(pace, limits, now=now, tokens=tokens, urgent=urgent, horizon_s=horizon_s)
            return grant.pace, (grant, share)

        return self._change(step)

    def _closed(self) -> bool:
        with self._lock:
            if self._alone is not None:
                return self._alone.closed_until > time.time()
        with suppress(StoreUnavailable):
            pace, now = self._shared.read()
            return pace.closed_until > now
        return True  # ask again, without the fleet

    def _change(self, step: Callable[[ServicePace, float, float], tuple[ServicePace, T]]) -> T:
        """Change the fleet's pace or, without Redis, this process's own tenth of it."""
        if time.monotonic() >= self._ask_redis_at:
            if self._ask_redis_at:
                self._ask_redis_at = time.monotonic() + _WITHOUT_REDIS_S  # one thread tries Redis, others go on alone
            with tolerate_outage(log.warning, "provider_limits_not_shared", detail=True):
                result = self._shared.change(lambda pace, now: self._remembered(step(pace, now, 1.0)))
                self._ask_redis_at = 0.0
                with self._lock:
                    self._alone = None
                return result
            self._ask_redis_at = time.monotonic() + _WITHOUT_REDIS_S
        with self._lock:
            mine = self._alone or service_pace.alone(self._seen)
            self._alone, result = step(mine, time.time(), service_pace.ALONE)
            return result

    def _remembered(self, made: tuple[ServicePace, T]) -> tuple[ServicePace, T]:
        self._seen = made[0]
        return made
