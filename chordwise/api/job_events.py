"""The stream of a job's events, resumed after a broken connection."""

from __future__ import annotations

from typing import Any

from chordwise.api.jobs import Job, JobError
from chordwise.event_stream import EventStream
from chordwise.records import Result, decode
from chordwise.resource import path
from chordwise.retries import RetryPolicy
from chordwise.transport import Call


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


class Follower(EventStream[JobEvent]):
    """The events of one job."""

    def __init__(self, job_id: str, policy: RetryPolicy) -> None:
        super().__init__(Call(method="GET", path=path("jobs", job_id, "events")), policy)
        self._job = Job(job_id=job_id)

    def event(self, kind: str, event_id: str, data: Any) -> JobEvent:
        """Return the event; it carries the state of the last progress if it has none."""
        error, speed = None, _Speed()
        if kind == "item_failed":
            error = decode(JobError, data)
        elif kind in ("progress", "finished"):
            self._job, speed = decode(Job, data), decode(_Speed, data)
        self.finished = kind == "finished"
        raw = data if isinstance(data, dict) else {}
        return JobEvent(
            kind=kind, id=event_id, job=self._job, error=error, rate=speed.rate, eta_seconds=speed.eta_seconds, raw=raw
        )


class _Speed(Result):
    rate: float | None = None
    eta_seconds: int | None = None
