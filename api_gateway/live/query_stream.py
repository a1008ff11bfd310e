"""One client's stream of a query's events.

The server keeps no state per client: the id of the last event names the steps that the client has seen. A client may
therefore reconnect to any gateway and misses nothing.
"""

import asyncio
import re
import time
from contextlib import ExitStack, suppress
from typing import Any, Literal

from starlette.types import Receive, Scope, Send

from api_gateway.http.caller import Caller
from api_gateway.http.fields import Shape, shown
from api_gateway.http.problems import Problem
from api_gateway.live.ask import followed_state, state_of_sent
from api_gateway.live.event_streams import HEARTBEAT_S, PING, EventStream, Write, event, raw_event
from pipeline.errors import Unavailable
from pipeline.query.understanding import ChannelStep, QueryState
from pipeline.query.wake_names import wake_name
from pipeline.records import CHANNEL_NAME, QueryId


class QueryStep(Shape):
    """`data` of `queued`, `running` and `cancelled`; that of `finished` is the answer."""

    query_id: str
    status: Literal["queued", "running", "cancelled"]


class ChannelAnswered(Shape):
    """`data` of `channel`. `hits`: number of chunks it proposes. `code`: the reason for no proposal after an error."""

    query_id: str
    channel: str
    status: Literal["ok", "failed", "timeout"]
    hits: int
    elapsed_ms: float | None
    code: str | None


def channel_answered(query_id: str, step: ChannelStep, elapsed_ms: float | None) -> dict[str, Any]:
    """Return the event of a channel's answer."""
    return shown(ChannelAnswered, step, query_id=query_id, elapsed_ms=elapsed_ms)


_END = "finished"
_STEP = re.compile(rf"queued|running|{CHANNEL_NAME.pattern}:(?:ok|failed|timeout)|finished")
_TRUSTED_S, _ALONE_S = 5.0, 0.5  # interval between reads, while Redis announces steps and while it cannot
_LATE_S = 0.05  # after the deadline, when the answer is due; then twice as long each time


def seen_of(event_id: str) -> set[str]:
    """Return the steps that a client has seen; an empty set for an unknown event id."""
    steps = event_id.strip().split("+")
    return set(steps) if all(_STEP.fullmatch(step) for step in steps) else set()


class QueryStream(EventStream):
    """Stream events after ``last_event_id``, until the query is answered or gone, or the client disconnects."""

    def __init__(self, caller: Caller, query_id: QueryId, *, last_event_id: str) -> None:
        super().__init__()
        self._gateway, self._tenant_id, self._query_id = caller.gateway, caller.tenant_id, query_id
        self._seen = seen_of(last_event_id)
        self._announced = asyncio.Event()
        self._late_s = _LATE_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises Unavailable or Problem before the first byte; ClientDisconnect later."""
        wakes = self._gateway.wakes
        with self._gateway.following.counted(self._tenant_id), ExitStack() as stack:
            for name in (
                wake_name("query", self._tenant_id, self._query_id),
                wake_name("query-step", self._tenant_id, self._query_id),
            ):
                stack.enter_context(wakes.on_wake(name, self._announced.set))
            state = await self._read()
            if _END in self._seen and state.answer is not None:
                await self.nothing_more(scope, receive, send)
                return
            self._seen.discard(_END)

            async def send_all(write: Write) -> None:
                await self._send_all(state, write)

            await self.stream(receive, send, send_all)

    async def _read(self) -> QueryState:
        return await self._gateway.run(followed_state, self._tenant_id, self._query_id, self._gateway)

    async def _send_all(self, state: QueryState, write: Write) -> None:
        written_at = time.monotonic()
        while True:
            if text := self._new_events(state):
                await write(text)
                written_at = time.monotonic()
            if state.answer is not None or self._gateway.wakes.released:
                return
            if time.monotonic() - written_at >= HEARTBEAT_S:
                await write(PING)
                written_at = time.monotonic()
            await self._sleep(state)
            try:
                with suppress(Unavailable):
                    state = await self._gateway.run(state_of_sent, state.query, self._gateway)
            except Problem:  # cancelled
                break
        step = {"query_id": self._query_id, "status": "cancelled"}
        await write(event("cancelled", self._id(), step))

    async def _sleep(self, state: QueryState) -> None:
        """Sleep until the query is announced, or until it is time to read it anyway."""
        left_s = state.query.deadline_at - time.time()
        seconds = min(left_s + 0.005, _TRUSTED_S if self._gateway.wakes.listening else _ALONE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(seconds, self._late_s)):
                await self._announced.wait()
        if left_s <= 0:
            self._late_s *= 2
        self._announced.clear()

    def _new_events(self, state: QueryState) -> bytes:
        """Return the events that the client has not seen yet."""
        begun = ("queued",) if state.status == "queued" else ("queued", "running")
        events = [
            event(step, self._id(), {"query_id": self._query_id, "status": step})
            for step in begun
            if self._is_new(step)
        ]
        for step in state.steps:
            if self._is_new(f"{step.channel}:{step.status}"):
                elapsed_ms = state.elapsed_ms.get(step.channel)
                events.append(event("channel", self._id(), channel_answered(self._query_id, step, elapsed_ms)))
        if state.answer is not None and self._is_new(_END):
            events.append(raw_event(_END, self._id(), state.answer))
        return b"".join(events)

    def _is_new(self, step: str) -> bool:
        if step in self._seen:
            return False
        self._seen.add(step)
        return True

    def _id(self) -> str:
        return "+".join(sorted(self._seen))
