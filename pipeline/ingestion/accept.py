"""Accept documents under their own or new ids. After the transaction no crash of any process loses one."""

import hashlib
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlalchemy import Connection

from chordwise.contract.job import JobError, Renamed
from pipeline.database.unit_of_work import UnitOfWork, retry_conflicts, unit_of_work
from pipeline.document_sources import with_hash
from pipeline.documents.document_store import Documents
from pipeline.documents.duplicate_store import Content, Duplicates
from pipeline.documents.reader_store import DocumentReaders
from pipeline.jobs.ledger_store import Ledger, NewItem
from pipeline.records import DocumentId, Generation, JobId, Namespace, Priority, TenantId, Upload
from pipeline.resources import Resources
from pipeline.tenants.answer_memory_store import QUOTA, answer_bytes, answer_limit
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.quota_store import QuotaLimits, Quotas
from pipeline.vector_stores.collection_store import VectorStores

OnConflict = Literal["replace", "skip", "error", "new"]
INTERACTIVE_DOCUMENTS = 20  # at most, for a job to count as interactive by itself
_DIGITS = (0, 8, 32)  # of the hash in an id; 0 is the id that was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One request's documents in order. Without ``priority`` its size decides. ``job_id``: of a repeatable request."""

    tenant_id: TenantId
    namespace: Namespace
    request_id: str
    entries: Sequence[Upload | JobError]
    on_conflict: OnConflict = "replace"
    priority: Priority | None = None
    job_id: JobId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedJob:
    """A job in the ledger. ``due``: how many of its items wait for a worker."""

    tenant_id: TenantId
    job_id: JobId
    request_id: str
    total: int
    due: int
    renamed: tuple[Renamed, ...] = ()


# The entries of a batch as items of its job, and the uploads among them that become generations.
_Numbered = tuple[Sequence[NewItem], Sequence[tuple[Generation, Upload]]]


@retry_conflicts()
def accept(
    batch: Batch,
    use: Resources,
    *,
    notify: Callable[[AcceptedJob], None],
    together_with: Callable[[Connection, AcceptedJob], None] | None = None,
) -> AcceptedJob:
    """Write the job with its documents in one transaction, then notify the workers.

    ``notify`` may fail: the sweeper sends later. ``together_with`` writes rows in the same transaction; its errors propagate.
    Raises StoreUnavailable, QuotaExceeded; then nothing was accepted."""
    job_id = batch.job_id or JobId(str(uuid.uuid4()))
    with unit_of_work(use.mysql) as work:
        ledger = Ledger(work.connection, batch.tenant_id)
        if batch.job_id and (total := ledger.total(job_id)) is not None:
            return AcceptedJob(
                tenant_id=batch.tenant_id,
                job_id=job_id,
                request_id=batch.request_id,
                total=total,
                due=0,
                renamed=ledger.renamed(job_id),
            )
        items = _store(batch, job_id, work, use)
        accepted = open_job(work, replace(batch, job_id=job_id), items, notify=notify)
        if together_with is not None:
            together_with(work.connection, accepted)
    return accepted


def accept_more(batch: Batch, job_id: JobId, work: UnitOfWork, use: Resources) -> None:
    """Add documents that an item of a job has brought to the same job, in a running transaction. Raises QuotaExceeded."""
    items = _store(batch, job_id, work, use)
    Ledger(work.connection, batch.tenant_id).extend(job_id, batch.namespace, items)


def _store(batch: Batch, job_id: JobId, work: UnitOfWork, use: Resources) -> Sequence[NewItem]:
    """Write the documents of a batch, and return them as items of the job."""
    documents = Documents(work.connection, batch.tenant_id)
    if batch.on_conflict == "new":
        items, uploads = _under_free_ids(batch, documents, Duplicates(work.connection, batch.tenant_id))
    else:
        items, uploads = _by_id(batch, documents)
    quotas(work.connection, batch.tenant_id, use).check(arriving=len(uploads))
    uploads = DocumentReaders(work.connection, batch.tenant_id).with_readers(batch.namespace, uploads)
    documents.store(job_id, uploads)
    Audit(work.connection, batch.tenant_id).wrote(
        "ingest", namespaces=[batch.namespace], ids=[job_id], count=len(uploads), total=len(items)
    )
    VectorStores(work.connection, batch.tenant_id).touch([batch.namespace])
    return items


def open_job(
    work: UnitOfWork, batch: Batch, items: Sequence[NewItem], *, notify: Callable[[AcceptedJob], None]
) -> AcceptedJob:
    """Write the batch's job with these items in a running transaction, and notify workers of it after the commit."""
    assert batch.job_id is not None
    few = len(items) <= INTERACTIVE_DOCUMENTS
    priority = batch.priority or (Priority.INTERACTIVE if few else Priority.BULK)
    Ledger(work.connection, batch.tenant_id).open(
        batch.job_id, batch.namespace, batch.request_id, items, priority=priority
    )
    accepted = AcceptedJob(
        tenant_id=batch.tenant_id,
        job_id=batch.job_id,
        request_id=batch.request_id,
        total=len(items),
        due=sum(new.generation is not None for new in items),
        renamed=tuple(
            Renamed(ordinal=new.ordinal, requested_id=new.requested_id, document_id=new.document_id)
            for new in items
            if new.requested_id and new.document_id
        ),
    )
    work.after_commit(lambda: notify(accepted))
    return accepted


def quota_use(tenant_id: TenantId, use: Resources) -> dict[str, tuple[int, int]]:
    """Return each quota's limit, 0 for none, and its present use. Raises StoreUnavailable."""
    limit = answer_limit(use.redis_memory(), use.settings.quota_answer_bytes)
    answers = {QUOTA: (limit, answer_bytes(use.redis, tenant_id))}
    with unit_of_work(use.mysql) as work:
        return quotas(work.connection, tenant_id, use).use() | answers


def quotas(connection: Connection, tenant_id: TenantId, use: Resources) -> Quotas:
    """Return the tenant's quotas, with the installation's as defaults."""
    limits = use.settings
    defaults = QuotaLimits(
        documents=limits.quota_documents,
        chunks=limits.quota_chunks,
        queued=limits.quota_queued,
        tokens=limits.quota_tokens,
    )
    return Quotas(connection, tenant_id, defaults, rooms=use.quota_rooms)


def _by_id(batch: Batch, documents: Documents) -> _Numbered:
    """Assign generation numbers to the uploads under their own ids. Existing documents are replaced, skipped or refused."""
    uploads = {ordinal: entry for ordinal, entry in enumerate(batch.entries) if isinstance(entry, Upload)}
    last = {upload.document_id: ordinal for ordinal, upload in uploads.items()}
    ids = [upload.document_id for upload in uploads.values()]
    only_new = batch.on_conflict != "replace"
    existing = documents.existing(batch.namespace, ids) if only_new else set()
    numbered = documents.number(
        batch.namespace, [document_id for document_id in ids if document_id not in existing], only_new=only_new
    )
    return [_item(ordinal, entry, numbered, last, batch) for ordinal, entry in enumerate(batch.entries)], [
        (numbered[upload.document_id], upload)
        for ordinal, upload in uploads.items()
        if upload.document_id in numbered and ordinal == last[upload.document_id]
    ]


def _under_free_ids(batch: Batch, documents: Documents, duplicates: Duplicates) -> _Numbered:
    """Assign generation numbers to the uploads under free ids."""
    uploads = {ordinal: entry for ordinal, entry in enumerate(batch.entries) if isinstance(entry, Upload)}
    assigned = assign_ids(documents, duplicates, batch.namespace, uploads)
    items: list[NewItem] = []
    for ordinal, entry in enumerate(batch.entries):
        if isinstance(entry, JobError):
            items.append(_refused(ordinal, entry))
            continue
        document_id = assigned.ids.get(ordinal) or assigned.duplicated.get(ordinal)
        if document_id is None:
            items.append(_exists(ordinal, entry, batch, "every id made from its bytes belongs to another document"))
            continue
        requested = None if document_id == entry.document_id else entry.document_id
        if ordinal in assigned.duplicated:
            detail = f"document {document_id} has the same bytes; it was left as it is"
            new = NewItem(ordinal=ordinal, document_id=document_id, outcome="skipped", error_detail=detail)
        else:
            number = assigned.numbered[document_id].number
            new = NewItem(ordinal=ordinal, document_id=document_id, generation=number, body_bytes=len(entry.body))
        items.append(replace(new, requested_id=requested))
    return items, [
        (assigned.numbered[document_id], replace(uploads[ordinal], document_id=document_id))
        for ordinal, document_id in sorted(assigned.ids.items())
    ]


def _item(
    ordinal: int,
    entry: Upload | JobError,
    numbered: dict[DocumentId, Generation],
    last: dict[DocumentId, int],
    batch: Batch,
) -> NewItem:
    if isinstance(entry, JobError):
        return _refused(ordinal, entry)
    if entry.document_id not in numbered:  # it exists, or another request created it while this waited for the rows
        if batch.on_conflict == "skip":
            return NewItem(ordinal=ordinal, document_id=entry.document_id, outcome="skipped")
        return _exists(ordinal, entry, batch, "on_conflict is error")
    if (later := last[entry.document_id]) != ordinal:
        detail = f"the same document_id stands later in this request, as number {later} counted from 0"
        return NewItem(ordinal=ordinal, document_id=entry.document_id, outcome="superseded", error_detail=detail)
    return NewItem(
        ordinal=ordinal,
        document_id=entry.document_id,
        generation=numbered[entry.document_id].number,
        body_bytes=len(entry.body),
    )


def _refused(ordinal: int, entry: JobError) -> NewItem:
    return NewItem(
        ordinal=ordinal,
        document_id=entry.document_id,
        outcome="refused",
        error_code=entry.code,
        error_detail=entry.detail,
        error_pointer=entry.pointer,
    )


def _exists(ordinal: int, entry: Upload, batch: Batch, why: str) -> NewItem:
    detail = f"document {entry.document_id} exists in namespace {batch.namespace} and {why}"
    return _refused(ordinal, JobError(document_id=entry.document_id, code="document_exists", detail=detail))


@dataclass(slots=True)
class AssignedIds:
    """The ids of uploads by ordinal. ``duplicated``: ids of existing documents with the same bytes. Of an upload in
    neither, every possible id is taken."""

    ids: dict[int, DocumentId] = field(default_factory=dict)
    duplicated: dict[int, DocumentId] = field(default_factory=dict)
    numbered: dict[DocumentId, Generation] = field(default_factory=dict)


def assign_ids(
    documents: Documents, duplicates: Duplicates, namespace: Namespace, uploads: Mapping[int, Upload]
) -> AssignedIds:
    """Give each upload a generation number and an id that no document with other bytes has.

    It is the upload's own id if that is free, else the same with a suffix from the hash of its bytes: an upload of equal
    bytes finds its document. The documents stay locked until the transaction ends."""
    assigned = AssignedIds()
    earlier: dict[DocumentId, Content] = {}  # by earlier uploads of the same request
    waiting = dict(uploads)
    for digits in _DIGITS:
        wanted: defaultdict[DocumentId, list[int]] = defaultdict(list)
        for ordinal, upload in waiting.items():
            wanted[_id(upload, digits)].append(ordinal)
        candidates = wanted.keys() - earlier.keys()
        candidates -= documents.existing(namespace, candidates)
        numbered = documents.number(namespace, candidates, only_new=True) if candidates else {}
        contents = duplicates.contents(namespace, wanted.keys() - earlier.keys() - numbered.keys()) | earlier
        for document_id, ordinals in wanted.items():
            for ordinal in ordinals:
                upload = waiting[ordinal]
                if document_id in numbered and document_id not in contents:
                    assigned.ids[ordinal] = document_id
                    content = hashlib.sha256(upload.body).digest(), upload.source_uri
                    contents[document_id] = earlier[document_id] = content
                elif _is_same(upload, contents.get(document_id)):
                    assigned.duplicated[ordinal] = document_id
                else:
                    continue
                del waiting[ordinal]
        assigned.numbered |= numbered
        if not waiting:
            break
    return assigned


def _id(upload: Upload, digits: int) -> DocumentId:
    return DocumentId(with_hash(upload.document_id, _digest(upload), digits)) if digits else upload.document_id


def _digest(upload: Upload) -> bytes:
    """Return the hash of the bytes, or of the address of a document to fetch."""
    return hashlib.sha256((upload.source_uri or "").encode() if upload.to_fetch else upload.body).digest()


def _is_same(upload: Upload, content: Content | None) -> bool:
    if content is None:
        return False
    content_hash, source_uri = content
    return source_uri == upload.source_uri if upload.to_fetch else content_hash == _digest(upload)
