"""Ingest stored documents again, with other fields or another chunking: their bytes are accepted once more."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeline.archives.archive import is_packed
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import Generations, StoredUpload
from pipeline.errors import GenerationNotKept, NotReingestible, PreconditionFailed
from pipeline.ingestion.accept import AcceptedJob, quotas
from pipeline.jobs.claims import NewItem
from pipeline.jobs.ledger_store import Ledger
from pipeline.records import Chunking, DocumentFields, DocumentId, JobId, Namespace, Priority, TenantId
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
    ring: Callable[[AcceptedJob], None],
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
        few = len(items) <= use.settings.interactive_documents
        priority = Priority.INTERACTIVE if few else Priority.BULK
        Ledger(work.connection, tenant_id).open(job_id, namespace, request_id, items, priority=priority)
        Audit(work.connection, tenant_id).wrote(
            "reingest", namespaces=[namespace], ids=accepted, count=len(accepted), job_id=job_id
        )
        ticket = AcceptedJob(
            tenant_id=tenant_id, job_id=job_id, request_id=request_id, total=len(items), due=len(accepted)
        )
        work.after_commit(lambda: ring(ticket))
    return ticket


_UNKNOWN = NotReingestible("there is no searchable document of this id", code="document_not_found")


def _refused(ordinal: int, document_id: DocumentId, refusal: NotReingestible) -> NewItem:
    return NewItem(
        ordinal=ordinal,
        document_id=document_id,
        outcome="refused",
        error_code=refusal.code,
        error_detail=str(refusal),
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
