"""One look for all who want the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedLooks:
    """Of each name there is one look at a time. Who asks meanwhile shares the next one, which begins after he asked and
    so is never older than his question."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def look(self, name: Hashable, do: Callable[[], Awaitable[T]]) -> T:
        """What ``do`` gives, called by this or by another caller. Raises what it raises."""
        task = self._next.get(name)
        if task is None:
            task = self._next[name] = asyncio.ensure_future(self._in_turn(name, do))
        found: T = await asyncio.shield(task)
        return found

    async def _in_turn(self, name: Hashable, do: Callable[[], Awaitable[T]]) -> T:
        try:
            while (before := self._running.get(name)) is not None:
                await asyncio.wait({before})
        finally:
            task = self._next.pop(name)
        self._running[name] = task
        try:
            return await do()
        finally:
            del self._running[name]
