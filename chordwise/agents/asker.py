"""Asking from code that is called now with a loop, now without, and may not know of clients: adapters and agents."""

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
    """Asks through the clients it is given, which stay their owner's to close; else through its own.

    Its own are made when they are first needed, of ``url``, ``api_key`` and ``timeout`` as `Chordwise` takes them, the
    asynchronous ones one for each event loop. Where only ``client`` is given, what is awaited uses it in a thread.
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
        self._making = threading.Lock()

    def ask(self, text: str, **options: Unpack[AskKeywords]) -> QueryResult:
        """As ``Chordwise.query``. Raises InvalidInput if only an asynchronous client was given."""
        return self._for_threads().query(text, **options)

    async def aask(self, text: str, **options: Unpack[AskKeywords]) -> QueryResult:
        """As ``AsyncChordwise.query``."""
        if self._async_client is None and self._client is not None:
            return await asyncio.to_thread(self._client.query, text, **options)
        return await self._for_this_loop().query(text, **options)

    def example_namespaces(self) -> list[str]:
        """Names of the namespaces that hold examples."""
        return [each.namespace for each in self._for_threads().namespaces(examples=True)]

    async def aexample_namespaces(self) -> list[str]:
        """The same, to be awaited."""
        if self._async_client is None and self._client is not None:
            return await asyncio.to_thread(self.example_namespaces)
        return [each.namespace for each in await self._for_this_loop().namespaces(examples=True)]

    def close(self) -> None:
        """Close the own client for threads; another is made if it is needed."""
        with self._making:
            own, self._own = self._own, None
        if own is not None:
            own.close()

    async def aclose(self) -> None:
        """Close the own clients for threads and for this loop."""
        self.close()
        with self._making:
            own = self._own_by_loop.pop(asyncio.get_running_loop(), None)
        if own is not None:
            await own.close()

    def _for_threads(self) -> Chordwise:
        if self._client is not None:
            return self._client
        if self._async_client is not None:
            raise InvalidInput("only an async_client was given: await the asynchronous method, or give a client too")
        with self._making:
            if self._own is None:
                self._own = Chordwise(self._url, self._api_key, self._timeout_s)
                weakref.finalize(self, self._own.close)  # nobody closes what a framework made
            return self._own

    def _for_this_loop(self) -> AsyncChordwise:
        if self._async_client is not None:
            return self._async_client
        loop = asyncio.get_running_loop()
        with self._making:
            if loop not in self._own_by_loop:
                self._forget_closed_loops()
                self._own_by_loop[loop] = AsyncChordwise(self._url, self._api_key, self._timeout_s)
            return self._own_by_loop[loop]

    def _forget_closed_loops(self) -> None:
        """A client with a connection holds on to its loop, so that no loop would ever be forgotten by itself."""
        for loop in [each for each in self._own_by_loop if each.is_closed()]:
            del self._own_by_loop[loop]


def listed(namespaces: Iterable[str] | str) -> tuple[str, ...]:
    """Namespaces as a tuple, each once. Raises InvalidInput if there is none, or something that is no name."""
    names = (namespaces,) if isinstance(namespaces, str) else tuple(namespaces)
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput("name at least one namespace")
    return tuple(dict.fromkeys(names))
