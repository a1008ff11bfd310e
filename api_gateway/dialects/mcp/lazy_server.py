"""The MCP server of a gateway, made when the first agent comes: its package is a quarter of a gateway's imports."""

from __future__ import annotations

import asyncio
import importlib
from typing import TYPE_CHECKING

from anyio import to_thread

from api_gateway.gateway import Gateway
from api_gateway.http.problems import Problem

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


class McpOpening:
    """Opens once, and closes with the gateway. Everything that is opened is closed by the task that opened it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._ended = asyncio.Event()
        self._ready: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._task: asyncio.Task[None] | None = None

    async def manager(self) -> StreamableHTTPSessionManager:
        """What takes requests. Raises Problem 503 when the gateway is about to end."""
        if self._ended.is_set():
            raise Problem(503, "not_started", "The gateway is about to end.", headers={"Retry-After": "1"})
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._serve(self._ready))
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Take no more requests, and end."""
        self._ended.set()
        if self._task is not None:
            await self._task

    async def _serve(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            module = await to_thread.run_sync(importlib.import_module, "api_gateway.dialects.mcp.server")
            async with module.serving(self._gateway) as manager:
                ready.set_result(manager)
                await self._ended.wait()
        except Exception as error:
            if ready.done():
                raise
            self._ready = None  # the next one tries again
            ready.set_exception(error)
