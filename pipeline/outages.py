"""Go on without a dependency that does not answer, or pause its calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from pipeline.deadline import Deadline
from pipeline.errors import PipelineError, Unavailable

T = TypeVar("T")

Kinds = tuple[type[PipelineError], ...]


class OutageTolerated(AbstractContextManager[None]):
    """A block that an Unavailable, or an error of the kinds in ``also`` but not ``but``, ends without leaving it: ``record``
    is called with the error, and what follows the block goes on. Every other error leaves it."""

    def __init__(self, record: Callable[[PipelineError], object], *, also: Kinds = (), but: Kinds = ()) -> None:
        self._record = record
        self._kinds: Kinds = (Unavailable, *also)
        self._but = but

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, PipelineError) or not isinstance(error, self._kinds) or isinstance(error, self._but):
            return False
        self._record(error)
        return True


def tolerate_outage(
    write: Callable[..., object], event: str, *, also: Kinds = (), but: Kinds = (), detail: bool = False, **fields: Any
) -> OutageTolerated:
    """Return a block whose outage is logged by ``write``, a method of a logger, with the error's code and ``fields``, which
    name no text of a document, and its sentence if ``detail``. ``also``, ``but``: as of `OutageTolerated`."""

    def record(error: PipelineError) -> None:
        write(event, code=error.code, **({"detail": str(error)} if detail else {}), **fields)

    return OutageTolerated(record, also=also, but=but)


@contextmanager
def raise_for_outage(
    make: Callable[[Exception], Exception], *, also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Raise what ``make`` returns in place of an Unavailable, or of an error of the kinds in ``also``."""
    kinds: tuple[type[Exception], ...] = (Unavailable, *also)
    try:
        yield
    except kinds as error:
        raise make(error) from None


def replace_in_outage(read: Callable[[], T], replacement: Callable[[Unavailable], T | None]) -> T:
    """Return what ``read`` returns, or, if it raises Unavailable, what ``replacement`` returns for the error. Raises the error
    if that is None."""
    try:
        return read()
    except Unavailable as error:
        if (value := replacement(error)) is None:
            raise
        return value


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

        def begin(error: PipelineError) -> None:
            self._until = Deadline.after(self._seconds, clock=self._clock)
            write(event, code=error.code, **fields)

        return OutageTolerated(begin)
