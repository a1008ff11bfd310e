"""A stream of events from the server, free of I/O: both clients read it, and resume it where the server can."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import httpx

from chordwise.errors import ChordwiseError, ConnectionFailed, UnexpectedAnswer
from chordwise.retries import RetryPolicy, problem
from chordwise.transport import Answer, Call, NoAnswer, no_answer, request_arguments

E = TypeVar("E")

SILENCE_S = 50.0  # the server sends something every 15 s; a longer silence means a broken connection
_STREAM = "text/event-stream"


class EventStream(ABC, Generic[E]):
    """The state of reading one stream across connections. ``finished``: its last event was read."""

    def __init__(self, call: Call, policy: RetryPolicy) -> None:
        self._call = call
        self._policy = policy
        self._fields: dict[str, str] = {}
        self.last_id = ""
        self.retry_s = 2.0
        self.failures = 0
        self.finished = False

    @abstractmethod
    def event(self, kind: str, event_id: str, data: Any) -> E | None:
        """Return the event with this content, None for one to ignore. Sets ``finished`` with the last one."""

    def request(self, timeout_s: float) -> dict[str, Any]:
        """Return the arguments for ``stream`` of an httpx client."""
        arguments = request_arguments(self._call, timeout_s)
        arguments["headers"] |= {"Accept": _STREAM, "Cache-Control": "no-store"}
        if self.last_id:
            arguments["headers"]["Last-Event-ID"] = self.last_id
        arguments["timeout"] = httpx.Timeout(timeout_s, read=SILENCE_S, connect=min(timeout_s, 10.0))
        return arguments

    def is_stream(self, response: httpx.Response) -> bool:
        """Return whether the response is a stream of events. Sets ``finished`` if the end was already delivered."""
        if response.status_code == 204:
            self.finished = True
            return False
        if response.status_code != 200:
            return False
        if not response.headers.get("content-type", "").startswith(_STREAM):
            raise UnexpectedAnswer("the server does not answer with a stream of events")
        return True

    def refused(self, answer: Answer) -> float:
        """Return the delay in seconds before the next attempt. Raises ProblemError if none is worthwhile."""
        return self._delay_s(answer, problem(answer))

    def broken(self, error: httpx.HTTPError) -> float:
        """Return the delay after a broken connection. Raises ConnectionFailed after too many in a row."""
        outcome = no_answer(error)
        return self._delay_s(outcome, ConnectionFailed(f"the stream of events broke: {outcome.reason}"))

    def ended(self) -> float:
        """Return the delay after the server closed the stream normally, but before its last event. Raises ConnectionFailed
        for a stream that cannot be resumed."""
        if not self._call.safe:
            raise ConnectionFailed("the stream of events ended too early")
        self._fields.clear()
        return self.retry_s

    def read(self, line: str) -> E | None:
        """Parse one line of the stream; return the event that it completes, if any."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "retry" and value.isascii() and value.isdigit():
                self.retry_s = min(int(value[:9]) / 1000, 60.0)
            elif name == "data" and "data" in self._fields:
                self._fields["data"] += "\n" + value
            elif name:
                self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        kind, event_id = fields.get("event", "message"), fields.get("id", "")
        try:
            data = json.loads(fields["data"])
        except ValueError:
            raise UnexpectedAnswer(f"an event of the kind {kind} is not JSON") from None
        event = self.event(kind, event_id, data)
        self.last_id = event_id or self.last_id
        self.failures = 0
        return event

    def _delay_s(self, outcome: Answer | NoAnswer, error: ChordwiseError) -> float:
        """Return the delay before the next attempt. Raises ``error`` if there is none."""
        self._fields.clear()
        self.failures += 1
        if self._call.safe and isinstance(outcome, NoAnswer) and outcome.timed_out:
            delay_s = self.retry_s if self.failures <= self._policy.retries else None
        else:
            delay_s = self._policy.delay_s(self._call, outcome, self.failures)
        if not delay_s:
            raise error
        return delay_s
