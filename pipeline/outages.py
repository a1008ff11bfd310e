"""Going on without a dependency that does not answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from pipeline.deadline import Deadline
from pipeline.errors import Unavailable


class OutageTolerated(AbstractContextManager[None]):
    """A block that an Unavailable ends without leaving it: ``record`` is called with the error, and what follows the block
    goes on. Every other error leaves it."""

    def __init__(self, record: Callable[[Unavailable], object]) -> None:
        self._record = record

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Unavailable):
            return False
        self._record(error)
        return True


def tolerate_outage(write: Callable[..., object], event: str, **fields: Any) -> OutageTolerated:
    """Return a block whose outage is logged by ``write``, a method of a logger, with the error's code and ``fields``, which
    name no text of a document."""
    return OutageTolerated(lambda error: write(event, code=error.code, **fields))


class OutagePause:
    """A time without calls to a dependency, ``seconds`` of ``clock`` long, after it did not answer."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = Deadline(-math.inf, clock)

    @property
    def is_over(self) -> bool:
        """Whether the dependency may be called."""
        return self._until.has_passed

    def after_outage(self, write: Callable[..., object], event: str, **fields: Any) -> OutageTolerated:
        """Return a block for a call, as `tolerate_outage` does; an outage begins the pause."""

        def begin(error: Unavailable) -> None:
            self._until = Deadline.after(self._seconds, clock=self._clock)
            write(event, code=error.code, **fields)

        return OutageTolerated(begin)
