"""The stream of a job's events, resumed after a broken connection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from chordwise.api.jobs import Job, JobError
from chordwise.errors import ChordwiseError, ConnectionFailed, UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.resource import path
from chordwise.retries import RetryPolicy, problem
from chordwise.transport import Answer, Call, NoAnswer, no_answer

SILENCE_S = 50.0  # the server sends something every 15 s; a longer silence means a broken connection
_STREAM = "text/event-stream"


class JobEvent(Result):
    """One event of a job. ``kind``: progress, item_failed or finished.

    ``job`` is its state (of the last progress, for item_failed), ``error`` the document that failed. ``rate`` is in
    documents a second, ``eta_seconds`` the time to the end; both are None while there is too little data.
    """

    kind: str
    id: str = ""
    job: Job
    error: JobError | None = None
    rate: float | None = None
    eta_seconds: int | None = None


@dataclass(slots=True)
class Follower:
    """The state of following one job across connections, free of I/O for both clients."""

    job_id: str
    policy: RetryPolicy
    last_id: str = ""
    retry_s: float = 2.0
    failures: int = 0
    finished: bool = False
    clock: Callable[[], float] = time.monotonic
    _job: Job = field(init=False)
    _fields: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._job = Job(job_id=self.job_id)

    def request(self, timeout_s: float) -> dict[str, Any]:
        """Return the arguments for ``stream`` of an httpx client."""
        headers = {"Accept": _STREAM, "Cache-Control": "no-store"}
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
        return {
            "method": "GET",
            "url": path("jobs", self.job_id, "events"),
            "headers": headers,
            "timeout": httpx.Timeout(timeout_s, read=SILENCE_S, connect=min(timeout_s, 10.0)),
        }

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
        """Return the delay after the server closed the stream normally."""
        self._fields.clear()
        return self.retry_s

    def read(self, line: str) -> JobEvent | None:
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
        event = self._event(fields)
        self.last_id = fields.get("id", self.last_id)
        self.failures = 0
        self.finished = event.kind == "finished"
        return event

    def _event(self, fields: Mapping[str, str]) -> JobEvent:
        kind = fields.get("event", "message")
        try:
            data = json.loads(fields["data"])
        except ValueError:
            raise UnexpectedAnswer(f"an event of the kind {kind} is not JSON") from None
        error, speed = None, _Speed()
        if kind == "item_failed":
            error = decode(JobError, data)
        elif kind in ("progress", "finished"):
            self._job, speed = decode(Job, data), decode(_Speed, data)
        return JobEvent(
            kind=kind,
            id=fields.get("id", ""),
            job=self._job,
            error=error,
            rate=speed.rate,
            eta_seconds=speed.eta_seconds,
            raw=data if isinstance(data, dict) else {},
        )

    def _delay_s(self, outcome: Answer | NoAnswer, error: ChordwiseError) -> float:
        """Return the delay before the next attempt. Raises ``error`` if there is none."""
        self._fields.clear()
        self.failures += 1
        if isinstance(outcome, NoAnswer) and outcome.timed_out:
            delay_s = self.retry_s if self.failures <= self.policy.retries else None
        else:
            delay_s = self.policy.delay_s(Call(method="GET", path=""), outcome, self.failures)
        if not delay_s:
            raise error
        return delay_s


class _Speed(Result):
    rate: float | None = None
    eta_seconds: int | None = None
