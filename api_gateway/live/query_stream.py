"""One client's stream of what happens to a query.

Nothing is kept for a client: what it has seen stands in the id of the last event that it saw, as the names of the steps.
So it may come back to any gateway and misses nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress

from starlette.types import Receive, Scope, Send

from api_gateway.gateway import Gateway
from api_gateway.live.event_streams import HEARTBEAT_S, PING, EventStream, Write, event, raw_event
from api_gateway.resources import event_shapes as wire
from pipeline.errors import Unavailable
from pipeline.query.query_store import QueryState, step_name, wake_name
from pipeline.records import CHANNEL_NAME, QueryId, TenantId

_END = "finished"
_STEP = re.compile(rf"queued|running|{CHANNEL_NAME.pattern}:(?:ok|failed|timeout)|finished")
_TRUSTED_S, _ALONE_S = 5.0, 0.5  # a look at least so often, while Redis tells of steps and while it cannot
_LATE_S = 0.05  # after the deadline, when the answer is about to be there; then twice as long each time


def seen_of(event_id: str) -> set[str]:
    """The steps that a client has seen. None for an id that is none of ours."""
    steps = event_id.strip().split("+")
    return set(steps) if all(_STEP.fullmatch(step) for step in steps) else set()


class QueryStream(EventStream):
    """Events from ``last_event_id`` on, until the query is answered or gone, or the client is."""

    def __init__(
        self,
        gateway: Gateway,
        tenant_id: TenantId,
        query_id: QueryId,
        look: Callable[[], Awaitable[QueryState | None]],
        *,
        last_event_id: str,
        missing: Callable[[], Exception],
    ) -> None:
        """``look`` says how the query stands, None if it is gone, and may raise Unavailable."""
        super().__init__()
        self._gateway, self._tenant_id, self._query_id = gateway, tenant_id, query_id
        self._look, self._missing = look, missing
        self._seen = seen_of(last_event_id)
        self._rung = asyncio.Event()
        self._late_s = _LATE_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises what ``missing`` makes, Unavailable or Problem before anything is sent; ClientDisconnect later."""
        wakes = self._gateway.wakes
        with self._gateway.following.counted(self._tenant_id), ExitStack() as stack:
            for name in (
                wake_name("query", self._tenant_id, self._query_id),
                step_name(self._tenant_id, self._query_id),
            ):
                stack.enter_context(wakes.bell(name, self._rung.set))
            state = await self._look()
            if state is None:
                raise self._missing()
            if _END in self._seen and state.answer is not None:
                await self.nothing_more(scope, receive, send)
                return
            self._seen.discard(_END)

            async def send_all(write: Write) -> None:
                await self._send_all(state, write)

            await self.stream(receive, send, send_all)

    async def _send_all(self, state: QueryState | None, write: Write) -> None:
        written_at = time.monotonic()
        while state is not None:
            if text := self._news(state):
                await write(text)
                written_at = time.monotonic()
            if state.answer is not None or self._gateway.wakes.released:
                return
            if time.monotonic() - written_at >= HEARTBEAT_S:
                await write(PING)
                written_at = time.monotonic()
            await self._sleep(state)
            with suppress(Unavailable):
                state = await self._look()
        step = {"query_id": self._query_id, "status": "cancelled"}
        await write(event("cancelled", self._id(), step))

    async def _sleep(self, state: QueryState) -> None:
        """Until something is said of the query, or until it is time to look anyway."""
        left_s = state.query.deadline_at - time.time()
        seconds = min(left_s + 0.005, _TRUSTED_S if self._gateway.wakes.listening else _ALONE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, self._late_s)):
                await self._rung.wait()
        if left_s <= 0:
            self._late_s *= 2
        self._rung.clear()

    def _news(self, state: QueryState) -> bytes:
        """What the client has not seen yet, as it is sent."""
        begun = ("queued",) if state.status == "queued" else ("queued", "running")
        said = [
            event(step, self._id(), {"query_id": self._query_id, "status": step})
            for step in begun
            if self._is_new(step)
        ]
        for envelope in state.envelopes:
            if self._is_new(f"{envelope.channel}:{envelope.status}"):
                elapsed_ms = state.elapsed_ms.get(envelope.channel)
                said.append(event("channel", self._id(), wire.channel_answered(self._query_id, envelope, elapsed_ms)))
        if state.answer is not None and self._is_new(_END):
            said.append(raw_event(_END, self._id(), state.answer))
        return b"".join(said)

    def _is_new(self, step: str) -> bool:
        if step in self._seen:
            return False
        self._seen.add(step)
        return True

    def _id(self) -> str:
        return "+".join(sorted(self._seen))
