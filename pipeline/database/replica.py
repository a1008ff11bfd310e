"""Reads from a replica of MySQL, only where it holds what the read must see."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from sqlalchemy import Connection, Engine

from pipeline.database.engines import mysql_errors, outage_of
from pipeline.errors import StoreUnavailable

T = TypeVar("T")
Outcome = Literal["current", "behind", "away"]

REPLICA_TIMEOUT_S: Final = 2.0  # of a statement; the primary server is asked afterwards

_WAITED_S: Final = 0.3  # a closed connection fails sooner


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica of one MySQL. ``count`` counts what became of each read; it must not raise."""

    engine: Engine
    count: Callable[[Outcome], object]

    def dispose(self) -> None:
        """Close its connections."""
        self.engine.dispose()

    def read(self, is_current: Callable[[Connection], bool], ask: Callable[[Connection], T]) -> tuple[T] | None:
        """Return the result of ``ask`` alone in a tuple, or None if the replica is behind or does not answer.

        Both functions see the same moment, so the result is of a state that ``is_current`` has accepted. Raises the
        errors of ``ask``.
        """
        outage = outage_of(self.engine)
        if outage is not None and outage.is_on:
            self.count("away")
            return None
        began = time.monotonic()
        try:
            with mysql_errors(), self.engine.begin() as connection:
                result = (ask(connection),) if is_current(connection) else None
        except StoreUnavailable:
            if outage is not None:
                outage.suspect(waited=time.monotonic() - began > _WAITED_S)
            self.count("away")
            return None
        self.count("behind" if result is None else "current")
        return result
