"""Queries for adapters and agents, which are called from threads and from event loops alike."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Iterable
from typing import Unpack

from chordwise.api.queries import AskKeywords, QueryResult
from chordwise.async_client import AsyncChordwise
from chordwise.client import Chordwise
from chordwise.errors import InvalidInput


class Asker:
    """Runs queries through the given clients, which their owner closes, or else through clients of its own.

    Its own clients are created on first use from ``url``, ``api_key`` and ``timeout`` as `Chordwise` takes them, one
    asynchronous client for each event loop. If only ``client`` is given, awaited calls use it in a thread.
    """

    def __init__(
        self,
        *,
        client: Chordwise | None = None,
        async_client: AsyncChordwise | None = None,
        url: str | None = None,
        api_key: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._client = client
        self._async_client = async_client
        self._url, self._api_key, self._timeout_s = url, api_key, timeout
        self._own: Chordwise | None = None
        self._own_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncChordwise] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def ask(self, text: str, **options: Unpack[AskKeywords]) -> QueryResult:
        """Query as ``Chordwise.query``. Raises InvalidInput if only an asynchronous client was given."""
        return self._for_threads().query(text, **options)

    async def aask(self, text: str, **options: Unpack[AskKeywords]) -> QueryResult:
        """Query as ``AsyncChordwise.query``."""
        if self._async_client is None and self._client is not None:
            return await asyncio.to_thread(self._client.query, text, **options)
        return await self._for_this_loop().query(text, **options)

    def example_namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold examples."""
        return [info.namespace for info in self._for_threads().namespaces(examples=True)]

    async def aexample_namespaces(self) -> list[str]:
        """Return the names of the namespaces that hold examples, asynchronously."""
        if self._async_client is None and self._client is not None:
            return await asyncio.to_thread(self.example_namespaces)
        return [info.namespace for info in await self._for_this_loop().namespaces(examples=True)]

    def close(self) -> None:
        """Close the own client for threads; the next query creates another."""
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    async def aclose(self) -> None:
        """Close the own clients for threads and for this loop."""
        self.close()
        with self._lock:
            own = self._own_by_loop.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.close()

    def _for_threads(self) -> Chordwise:
        if self._client is not None:
            return self._client
        if self._async_client is not None:
            raise InvalidInput("only an async_client was given: await the asynchronous method, or give a client too")
        with self._lock:
            if self._own is None:
                self._own = Chordwise(self._url, self._api_key, self._timeout_s)
                weakref.finalize(self, self._own.close)  # a framework does not close what it created
            return self._own

    def _for_this_loop(self) -> AsyncChordwise:
        if self._async_client is not None:
            return self._async_client
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop not in self._own_by_loop:
                # A client with a connection references its loop, so weak keys alone do not expire.
                for closed in [other for other in self._own_by_loop if other.is_closed()]:
                    del self._own_by_loop[closed]
                self._own_by_loop[loop] = AsyncChordwise(self._url, self._api_key, self._timeout_s)
            return self._own_by_loop[loop]


class OwnsConnections:
    """Base of adapters that run their queries through an Asker of their own."""

    _asker: Asker

    def close(self) -> None:
        """Close the own connections."""
        self._asker.close()

    async def aclose(self) -> None:
        """Close the own connections, those of this event loop too."""
        await self._asker.aclose()


def listed(namespaces: Iterable[str] | str) -> tuple[str, ...]:
    """Return namespaces as a tuple without repeats. Raises InvalidInput if there is none, or for an invalid name."""
    names = (namespaces,) if isinstance(namespaces, str) else tuple(namespaces)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput("name at least one namespace")
    return tuple(dict.fromkeys(names))
