"""Threads for blocking calls, of which the tenants of one pair of stores may hold half."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")


class Threads:
    """At most ``count`` threads for blocking calls. Calls for one pair of stores hold half of them at most, so that a pair
    that hangs leaves threads to the tenants of the others."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._all: CapacityLimiter | None = None  # needs a running loop, so not made earlier
        self._of_pair: dict[str, CapacityLimiter] = {}

    async def run(self, call: Callable[[], T], *, pair: str | None, abandon_on_cancel: bool = False) -> T:
        """Call a blocking function in a thread. ``pair``: that of the tenant it works for; None if there is one pair only,
        or no tenant."""
        self._all = self._all or CapacityLimiter(self._count)
        if pair is not None and pair not in self._of_pair:
            self._of_pair[pair] = CapacityLimiter(self._count // 2)
        async with nullcontext() if pair is None else self._of_pair[pair]:
            return await to_thread.run_sync(call, limiter=self._all, abandon_on_cancel=abandon_on_cancel)
