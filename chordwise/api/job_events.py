"""Following a job: the stream of its events, and how it goes on after a broken connection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from chordwise.api.jobs import Job, JobError
from chordwise.errors import ChordwiseError, ConnectionFailed, UnexpectedAnswer
from chordwise.records import Result, decode
from chordwise.retries import RetryPolicy, problem
from chordwise.transport import Answer, Call, NoAnswer, no_answer

SILENCE_S = 50.0  # the server says something every 15 s; a connection that is silent for so long is broken
_STREAM = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Result):
    """Something that happened to a job. ``kind``: progress, item_failed or finished.

    ``job`` is how it stands (of the last progress, for item_failed), ``error`` the document that failed. ``rate`` is in
    documents a second and ``eta_seconds`` until the end; both are None while too little is known.
    """

    kind: str
    id: str = ""
    job: Job
    error: JobError | None = None
    rate: float | None = None
    eta_seconds: int | None = None


@dataclass(slots=True)
class Follower:
    """What one who follows a job knows, whatever connection it came by."""

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
        """What to call ``stream`` of an httpx client with."""
        headers = {"Accept": _STREAM, "Cache-Control": "no-store"}
        if self.last_id:
            headers["Last-Event-ID"] = self.last_id
        return {
            "method": "GET",
            "url": f"/v1/jobs/{quote(self.job_id, safe='', errors='surrogatepass')}/events",
            "headers": headers,
            "timeout": httpx.Timeout(timeout_s, read=SILENCE_S, connect=min(timeout_s, 10.0)),
        }

    def is_stream(self, response: httpx.Response) -> bool:
        """Whether events will come. False if the job ended and its end has been told."""
        if response.status_code == 204:
            self.finished = True
            return False
        if response.status_code != 200:
            return False
        if not response.headers.get("content-type", "").startswith(_STREAM):
            raise UnexpectedAnswer("the server does not answer with a stream of events")
        return True

    def refused(self, answer: Answer) -> float:
        """How long to wait before another attempt. Raises ProblemError for what will not get better."""
        return self._again(answer) or self._give_up(problem(answer))

    def broken(self, error: httpx.HTTPError) -> float:
        """The same after a broken connection. Raises ConnectionFailed after too many without a word in between."""
        reason = no_answer(error)
        return self._again(reason) or self._give_up(ConnectionFailed(f"the stream of events broke: {reason.reason}"))

    def ended(self) -> float:
        """The same after the server ended the stream in good order."""
        self._fields.clear()
        return self.retry_s

    def read(self, line: str) -> JobEvent | None:
        """Take one line of the stream; gives the event that it completes, if it does."""
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
        if kind == "item_failed":
            error = decode(JobError, data)
            return JobEvent(kind=kind, id=fields.get("id", ""), job=self._job, error=error, raw=data)
        if kind in ("progress", "finished"):
            self._job = decode(Job, data)
            told = decode(_Pace, data)
            return JobEvent(
                kind=kind,
                id=fields.get("id", ""),
                job=self._job,
                rate=told.rate,
                eta_seconds=told.eta_seconds,
                raw=data,
            )
        return JobEvent(kind=kind, id=fields.get("id", ""), job=self._job, raw=data if isinstance(data, dict) else {})

    def _again(self, outcome: Answer | NoAnswer) -> float | None:
        self._fields.clear()
        self.failures += 1
        if isinstance(outcome, NoAnswer) and outcome.timed_out:
            return self.retry_s if self.failures <= self.policy.retries else None
        return self.policy.delay_s(Call(method="GET", path=""), outcome, self.failures)

    def _give_up(self, error: ChordwiseError) -> float:
        raise error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace(Result):
    rate: float | None = None
    eta_seconds: int | None = None
