"""The asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, TypeVar, cast, overload

import httpx

from chordwise.api.explanations import AnswerEvent, AnswerEvents
from chordwise.api.jobs import Follower, Ingestion, Job, JobEvent
from chordwise.api.queries import QueryResult
from chordwise.config import from_environment
from chordwise.event_stream import EventStream
from chordwise.operations import Operations
from chordwise.retries import PATIENT, policy_of
from chordwise.transport import Call, Outcome, Steps, answer, client_arguments, no_answer, request_arguments

E = TypeVar("E")
T = TypeVar("T")


class AsyncChordwise(Operations):
    """``Chordwise`` for asyncio: the same methods, arguments, results and errors, to be awaited.

    Belongs to one event loop; use ``async with``, or close it. Reading files blocks the loop, so hand large ones to
    ``Chordwise`` in a thread. Callbacks such as ``on_progress`` are plain functions.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout: float = 30.0, *, retries: int | None = None
    ) -> None:
        super().__init__(policy_of(retries, timeout), timeout_s=timeout)
        server = from_environment()
        self._http = httpx.AsyncClient(**client_arguments(url or server.url, api_key or server.api_key))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """See ``Chordwise.close``."""
        await self._http.aclose()

    @overload
    async def wait(
        self, job: Ingestion, *, timeout: float | None = None, on_progress: Callable[[Ingestion], None] | None = None
    ) -> Ingestion: ...
    @overload
    async def wait(
        self, job: Job | str, *, timeout: float | None = None, on_progress: Callable[[Job], None] | None = None
    ) -> Job: ...
    async def wait(
        self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None
    ) -> Any:
        """See ``Chordwise.wait``."""
        return await self._run(self._wait(job, timeout=timeout, on_progress=on_progress))

    def events(self, job: Job | str) -> AsyncIterator[JobEvent]:
        """See ``Chordwise.events``; iterate with ``async for``."""
        return self._follow(Follower(job.job_id if isinstance(job, Job) else job, PATIENT))

    def stream_answer(self, query: QueryResult | str, *, timeout: float = 30.0) -> AsyncIterator[AnswerEvent]:
        """See ``Chordwise.stream_answer``; iterate with ``async for``."""
        return self._follow(AnswerEvents(query, self._policy, timeout_s=timeout))

    async def _follow(self, stream: EventStream[E]) -> AsyncIterator[E]:
        while not stream.finished:
            try:
                async with self._http.stream(**stream.request(self._timeout_s)) as response:
                    if stream.is_stream(response):
                        async for line in response.aiter_lines():
                            if (event := stream.read(line)) is not None:
                                yield event
                            if stream.finished:
                                return
                        delay_s = stream.ended()
                    elif stream.finished:
                        return
                    else:
                        await response.aread()
                        delay_s = stream.refused(answer(response))
            except httpx.HTTPError as error:
                delay_s = stream.broken(error)
            await asyncio.sleep(delay_s)

    async def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, Call):
                outcome = await self._send(step)
            else:
                await asyncio.sleep(step)
                outcome = None

    async def _send(self, call: Call) -> Outcome:
        try:
            return answer(await self._http.request(**request_arguments(call, self._timeout_s)))
        except httpx.HTTPError as error:
            return no_answer(error)
