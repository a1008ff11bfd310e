"""The synchronous client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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


class Chordwise(Operations):
    """A connection to one Chordwise server with one API key. Safe to share between threads; close it, or use ``with``.

    ``url`` and ``api_key`` default to CHORDWISE_URL and CHORDWISE_API_KEY. ``timeout`` is in seconds, for one request
    and by default for a whole query. A request is repeated up to four times after a broken connection or 429, and for
    ``timeout``, or until a query's deadline, while the server is down; ``retries`` limits both. A request that must not
    run twice is not repeated.

    Every method raises ProblemError if the server refuses, ConnectionFailed or Timeout if it does not answer, and
    UnexpectedAnswer if something else answers; all are ChordwiseError. Creating the client raises NotConfigured.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout: float = 30.0, *, retries: int | None = None
    ) -> None:
        super().__init__(policy_of(retries, timeout), timeout_s=timeout)
        server = from_environment()
        self._http = httpx.Client(**client_arguments(url or server.url, api_key or server.api_key))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the client cannot be used afterwards."""
        self._http.close()

    @overload
    def wait(
        self, job: Ingestion, *, timeout: float | None = None, on_progress: Callable[[Ingestion], None] | None = None
    ) -> Ingestion: ...
    @overload
    def wait(
        self, job: Job | str, *, timeout: float | None = None, on_progress: Callable[[Job], None] | None = None
    ) -> Job: ...
    def wait(self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None) -> Any:
        """Wait until a job, given as such or by id, or every job of an ingestion is final, and return its final state.

        A job with failures is returned, not raised. Raises Timeout after ``timeout`` seconds; None waits without limit.
        ``on_progress`` is called about once a second with the current state.
        """
        return self._run(self._wait(job, timeout=timeout, on_progress=on_progress))

    def events(self, job: Job | str) -> Iterator[JobEvent]:
        """Yield the events of a job until it has ended: ``progress``, ``item_failed`` and ``finished``.

        A broken connection is resumed without losing events. Raises ConnectionFailed after too many failures in a row, and
        ProblemError with status 404 for an unknown job.
        """
        return self._follow(Follower(job.job_id if isinstance(job, Job) else job, PATIENT))

    def stream_answer(self, query: QueryResult | str, *, timeout: float = 30.0) -> Iterator[AnswerEvent]:
        """Have the server's language model answer a query from its hits, as ``write_answer`` does, and yield the text as it is
        written: events ``text`` with the next part in ``delta``, then ``finished`` with the ``answer``.

        Only the last event has checked citations; its text may differ, or be missing with the reason in ``degradations``.
        Leaving the loop stops the model. Raises ConnectionFailed for a stream that breaks, ProblemError with status 409
        without a language model.
        """
        return self._follow(AnswerEvents(query, self._policy, timeout_s=timeout))

    def _follow(self, stream: EventStream[E]) -> Iterator[E]:
        while not stream.finished:
            try:
                with self._http.stream(**stream.request(self._timeout_s)) as response:
                    if stream.is_stream(response):
                        for line in response.iter_lines():
                            if (event := stream.read(line)) is not None:
                                yield event
                            if stream.finished:
                                return
                        delay_s = stream.ended()
                    elif stream.finished:
                        return
                    else:
                        response.read()
                        delay_s = stream.refused(answer(response))
            except httpx.HTTPError as error:
                delay_s = stream.broken(error)
            time.sleep(delay_s)

    def _run(self, steps: Steps[T]) -> T:
        outcome: Outcome | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return cast(T, end.value)
            if isinstance(step, Call):
                outcome = self._send(step)
            else:
                time.sleep(step)
                outcome = None

    def _send(self, call: Call) -> Outcome:
        try:
            return answer(self._http.request(**request_arguments(call, self._timeout_s)))
        except httpx.HTTPError as error:
            return no_answer(error)
