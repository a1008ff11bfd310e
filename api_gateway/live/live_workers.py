"""Queues that have a live worker, for requests that must not wait for an absent one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from pipeline.database.worker_heartbeats import EVERY_S, EXPIRES_S, WorkerHeartbeat, unserved
from pipeline.errors import Unavailable

FRESH_S: Final = 0.5
# After Redis was unavailable or emptied, every worker's heartbeat is missing until its next beat.
_BEATS_ARE_BACK_AFTER_S: Final = 4 * EVERY_S

log = structlog.get_logger(__name__)


class LiveWorkers:
    """A cache of the heartbeats, at most `FRESH_S` old on use; concurrent requests share each reading. ``read`` returns
    all heartbeats or raises StoreUnavailable; ``run`` calls it in a thread."""

    def __init__(
        self,
        run: Callable[..., Awaitable[Any]],
        read: Callable[[], list[WorkerHeartbeat]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run = run
        self._read_all = read
        self._clock = clock
        self._workers: list[WorkerHeartbeat] = []
        self._read_at = float("-inf")
        self._trusted_from = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def unserved(self, queues: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``queues`` that no worker consumes.

        Return nothing while the heartbeats are uncertain: Redis does not answer, or has just come back and the workers
        have not written again. A killed or stopped worker is noticed after `EXPIRES_S` + `FRESH_S` seconds at most.
        """
        if self._clock() - self._read_at > FRESH_S:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read())
            await asyncio.shield(self._reading)
        now = self._clock()
        is_known = now - self._read_at <= EXPIRES_S and now >= self._trusted_from
        return unserved(queues, self._workers) if is_known else ()

    async def _read(self) -> None:
        had_some = bool(self._workers)
        try:
            self._workers = await self._run(self._read_all)
        except Unavailable as error:
            self._trusted_from = float("inf")
            log.warning("heartbeats_not_read", code=error.code)
            return
        self._read_at = self._clock()
        if self._trusted_from == float("inf") or (had_some and not self._workers):
            self._trusted_from = self._read_at + _BEATS_ARE_BACK_AFTER_S
