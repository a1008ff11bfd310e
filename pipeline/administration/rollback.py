"""Go back to the upload shown before, while it is kept, by accepting it once more as the document's latest upload."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.documents.document_views import History
from pipeline.documents.generation_store import Generations
from pipeline.errors import GenerationNotKept, PreconditionFailed
from pipeline.ingestion.accept import AcceptedJob, quotas
from pipeline.jobs.claims import NewItem
from pipeline.jobs.ledger_store import Ledger
from pipeline.records import DocumentId, Generation, JobId, Namespace, Scope, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit


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
    ring: Callable[[AcceptedJob], None],
) -> AcceptedJob | None:
    """Accept the kept generation ``to``, or the one kept, as a new upload; None without such a document. Raises
    PreconditionFailed for another ``etag``, GenerationNotKept, and as accepting documents."""
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
        Ledger(work.connection, tenant_id).open(job_id, namespace, request_id, [item])
        Audit(work.connection, tenant_id).wrote(
            "rollback", namespaces=[namespace], ids=[document_id], count=1, job_id=job_id, generation=number
        )
        ticket = AcceptedJob(tenant_id=tenant_id, job_id=job_id, request_id=request_id, total=1, due=1)
        work.after_commit(lambda: ring(ticket))
    return ticket


def _target(history: History, to: int | None) -> int:
    retained = [entry.number for entry in history.generations if entry.state == "previous"]
    if to is None and retained:
        return retained[0]
    if to in retained:
        return to
    if to is not None and any(entry.number == to and entry.state == "shown" for entry in history.generations):
        raise GenerationNotKept(f"generation {to} is what is shown")
    detail = "no earlier generation of this document is kept" if to is None else f"generation {to} is not kept"
    raise GenerationNotKept(detail)
