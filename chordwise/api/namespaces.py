"""Looking at single things, and taking whole ones away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from chordwise.api.results import DocumentInfo, Job
from chordwise.api.webhooks import Webhook
from chordwise.records import Result
from chordwise.resource import Requesting, segment
from chordwise.transport import Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class JobItem(Result):
    """One document of a job. ``outcome``: what it came to, None before it has ended; ``code`` and ``detail``: why it failed;
    ``ordinal`` counts from 0 in the order they were sent. ``encoding``: the character encoding its bytes were read in, with
    the probability that its text is right, and a warning if that is doubtful. ``requested_id``: the id it was sent with, if
    it has another one. ``duplicate_of``: the oldest document with the same bytes."""

    ordinal: int
    status: str = "queued"
    stage: str = ""
    document_id: str | None = None
    requested_id: str | None = None
    duplicate_of: str | None = None
    outcome: str | None = None
    chunks: int = 0
    reused: int = 0
    attempts: int = 0
    code: str | None = None
    detail: str | None = None
    pointer: str | None = None
    updated_at: datetime | None = None
    encoding: str | None = None
    encoding_probability: float | None = None
    encoding_warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceDeletion(Result):
    """How much went with a namespace."""

    namespace: str
    documents: int = 0
    generations: int = 0


class GovernOperations(Requesting):
    """The part of ``Operations`` that looks and takes away."""

    def document(self, document_id: str, *, namespace: str) -> Steps[DocumentInfo]:
        """A document as it is listed; one that is not there raises ProblemError with status 404."""
        path = f"/v1/documents/{segment(document_id)}"
        return self._one(DocumentInfo, "GET", path, params={"namespace": namespace})

    def job_items(
        self, job: Job | str, *, status: str | None = None, duplicates: bool = False, limit: int | None = 100
    ) -> Steps[list[JobItem]]:
        """The documents of a job, each with what became of it; ``limit`` None for all. ``duplicates``: only those with the
        same bytes as an older document."""
        job_id = job if isinstance(job, str) else job.job_id
        wanted = {"status": status, "duplicates": "true" if duplicates else None}
        return self._pages(JobItem, f"/v1/jobs/{segment(job_id)}/items", wanted, limit=limit)

    def webhook(self, webhook_id: str) -> Steps[Webhook]:
        """One endpoint that is told how jobs end."""
        return self._one(Webhook, "GET", f"/v1/webhooks/{segment(webhook_id)}")

    def delete_namespace(self, namespace: str) -> Steps[NamespaceDeletion]:
        """Take a namespace away with all its documents, also those on their way."""
        return self._one(NamespaceDeletion, "DELETE", f"/v1/namespaces/{segment(namespace)}")
