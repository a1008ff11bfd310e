"""The clock: Celery's beat, of which any number may run. One sends the periodic tasks, the others stand by."""

from __future__ import annotations

from typing import Any

import structlog
from celery.beat import PersistentScheduler

from pipeline.database.clock_skew import ADVICE, WORST_SKEW_S
from pipeline.database.engines import redis_client
from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import ProcessSign
from pipeline.errors import Unavailable
from pipeline.jobs.clock_lock_store import ClockLock
from pipeline.settings import settings

log = structlog.get_logger(__name__)

LOCK_S = 15.0  # a standby takes over this long after the last sign of the clock
_LOOK_EVERY_S = 2.0


class SingleClock(PersistentScheduler):  # type: ignore[misc]
    """Beat's scheduler under a lock in Redis. Without Redis the clock that held the lock goes on: periodic tasks may run
    twice, and stopping them would stop ingestion."""

    def __init__(self, *args: Any, **options: Any) -> None:
        client = redis_client(settings())
        self._lock, self._heartbeats = ClockLock(client, seconds=LOCK_S), WorkerHeartbeats(client)
        self._sign = ProcessSign(host=settings().host, name="clock", serves=("clock",))
        self._wrong = False
        self._active: bool | None = None  # unknown until the first look
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> float:
        """Send what is due if this is the active clock; return the seconds until the next call."""
        if not self._is_active():
            return _LOOK_EVERY_S
        return min(LOCK_S / 3, float(super().tick(*args, **options)))

    def close(self) -> None:
        """Store the schedule and let a standby take over."""
        super().close()
        try:
            if self._active:
                self._lock.let_go()
            self._heartbeats.withdraw_sign(self._sign)
        except Unavailable as error:
            log.warning("clock_lock_not_freed", code=error.code)

    def _is_active(self) -> bool:
        try:
            self._heartbeats.sign(self._sign)
            active = self._has_the_time() and self._lock.hold()
        except Unavailable as error:
            log.warning("clock_lock_not_read", code=error.code, active=bool(self._active))
            return bool(self._active)
        if active != self._active:
            log.info("clock_active" if active else "clock_standby")
        self._active = active
        return active

    def _has_the_time(self) -> bool:
        """Return whether this host's clock is near that of Redis. Let a standby take over if not: messages carry the time at
        which they expire, and workers would drop those of a slow clock."""
        skew_s = self._lock.skew_s()
        was_wrong, self._wrong = self._wrong, abs(skew_s) >= WORST_SKEW_S
        if self._wrong:
            self._lock.let_go()
        if self._wrong and not was_wrong:
            order = "ahead of" if skew_s < 0 else "behind"
            log.error("clock_wrong", detail=f"this host's clock is {abs(skew_s):.0f} s {order} that of Redis; {ADVICE}")
        return not self._wrong
