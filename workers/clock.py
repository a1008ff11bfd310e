"""The clock: Celery's beat, of which any number may run, as processes or beside the tasks of a worker. One sends the periodic
tasks, the others stand by."""

from __future__ import annotations

import threading
from typing import Any

import structlog
from celery import Celery, bootsteps
from celery.beat import PersistentScheduler
from click import Option

from pipeline.database.clock_skew import ADVICE, WORST_SKEW_S
from pipeline.database.engines import redis_client
from pipeline.database.expiring_record_store import WorkerHeartbeats
from pipeline.database.worker_heartbeats import SIGN_EVERY_S, ProcessSign
from pipeline.deadline import Deadline
from pipeline.jobs.clock_lock_store import ClockLock
from pipeline.outages import tolerate_outage
from pipeline.settings import settings

log = structlog.get_logger(__name__)

LOCK_S = 15.0  # a standby takes over this long after the last sign of the clock
_LOOK_EVERY_S = 2.0  # of a standby; the active clock looks with every sign of life
_TRY_AGAIN_S = 5.0
_STOPS_WITHIN_S = 2.0


class SingleClock(PersistentScheduler):  # type: ignore[misc]
    """Beat's scheduler under a lock in Redis. Without Redis the clock that held the lock goes on: periodic tasks may run
    twice, and stopping them would stop ingestion."""

    def __init__(self, *args: Any, **options: Any) -> None:
        client = redis_client(settings())
        self._lock, self._heartbeats = ClockLock(client, seconds=LOCK_S), WorkerHeartbeats(client)
        self._sign = ProcessSign(host=settings().host, name="clock", serves=("clock",))
        self._wrong = False
        self._active: bool | None = None  # unknown until the first look
        self._next_look = Deadline.after(0.0)
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> float:
        """Send what is due if this is the active clock; return the seconds until the next call."""
        if self._next_look.has_passed:
            self._active = self._is_active()
            self._next_look = Deadline.after(SIGN_EVERY_S if self._active else _LOOK_EVERY_S)
        wait_s = self._next_look.left_s()
        return min(wait_s, float(super().tick(*args, **options))) if self._active else wait_s

    def close(self) -> None:
        """Store the schedule and let a standby take over."""
        super().close()
        with tolerate_outage(log.warning, "clock_lock_not_freed"):
            if self._active:
                self._lock.let_go()
            self._heartbeats.withdraw_sign(self._sign)

    def _is_active(self) -> bool:
        active = bool(self._active)
        with tolerate_outage(log.warning, "clock_lock_not_read", active=active):
            skew_s = self._heartbeats.sign(self._sign)
            active = self._has_the_time(skew_s) and self._lock.hold()
        if active != self._active:
            log.info("clock_active" if active else "clock_standby")
        return active

    def _has_the_time(self, skew_s: float) -> bool:
        """Return whether this host's clock is near that of Redis. Let a standby take over if not: messages carry the time at
        which they expire, and workers would drop those of a slow clock."""
        was_wrong, self._wrong = self._wrong, abs(skew_s) >= WORST_SKEW_S
        if self._wrong:
            self._lock.let_go()
        if self._wrong and not was_wrong:
            order = "ahead of" if skew_s < 0 else "behind"
            log.error("clock_wrong", detail=f"this host's clock is {abs(skew_s):.0f} s {order} that of Redis; {ADVICE}")
        return not self._wrong


class ClockStep(bootsteps.StartStopStep):  # type: ignore[misc]
    """The Celery step of a worker that is a clock as well: option ``--clock``, the file for the times of the last messages."""

    def __init__(self, _worker: Any, clock: str | None = None, **_: Any) -> None:
        self.enabled = bool(clock)
        self._schedule = clock or ""
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, worker: Any) -> None:
        """Start the clock in a thread."""
        self._thread = threading.Thread(target=self._run, args=(worker.app,), name="clock", daemon=True)
        self._thread.start()

    def stop(self, _worker: Any) -> None:
        """Stop the clock and let another one take over."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(_STOPS_WITHIN_S)

    terminate = stop

    def _run(self, app: Celery) -> None:
        """Tick until `stop`. A process of its own would end and be started again after an error, which is done here."""
        app.set_current()
        while not self._over.is_set():
            try:
                self._tick(app)
            except Exception as error:
                log.exception("clock_failed", error=type(error).__name__)
                self._over.wait(_TRY_AGAIN_S)

    def _tick(self, app: Celery) -> None:
        scheduler = SingleClock(app=app, schedule_filename=self._schedule)
        try:
            while not self._over.wait(scheduler.tick()):
                pass
        finally:
            scheduler.close()


def add_clock_option(app: Celery) -> None:
    """Give the command ``celery worker`` of this app the option of a clock."""
    app.user_options["worker"].add(
        Option(("--clock",), help="be a clock, too: a file for the times of the last messages")
    )
    app.steps["worker"].add(ClockStep)
