"""Two who look before either has acted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Engine, event

Result = TypeVar("Result")


def side_by_side(mysql: Engine, calls: Sequence[Callable[[], Result]], *, looking: str) -> list[Result]:
    """What the calls give, each in a thread of its own. None goes on from its first statement that holds ``looking``
    before all have been answered theirs."""
    with _meeting(mysql, len(calls), looking), ThreadPoolExecutor(len(calls)) as pool:
        return [each.result(timeout=30) for each in [pool.submit(call) for call in calls]]


@contextmanager
def _meeting(mysql: Engine, of: int, looking: str) -> Iterator[None]:
    together, met = threading.Barrier(of, timeout=10), threading.local()

    def wait(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if looking in statement and not getattr(met, "already", False):
            met.already = True
            together.wait()

    event.listen(mysql, "after_cursor_execute", wait)
    try:
        yield
    finally:
        event.remove(mysql, "after_cursor_execute", wait)
