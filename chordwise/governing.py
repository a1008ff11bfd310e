"""Looking at single things, and taking whole ones away."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chordwise.decoding import Result, decode
from chordwise.hooks import Webhook
from chordwise.requesting import Requesting, segment
from chordwise.results import DocumentInfo, Job
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
        """One document."""
        path = f"/v1/documents/{segment(document_id)}"
        return decode(DocumentInfo, (yield from self._request("GET", path, params={"namespace": namespace})).json())

    def job_items(
        self, job: Job | str, *, status: str | None, duplicates: bool, limit: int | None
    ) -> Steps[list[JobItem]]:
        """The documents of a job."""
        job_id = job if isinstance(job, str) else job.job_id
        wanted = {"status": status, "duplicates": "true" if duplicates else None}
        return self._pages(JobItem, f"/v1/jobs/{segment(job_id)}/items", wanted, limit=limit)

    def webhook(self, webhook_id: str) -> Steps[Webhook]:
        """One endpoint."""
        return decode(Webhook, (yield from self._request("GET", f"/v1/webhooks/{segment(webhook_id)}")).json())

    def delete_namespace(self, namespace: str) -> Steps[NamespaceDeletion]:
        """A namespace with all that is in it. Asked again, it goes on."""
        answer = yield from self._request("DELETE", f"/v1/namespaces/{segment(namespace)}")
        return decode(NamespaceDeletion, answer.json())


class GovernMethods:
    """The methods of ``Chordwise`` that look and take away."""

    _operations: GovernOperations
    _run: Callable[[Steps[Any]], Any]

    def document(self, document_id: str, *, namespace: str) -> DocumentInfo:
        """A document as it is listed; one that is not there raises ProblemError with status 404."""
        found: DocumentInfo = self._run(self._operations.document(document_id, namespace=namespace))
        return found

    def job_items(
        self, job: Job | str, *, status: str | None = None, duplicates: bool = False, limit: int | None = 100
    ) -> list[JobItem]:
        """The documents of a job, each with what became of it; ``limit`` None for all. ``duplicates``: only those with the
        same bytes as an older document."""
        found: list[JobItem] = self._run(
            self._operations.job_items(job, status=status, duplicates=duplicates, limit=limit)
        )
        return found

    def webhook(self, webhook_id: str) -> Webhook:
        """One endpoint that is told how jobs end."""
        found: Webhook = self._run(self._operations.webhook(webhook_id))
        return found

    def delete_namespace(self, namespace: str) -> NamespaceDeletion:
        """Take a namespace away with all its documents, also those on their way."""
        found: NamespaceDeletion = self._run(self._operations.delete_namespace(namespace))
        return found


class AsyncGovernMethods:
    """The methods of ``AsyncChordwise`` that look and take away."""

    _operations: GovernOperations
    _run: Callable[[Steps[Any]], Coroutine[Any, Any, Any]]

    async def document(self, document_id: str, *, namespace: str) -> DocumentInfo:
        """See ``Chordwise.document``."""
        found: DocumentInfo = await self._run(self._operations.document(document_id, namespace=namespace))
        return found

    async def job_items(
        self, job: Job | str, *, status: str | None = None, duplicates: bool = False, limit: int | None = 100
    ) -> list[JobItem]:
        """See ``Chordwise.job_items``."""
        found: list[JobItem] = await self._run(
            self._operations.job_items(job, status=status, duplicates=duplicates, limit=limit)
        )
        return found

    async def webhook(self, webhook_id: str) -> Webhook:
        """See ``Chordwise.webhook``."""
        found: Webhook = await self._run(self._operations.webhook(webhook_id))
        return found

    async def delete_namespace(self, namespace: str) -> NamespaceDeletion:
        """See ``Chordwise.delete_namespace``."""
        found: NamespaceDeletion = await self._run(self._operations.delete_namespace(namespace))
        return found
