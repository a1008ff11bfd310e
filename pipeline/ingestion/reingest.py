"""Accept stored uploads once more as the latest ones of their documents: with other fields or another chunking, or to go
back to the upload shown before, while it is kept."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chordwise.contract.document import GenerationList
from pipeline.archives.archive import is_packed
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import Generations, StoredUpload
from pipeline.errors import GenerationNotKept, NotReingestible, PreconditionFailed
from pipeline.ingestion.accept import AcceptedJob, Batch, open_job, quotas
from pipeline.jobs.ledger_store import NewItem
from pipeline.records import (
    Chunking,
    DocumentFields,
    DocumentId,
    Generation,
    JobId,
    Namespace,
    Priority,
    Scope,
    TenantId,
)
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit

MOST_TAGS = 64  # of a document, as in an upload


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChanges:
    """Changes of stored documents. ``fields``: new values by name of `DocumentFields`. ``chunking``: None keeps each
    document's own. ``discard_edits``: whether edits of single chunks may be lost."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()
    chunking: Chunking | None = None
    discard_edits: bool = False

    def applied(self, fields: DocumentFields) -> DocumentFields:
        """Return the fields of a document after the changes: tags in their order, added ones last."""
        changed = replace(fields, **self.fields)
        tags = dict.fromkeys(tag for tag in (*changed.tags, *self.add_tags) if tag not in self.remove_tags)
        return replace(changed, tags=tuple(tags))


@retry_conflicts()
def reingest(
    tenant_id: TenantId,
    namespace: Namespace,
    document_ids: Sequence[DocumentId],
    changes: DocumentChanges,
    use: Resources,
    *,
    etag: str | None = None,
    request_id: str,
    notify: Callable[[AcceptedJob], None],
) -> AcceptedJob | None:
    """Accept the published upload of each document again as its latest one; None if none of them is published.

    A document that cannot be ingested again is refused in the job. ``etag``: of the generations of the only document.
    Raises PreconditionFailed for another, NotReingestible if every document is refused, and as accepting documents.
    """
    job_id = JobId(str(uuid.uuid4()))
    with unit_of_work(use.mysql) as work:
        generations = Generations(work.connection, tenant_id)
        stored = generations.stored(namespace, document_ids)
        if not stored:
            return None
        if etag is not None:
            history = generations.history(namespace, document_ids[0])
            if history is None or history.etag != etag:
                raise PreconditionFailed("the document has changed since it was read; read it again")
        refusals = {document_id: _refusal(upload, changes) for document_id, upload in stored.items()}
        accepted = [document_id for document_id in stored if refusals[document_id] is None]
        if not accepted:
            raise next(refusal for refusal in refusals.values() if refusal is not None)
        quotas(work.connection, tenant_id, use).check(arriving=len(accepted))
        targets = Documents(work.connection, tenant_id).number(namespace, accepted)
        sizes: dict[DocumentId, int] = {}
        for document_id in accepted:
            upload, target = stored[document_id], targets[document_id]
            sizes[document_id] = generations.copy(upload.generation, target, job_id)
            if not sizes[document_id]:
                raise GenerationNotKept(f"the bytes of document {document_id} are gone")
            generations.describe(target, changes.applied(upload.fields), changes.chunking or upload.chunking)
        items = [
            NewItem(
                ordinal=ordinal,
                document_id=document_id,
                generation=targets[document_id].number,
                body_bytes=sizes[document_id],
            )
            if document_id in sizes
            else _refused(ordinal, document_id, refusals.get(document_id) or _UNKNOWN)
            for ordinal, document_id in enumerate(dict.fromkeys(document_ids))
        ]
        Audit(work.connection, tenant_id).wrote(
            "reingest", namespaces=[namespace], ids=accepted, count=len(accepted), job_id=job_id
        )
        batch = Batch(tenant_id=tenant_id, namespace=namespace, request_id=request_id, job_id=job_id, entries=())
        return open_job(work, batch, items, notify=notify)


_UNKNOWN = NotReingestible("there is no searchable document of this id", code="document_not_found")


def _refused(ordinal: int, document_id: DocumentId, refusal: NotReingestible) -> NewItem:
    return NewItem(
        ordinal=ordinal, document_id=document_id, outcome="refused", error_code=refusal.code, error_detail=str(refusal)
    )


def _refusal(upload: StoredUpload, changes: DocumentChanges) -> NotReingestible | None:
    if upload.pending:
        return NotReingestible("a later upload of the document is being ingested; wait for its end")
    if upload.edited and not changes.discard_edits:
        detail = "chunks that were edited, disabled or deleted by hand would be lost; discard_edits confirms it"
        return NotReingestible(detail, code="chunks_edited")
    if changes.chunking is not None and is_packed(upload.media_type):
        detail = "the document was imported with its chunks and cannot be cut again"
        return NotReingestible(detail, code="imported_with_chunks")
    if len(changes.applied(upload.fields).tags) > MOST_TAGS:
        return NotReingestible(f"the document would have more than {MOST_TAGS} tags", code="too_many_tags")
    return None


@retry_conflicts()
def roll_back(
    tenant_id: TenantId,
    namespace: Namespace,
    document_id: DocumentId,
    use: Resources,
    *,
    to: int | None = None,
    etag: str | None = None,
    request_id: str,
    notify: Callable[[AcceptedJob], None],
) -> AcceptedJob | None:
    """Accept a retained generation as a new upload: number ``to``, by default the only one. Return None without the document.

    Raises PreconditionFailed for another ``etag``, GenerationNotKept, and as accepting documents."""
    job_id = JobId(str(uuid.uuid4()))
    with unit_of_work(use.mysql) as work:
        generations = Generations(work.connection, tenant_id)
        history = generations.history(namespace, document_id, lock=True)
        if history is None:
            return None
        if etag is not None and etag != history.etag:
            raise PreconditionFailed("the document is not in the state the etag stands for; look at it again")
        number = _target(history, to)
        target = Documents(work.connection, tenant_id).number(namespace, [document_id])[document_id]
        scope = Scope(tenant_id=tenant_id, namespace=namespace)
        source = Generation(scope=scope, document_id=document_id, number=number)
        size = generations.copy(source, target, job_id)
        if not size:
            raise GenerationNotKept(f"the bytes of generation {number} are gone")
        quotas(work.connection, tenant_id, use).check(arriving=1)
        item = NewItem(ordinal=0, document_id=document_id, generation=target.number, body_bytes=size)
        Audit(work.connection, tenant_id).wrote(
            "rollback", namespaces=[namespace], ids=[document_id], count=1, job_id=job_id, generation=number
        )
        job = Batch(
            tenant_id=tenant_id,
            namespace=namespace,
            request_id=request_id,
            entries=(),
            priority=Priority.BULK,
            job_id=job_id,
        )
        return open_job(work, job, [item], notify=notify)


def _target(history: GenerationList, to: int | None) -> int:
    retained = [entry.generation for entry in history.data if entry.state == "previous"]
    if to is None and retained:
        return retained[0]
    if to in retained:
        return to
    if to is not None and any(entry.generation == to and entry.state == "shown" for entry in history.data):
        raise GenerationNotKept(f"generation {to} is what is shown")
    detail = "no earlier generation of this document is kept" if to is None else f"generation {to} is not kept"
    raise GenerationNotKept(detail)
