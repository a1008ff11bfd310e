"""Accept documents: after the transaction in here, no crash of anything may lose one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipeline.flows.resources import Resources
from pipeline.records import DocumentId, Generation, JobId, Namespace, Priority, TenantId, Upload
from pipeline.stores.audit import Audit
from pipeline.stores.documents import Documents
from pipeline.stores.engines import Conflict
from pipeline.stores.jobs import Ledger, NewItem
from pipeline.stores.quotas import Limits, Quotas
from pipeline.stores.vector_stores import VectorStores
from pipeline.stores.work import unit_of_work

OnConflict = Literal["replace", "skip", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A document of the batch that cannot be taken, and why; it becomes a failed item, its neighbours are unharmed."""

    document_id: str | None
    code: str
    detail: str
    pointer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What one request submits, in its own order. Without a ``priority``, its size decides. ``job_id``: the id of the job
    it becomes, the same if the same request is accepted again, which then finds the job it made; else a new one."""

    tenant_id: TenantId
    namespace: Namespace
    request_id: str
    entries: Sequence[Upload | Refusal]
    on_conflict: OnConflict = "replace"
    priority: Priority | None = None
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A job that stands in the ledger. ``due``: how many of its items wait for a worker."""

    tenant_id: TenantId
    job_id: JobId
    request_id: str
    total: int
    due: int


@retry(
    retry=retry_if_exception_type(Conflict),
    stop=stop_after_attempt(5),
    wait=wait_random_exponential(multiplier=0.05, max=1),
    reraise=True,
)
def accept(
    batch: Batch,
    use: Resources,
    *,
    ring: Callable[[Ticket], None],
    together_with: Callable[[Connection, Ticket], None] | None = None,
) -> Ticket:
    """Write the job with its documents in one transaction, then ring for the workers.

    ``ring`` is called after the commit and may fail without harm: the sweeper rings again. Raises StoreUnavailable
    when MySQL does not answer, QuotaExceeded or QueueFull; then nothing was accepted. ``together_with`` writes what
    has to stand with the job or not at all; what it raises leaves this, and nothing was accepted.
    """
    job_id = batch.job_id or JobId(str(uuid.uuid4()))
    with unit_of_work(use.mysql) as work:
        if batch.job_id and (total := Ledger(work.connection, batch.tenant_id).total(job_id)) is not None:
            return Ticket(tenant_id=batch.tenant_id, job_id=job_id, request_id=batch.request_id, total=total, due=0)
        documents = Documents(work.connection, batch.tenant_id)
        uploads = [entry for entry in batch.entries if isinstance(entry, Upload)]
        ids = [upload.document_id for upload in uploads]
        only_new = batch.on_conflict != "replace"
        known = documents.existing(batch.namespace, ids) if only_new else set()
        numbered = documents.number(
            batch.namespace, [document_id for document_id in ids if document_id not in known], only_new=only_new
        )
        there = set(ids) - numbered.keys()  # with those that somebody brought while this waited for their rows
        last = {e.document_id: place for place, e in enumerate(batch.entries) if isinstance(e, Upload)}
        items = [_item(ordinal, entry, there, numbered, last, batch) for ordinal, entry in enumerate(batch.entries)]
        taken = [
            entry for entry in (batch.entries[place] for place in sorted(last.values())) if isinstance(entry, Upload)
        ]
        taken = [upload for upload in taken if upload.document_id in numbered]
        quotas(work.connection, batch.tenant_id, use).check(arriving=len(taken))
        documents.store(job_id, [(numbered[upload.document_id], upload) for upload in taken])
        Ledger(work.connection, batch.tenant_id).open(
            job_id, batch.namespace, batch.request_id, items, priority=_priority(batch, use)
        )
        ticket = Ticket(
            tenant_id=batch.tenant_id,
            job_id=job_id,
            request_id=batch.request_id,
            total=len(items),
            due=len(taken),
        )
        Audit(work.connection, batch.tenant_id).wrote(
            "ingest", namespaces=[batch.namespace], ids=[job_id], count=len(taken), total=len(items)
        )
        VectorStores(work.connection, batch.tenant_id).touch([batch.namespace])
        if together_with is not None:
            together_with(work.connection, ticket)
        work.after_commit(lambda: ring(ticket))
    return ticket


def quota_use(tenant_id: TenantId, use: Resources) -> dict[str, tuple[int, int]]:
    """Each quota's limit, 0 for none, and how much of it is used."""
    with unit_of_work(use.mysql) as work:
        return quotas(work.connection, tenant_id, use).use()


def _priority(batch: Batch, use: Resources) -> Priority:
    small = len(batch.entries) <= use.settings.interactive_documents
    return batch.priority or (Priority.INTERACTIVE if small else Priority.BULK)


def quotas(connection: Connection, tenant_id: TenantId, use: Resources) -> Quotas:
    """The tenant's quotas, with the installation's as defaults."""
    limits = use.settings
    defaults = Limits(
        documents=limits.quota_documents,
        chunks=limits.quota_chunks,
        queued=limits.quota_queued,
        tokens=limits.quota_tokens,
    )
    return Quotas(connection, tenant_id, defaults, rooms=use.quota_rooms)


def _item(
    ordinal: int,
    entry: Upload | Refusal,
    there: set[DocumentId],
    numbered: dict[DocumentId, Generation],
    last: dict[DocumentId, int],
    batch: Batch,
) -> NewItem:
    if isinstance(entry, Refusal):
        return NewItem(
            ordinal=ordinal,
            document_id=entry.document_id,
            outcome="refused",
            error_code=entry.code,
            error_detail=entry.detail,
            error_pointer=entry.pointer,
        )
    if entry.document_id in there:
        if batch.on_conflict == "skip":
            return NewItem(ordinal=ordinal, document_id=entry.document_id, outcome="skipped")
        detail = f"document {entry.document_id} exists in namespace {batch.namespace} and on_conflict is error"
        return NewItem(
            ordinal=ordinal,
            document_id=entry.document_id,
            outcome="refused",
            error_code="document_exists",
            error_detail=detail,
        )
    if (later := last[entry.document_id]) != ordinal:
        detail = f"the same document_id stands later in this request, as number {later} counted from 0"
        return NewItem(ordinal=ordinal, document_id=entry.document_id, outcome="superseded", error_detail=detail)
    return NewItem(
        ordinal=ordinal,
        document_id=entry.document_id,
        generation=numbered[entry.document_id].number,
        body_bytes=len(entry.body),
    )
