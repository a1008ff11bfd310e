"""Poll a value that no message announces, once for all requests that wait for it."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect

from api_gateway.http.caller import Caller
from api_gateway.live.wakes import disconnected

T = TypeVar("T")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


async def until(caller: Caller, name: str, read: Callable[[], T], is_settled: Callable[[T], bool], seconds: float) -> T:
    """Return the result of ``read`` once it is settled or the time is over. ``name``: a cache key that begins with the
    tenant; callers share a read if they have the same principals."""

    gateway = caller.gateway

    async def look() -> T:
        return await gateway.shared_reads.read((name, caller.reads_as), lambda: gateway.run(read))

    value = await look()
    if seconds <= 0 or is_settled(value):
        return value
    loop = asyncio.get_running_loop()
    ends_at, pause_s = loop.time() + seconds, _FIRST_PAUSE_S
    with gateway.wakes.watch(name):  # counted among the waiting requests
        gone = asyncio.ensure_future(disconnected(caller.request.receive))
        try:
            while not is_settled(value) and (left_s := ends_at - loop.time()) > 0 and not gateway.wakes.released:
                await asyncio.wait({gone}, timeout=min(pause_s, left_s))
                if gone.done():
                    raise ClientDisconnect
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                value = await look()
        finally:
            gone.cancel()
    return value
