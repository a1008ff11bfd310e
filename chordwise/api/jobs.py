"""Jobs: batches of documents on their way into the stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from chordwise.contract import job
from chordwise.event_stream import EventStream
from chordwise.records import Result, decode
from chordwise.resource import LONGEST_HOLD_S, Resource, entries, given, operation, path
from chordwise.retries import PATIENT, RetryPolicy, exchange
from chordwise.transport import Call, Steps

if TYPE_CHECKING:
    from chordwise.api.files import LeftOut

FINAL_JOB_STATES = frozenset({"succeeded", "partly_failed", "failed", "cancelled"})
WATCHED_HOLD_S = 1.0  # the longest wait of one request while progress is reported


JobError = job.JobError
Renamed = job.Renamed
Match = job.FoundMatch
JobItem = job.Item
JobProgress = job.JobProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(job.Job):
    """One batch on its way into the stores. ``total``, ``succeeded``, ``failed`` and ``cancelled`` count documents,
    ``outcomes`` counts them by outcome; ``reused`` counts the chunks that needed no embedding. ``renamed`` is only in
    the answer that accepted the documents."""

    renamed: tuple[Renamed, ...] = ()

    @property
    def done(self) -> bool:
        """Return whether the job is final."""
        return self.status in FINAL_JOB_STATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingestion:
    """The jobs of one call of ``ingest``: several if the documents did not fit into one request.

    It has the counters of a job, summed over all of them. ``left_out``: files below the folders that were not sent.
    ``renamed``: the names that files were sent under, by the name that several of them have, or that is not UTF-8.
    """

    jobs: tuple[Job, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    renamed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """Return the id if there is exactly one job. Raises ValueError otherwise; see ``job_ids``."""
        if len(self.jobs) != 1:
            raise ValueError(f"this ingestion has {len(self.jobs)} jobs; use job_ids")
        return self.jobs[0].job_id

    @property
    def job_ids(self) -> tuple[str, ...]:
        """Return the id of every job, in the order they were sent."""
        return tuple(job.job_id for job in self.jobs)

    @property
    def status(self) -> str:
        """Return one status for all jobs: running until each is final, then theirs if they agree, else partly_failed."""
        states = {job.status for job in self.jobs}
        if not states:
            return "succeeded"
        if states <= FINAL_JOB_STATES:
            return states.pop() if len(states) == 1 else "partly_failed"
        return "queued" if states == {"queued"} else "running"

    @property
    def done(self) -> bool:
        """Return whether every job is final."""
        return all(job.done for job in self.jobs)

    @property
    def total(self) -> int:
        """Return the number of accepted documents."""
        return sum(job.total for job in self.jobs)

    @property
    def succeeded(self) -> int:
        """Return the number of searchable documents."""
        return sum(job.succeeded for job in self.jobs)

    @property
    def failed(self) -> int:
        """Return the number of failed documents, each with an entry in ``errors``."""
        return sum(job.failed for job in self.jobs)

    @property
    def cancelled(self) -> int:
        """Return the number of documents cancelled before they were ingested."""
        return sum(job.cancelled for job in self.jobs)

    @property
    def chunks(self) -> int:
        """Return the number of chunks of all documents."""
        return sum(job.chunks for job in self.jobs)

    @property
    def errors(self) -> tuple[JobError, ...]:
        """Return the errors of all documents."""
        return tuple(error for job in self.jobs for error in job.errors)


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
        self._job = decode(Job, {"job_id": job_id})

    def event(self, kind: str, event_id: str, data: Any) -> JobEvent:
        """Return the event; it carries the state of the last progress if it has none."""
        error, speed = None, None
        if kind == "item_failed":
            error = decode(JobError, data)
        elif kind in ("progress", "finished"):
            self._job, speed = decode(Job, data), decode(JobProgress, data)
        self.finished = kind == "finished"
        rate, eta_seconds = (None, None) if speed is None else (speed.rate, speed.eta_seconds)
        event = JobEvent(kind=kind, id=event_id, job=self._job, error=error, rate=rate, eta_seconds=eta_seconds)
        return event.received(data if isinstance(data, dict) else {})


class JobOperations(Resource):
    """Operations on jobs."""

    @operation
    def job(self, job_id: str) -> Steps[Job]:
        """Return the current state of a job."""
        return self._one(Job, "GET", path("jobs", job_id))

    @operation
    def jobs(
        self,
        *,
        status: str | Sequence[str] | None = None,
        namespace: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int | None = 100,
    ) -> Steps[list[Job]]:
        """List the latest jobs; ``limit`` None for all that the server retains. ``status``: one or several of queued, running,
        succeeded, partly_failed, failed and cancelled. ``since``, ``until``: of their creation."""
        statuses = [status] if isinstance(status, str) else status or ()
        filters = {"status": statuses, "namespace": namespace, "since": since, "until": until}
        return self._pages(Job, "/v1/jobs", filters, limit=limit)

    @operation
    def find(self, text: str, *, namespace: str | None = None, limit: int = 20) -> Steps[list[Match]]:
        """Find documents, refused items and jobs by part of a title, an id or a source; failures first."""
        params = given(text=text, namespace=namespace, limit=limit)
        return entries(Match, (yield from self._request("GET", "/v1/find", params=params)).json(), "/v1/find")

    @operation
    def job_items(
        self,
        job: Job | str,
        *,
        status: str | None = None,
        duplicates: bool = False,
        warned: bool = False,
        limit: int | None = 100,
    ) -> Steps[list[JobItem]]:
        """List the documents of a job with their outcomes; ``limit`` None for all. ``duplicates``: only those with the same
        bytes as an older document; ``warned``: only those with ``warnings``."""
        job_id = job if isinstance(job, str) else job.job_id
        chosen = {"duplicates": duplicates, "warned": warned}
        filters = {"status": status, **{name: "true" for name, asked in chosen.items() if asked}}
        return self._pages(JobItem, path("jobs", job_id, "items"), filters, limit=limit)

    @operation
    def cancel_job(self, job_id: str) -> Steps[Job]:
        """Cancel every unfinished document of a job. ProblemError with status 409 if the job has already ended."""
        return self._one(Job, "POST", path("jobs", job_id, "cancel"))

    @operation
    def retry_job(self, job_id: str) -> Steps[Job]:
        """Queue failed and cancelled documents again. ProblemError with status 409 if there are none."""
        return self._one(Job, "POST", path("jobs", job_id, "retry"))

    @operation
    def pause_job(self, job_id: str) -> Steps[Job]:
        """Keep workers from taking more documents of a job until it is resumed."""
        return self._one(Job, "POST", path("jobs", job_id, "pause"))

    @operation
    def resume_job(self, job_id: str) -> Steps[Job]:
        """Let workers continue a paused job."""
        return self._one(Job, "POST", path("jobs", job_id, "resume"))

    def _wait(
        self, job: Any, *, timeout: float | None = None, on_progress: Callable[[Any], None] | None = None
    ) -> Steps[Any]:
        """Poll until a job, or every job of an ingestion, is final; see ``Chordwise.wait``."""
        several = isinstance(job, Ingestion)
        deadline = self._clock() + (math.inf if timeout is None else timeout)
        jobs = list(job.jobs) if several else [job if isinstance(job, Job) else (yield from self._job(job, deadline))]
        for index, current in enumerate(jobs):
            while not current.done:
                began = self._clock()
                hold_s = max(0, math.ceil(min(WATCHED_HOLD_S if on_progress else LONGEST_HOLD_S, deadline - began)))
                current = yield from self._job(current.job_id, deadline, policy=PATIENT, hold_s=hold_s)
                jobs[index] = current
                if on_progress:
                    on_progress(replace(job, jobs=tuple(jobs)) if several else current)
                if not current.done:
                    yield from self._pause_between_polls(began, deadline, f"job {current.job_id}", current.status)
        return replace(job, jobs=tuple(jobs)) if several else jobs[0]

    def _job(self, job_id: str, deadline: float, *, policy: RetryPolicy | None = None, hold_s: float = 0) -> Steps[Job]:
        """Return a job once it is final, at the latest after ``hold_s``."""
        params = (("wait", f"{hold_s:g}"),) if hold_s else ()
        call = Call(method="GET", path=path("jobs", job_id), params=params, hold_s=hold_s)
        answer = yield from exchange(call, policy or self._policy, deadline=deadline, clock=self._clock)
        return decode(Job, answer.json())


def together(*ingestions: Ingestion) -> Ingestion:
    """Return one ingestion with the jobs of all."""
    return Ingestion(
        jobs=tuple(job for ingestion in ingestions for job in ingestion.jobs),
        left_out=tuple(file for ingestion in ingestions for file in ingestion.left_out),
        renamed={name: sent for ingestion in ingestions for name, sent in ingestion.renamed.items()},
    )


def failures(errors: Sequence[JobError], *, at_most: int = 3) -> str:
    """Return the first ``at_most`` errors as the end of a sentence, after a colon; empty without errors."""
    reasons = [
        f"{error.document_id or error.pointer or 'a document'}: {error.detail or error.code}"
        for error in errors[:at_most]
    ]
    if len(errors) > at_most:
        reasons.append(f"and {len(errors) - at_most} more")
    return f": {'; '.join(reasons)}" if reasons else ""
