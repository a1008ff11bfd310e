"""Store and delete uploaded files."""

from datetime import UTC, datetime, timedelta

from pipeline.administration.call_store import call_store
from pipeline.administration.delete_documents import delete_within
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.ingestion.accept import quotas
from pipeline.records import DocumentId, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.vector_stores.attachment_store import Attachments
from pipeline.vector_stores.collection import StoredFile, made_at, new_id
from pipeline.vector_stores.file_store import StoredFiles

ID_PREFIX = "file-"


list_files = call_store(StoredFiles, StoredFiles.page)
read_file = call_store(StoredFiles, StoredFiles.body)


def keep_file(
    tenant_id: TenantId,
    body: bytes,
    use: Resources,
    *,
    filename: str,
    purpose: str,
    declared_type: str | None,
    expires_after_s: int | None = None,
) -> StoredFile:
    """Store a file; it is durable on return. Raises QuotaExceeded, and StoreUnavailable if nothing was stored."""
    file_id = new_id(ID_PREFIX)
    created_at = made_at(ID_PREFIX, file_id) or datetime.now(UTC)
    file = StoredFile(
        file_id=file_id,
        filename=filename,
        purpose=purpose,
        declared_type=declared_type,
        body_bytes=len(body),
        created_at=created_at,
        expires_at=None if expires_after_s is None else created_at + timedelta(seconds=expires_after_s),
    )
    with unit_of_work(use.mysql) as work:
        files = StoredFiles(work.connection, tenant_id)
        files.put(file, body)
        quotas(work.connection, tenant_id, use).check_files(files.count)
        Audit(work.connection, tenant_id).wrote("file_put", ids=[file_id])
    return file


def find_file(tenant_id: TenantId, file_id: str, use: Resources) -> StoredFile | None:
    """Return the file, or None."""
    with unit_of_work(use.mysql) as work:
        return StoredFiles(work.connection, tenant_id).named([file_id]).get(file_id)


@retry_conflicts()
def forget_file(tenant_id: TenantId, file_id: str, use: Resources) -> bool:
    """Delete a file, and the document it became wherever it was put, at once. False if there is none."""
    document_id = DocumentId(file_id)
    with unit_of_work(use.mysql) as work:
        if not StoredFiles(work.connection, tenant_id).forget(file_id):
            return False
        attachments = Attachments(work.connection, tenant_id)
        for namespace in attachments.namespaces_with(document_id):
            delete_within(work, tenant_id, namespace, [document_id])
            attachments.detach(namespace, [document_id])
        Audit(work.connection, tenant_id).wrote("file_delete", ids=[file_id])
    return True
