"""Outages of a store, noted so that queries do not wait for it repeatedly."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from pipeline.errors import StoreUnavailable

log = structlog.get_logger(__name__)

_GRACE_S: Final = 0.05  # a connection closed by the server fails once, and a new one is made within this time
_PAUSE_S: Final = 0.25  # between two probes
_FORGOTTEN_S: Final = 30.0  # after the last query the probes end


class Outage:
    """One store's outage, from the first call that waited in vain until a probe succeeds. ``probe`` raises while the store
    is away; it runs in a thread of its own, so no query waits for it. Safe to share between threads."""

    def __init__(self, probe: Callable[[], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._lock = threading.Lock()
        self._suspected_at: float | None = None
        self._failed = False  # a probe has failed since then
        self._waited = False  # a call timed out
        self._used_at = 0.0

    @property
    def is_on(self) -> bool:
        """Return whether a call would fail, as far as is known."""
        self._used_at = self._clock()
        since = self._suspected_at
        return since is not None and (self._waited or self._failed or self._used_at - since > _GRACE_S)

    def suspect(self, *, waited: bool = False) -> None:
        """Note a failed call. One that timed out (``waited``) proves an outage at once, since a closed connection fails
        without a wait. A false suspicion ends with the probe that starts now."""
        with self._lock:
            self._waited |= waited
            if self._suspected_at is not None:
                return
            self._suspected_at = self._used_at = self._clock()
            self._failed = False
        threading.Thread(target=self._watch, name="outage", daemon=True).start()

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Raise StoreUnavailable at once while the outage lasts, and suspect one if the block raises it."""
        if self.is_on:
            raise StoreUnavailable("MySQL: the last call timed out", public="MySQL is not answering")
        try:
            yield
        except StoreUnavailable:
            self.suspect()
            raise

    def _watch(self) -> None:
        while self._clock() - self._used_at < _FORGOTTEN_S:
            try:
                self._probe()
                break
            except (SQLAlchemyError, OSError) as error:
                if not self._failed:
                    log.warning("store_away", error=type(error).__name__)
                self._failed = True
                time.sleep(_PAUSE_S)
        with self._lock:
            self._suspected_at = None
            self._waited = False


_OUTAGES: weakref.WeakKeyDictionary[Engine, Outage] = weakref.WeakKeyDictionary()


def watch(engine: Engine) -> None:
    """Start to note outages of this engine's server."""
    reference = weakref.ref(engine)

    def probe() -> None:
        if (mysql := reference()) is not None:
            with mysql.connect() as connection:
                connection.exec_driver_sql("SELECT 1")

    _OUTAGES[engine] = Outage(probe)


def outage_of(engine: Engine) -> Outage | None:
    """Return the outage of an engine's server; None if it is not watched."""
    return _OUTAGES.get(engine)
