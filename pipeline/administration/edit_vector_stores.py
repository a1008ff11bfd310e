"""A namespace as a vector store: add, describe and remove files as documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection

from chordwise.contract.job import JobError
from pipeline.administration.call_store import call_store
from pipeline.administration.delete_documents import delete_within
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.documents.document_store import Documents
from pipeline.errors import DocumentTooLarge, UnsupportedMediaType
from pipeline.filters.python_filters import kind_of
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.parsing.formats import JSONL, PLAIN, media_type_of
from pipeline.records import Chunking, DocumentFields, DocumentId, Generation, JobId, Namespace, Scope, TenantId, Upload
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit
from pipeline.vector_stores.attachment_store import Attachments, NewAttachment
from pipeline.vector_stores.collection import Attached, ListPosition, Status, StoredFile, Tally, VectorStore, made_at
from pipeline.vector_stores.collection_store import VectorStores
from pipeline.vector_stores.file_store import StoredFiles

MOST_BYTES_AT_ONCE: Final = 1024 * 1024 * 1024  # of all files of one job: they travel in one transaction
STORE_PREFIX = "vs_"
_LONGEST_MEDIA_TYPE = 127  # characters, of the column

# Makes a position in a list, given a look-up of the moment that an id stands for.
FindPosition = Callable[[Callable[[str], datetime | None]], ListPosition | None]


class NoSuchFile(LookupError):
    """The tenant has no file of this id; ``str(error)`` is the id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A file to add to a namespace, with its chunking and attributes."""

    file_id: str
    chunking: Chunking
    attributes: Mapping[str, Any]


find_store = call_store(VectorStores, VectorStores.one)
note_use = call_store(VectorStores, VectorStores.touch)
find_files = call_store(Attachments, Attachments.named)


def open_store(tenant_id: TenantId, store: VectorStore, use: Resources) -> None:
    """Create an empty vector store."""
    with unit_of_work(use.mysql) as work:
        _open(work.connection, tenant_id, store)


def list_stores(
    tenant_id: TenantId, position_of: FindPosition, use: Resources, *, newest_first: bool, limit: int
) -> tuple[list[VectorStore], dict[str, Tally], ListPosition | None]:
    """Return vector stores, the tallies of their files, and what ``position_of`` made of a look-up of their times."""
    with unit_of_work(use.mysql) as work:
        stores = VectorStores(work.connection, tenant_id)

        def created_at(store_id: str) -> datetime | None:
            store = stores.one(Namespace(store_id))
            return made_at(STORE_PREFIX, store_id) if store is None else store.created_at

        position = position_of(created_at)
        page = stores.page(position=position, newest_first=newest_first, limit=limit)
        return page, Attachments(work.connection, tenant_id).tallies([store.namespace for store in page]), position


def tally_store(tenant_id: TenantId, namespace: Namespace, use: Resources) -> Tally:
    """Return how many files of a vector store are in which state."""
    with unit_of_work(use.mysql) as work:
        return Attachments(work.connection, tenant_id).tallies([namespace])[namespace]


def tally_batch(
    tenant_id: TenantId, namespace: Namespace, job_id: JobId, use: Resources
) -> tuple[datetime, Tally] | None:
    """Return when a job brought files into a vector store, and how many are in which state; None if it brought none."""
    with unit_of_work(use.mysql) as work:
        attachments = Attachments(work.connection, tenant_id)
        created_at = attachments.job_in(namespace, job_id)
        return None if created_at is None else (created_at, attachments.tally_of_job(job_id))


def list_files(
    tenant_id: TenantId,
    namespace: Namespace,
    position_of: FindPosition,
    use: Resources,
    *,
    newest_first: bool,
    status: Status | None,
    job_id: JobId | None,
    limit: int,
) -> tuple[Sequence[Attached], ListPosition | None]:
    """Return the files of a vector store, or those of them that a job brought last, and the position that
    ``position_of`` made of a look-up of the moment a file was put there. It may raise."""
    with unit_of_work(use.mysql) as work:
        attachments = Attachments(work.connection, tenant_id)
        position = position_of(lambda file_id: attachments.position(namespace, file_id))
        page = attachments.page(
            namespace, position=position, newest_first=newest_first, status=status, limit=limit, job_id=job_id
        )
        return page, position


@retry_conflicts()
def change_store(
    tenant_id: TenantId, namespace: Namespace, change: Callable[[VectorStore], VectorStore], use: Resources
) -> VectorStore | None:
    """Apply ``change`` to a vector store and store the result; None if there is none."""
    with unit_of_work(use.mysql) as work:
        stores = VectorStores(work.connection, tenant_id)
        store = stores.one(namespace, lock=True)
        if store is None:
            return None
        stores.put(change(store))
        Audit(work.connection, tenant_id).wrote("vector_store_change", namespaces=[namespace])
        return stores.one(namespace)


def put_files(
    tenant_id: TenantId,
    namespace: Namespace,
    puts: Sequence[Put],
    use: Resources,
    *,
    notify: Callable[[AcceptedJob], None],
    request_id: str,
    opening: VectorStore | None = None,
) -> AcceptedJob:
    """Accept files into a namespace as one job. ``opening``: the vector store to create with it.

    A file that is there already is ingested again; one of an unreadable type becomes a failed item. Raises NoSuchFile,
    DocumentTooLarge for too many bytes, and as `accept`; then nothing was accepted."""
    wanted = {put.file_id: put for put in puts}
    with unit_of_work(use.mysql) as work:
        files = StoredFiles(work.connection, tenant_id).named(list(wanted))
    for file_id in wanted:
        if file_id not in files:
            raise NoSuchFile(file_id)
    size = sum(file.body_bytes for file in files.values())
    if size > MOST_BYTES_AT_ONCE:
        raise DocumentTooLarge(f"the files have {size} bytes; at most {MOST_BYTES_AT_ONCE} are taken at once")
    entries = [_entry(files[put.file_id], put) for put in wanted.values()]
    attached = [
        NewAttachment(
            document_id=DocumentId(put.file_id),
            ordinal=ordinal,
            filename=files[put.file_id].filename,
            attributes=put.attributes,
            chunking=put.chunking,
            body_bytes=files[put.file_id].body_bytes,
        )
        for ordinal, put in enumerate(wanted.values())
    ]
    uploads = [entry.document_id for entry in entries if isinstance(entry, Upload)]

    def with_the_job(connection: Connection, accepted: AcceptedJob) -> None:
        if StoredFiles(connection, tenant_id).hand_over(namespace, accepted.job_id, uploads) != len(uploads):
            raise NoSuchFile(", ".join(uploads[:1]))
        if opening is not None:
            _open(connection, tenant_id, opening)
        Attachments(connection, tenant_id).attach(namespace, accepted.job_id, attached)

    batch = Batch(tenant_id=tenant_id, namespace=namespace, request_id=request_id, entries=entries)
    return accept(batch, use, notify=notify, together_with=with_the_job)


def describe_file(
    tenant_id: TenantId,
    file: Attached,
    attributes: Mapping[str, Any],
    use: Resources,
    *,
    notify: Callable[[AcceptedJob], None],
    request_id: str,
) -> AcceptedJob | None:
    """Ingest a file's document anew with other attributes, from its bytes and without embedding; None without such a
    document: only the note changes. Raises NoSuchFile if it is deleted meanwhile, and as `accept`."""
    namespace, document_id = Namespace(file.namespace), DocumentId(file.document_id)
    with unit_of_work(use.mysql) as work:
        attachments = Attachments(work.connection, tenant_id)
        number = attachments.generation_to_change(namespace, document_id)
        scope = Scope(tenant_id=tenant_id, namespace=namespace)
        latest = [] if number is None else [Generation(scope=scope, document_id=document_id, number=number)]
        source = next(iter(Documents(work.connection, tenant_id).sources(latest).values()), None)
        if source is None or not source.body:  # no document, or one whose bytes are still to be fetched
            attachments.describe(namespace, document_id, attributes)
            return None
    hidden = {key: value for key, value in source.fields.metadata.items() if kind_of(value) is None}
    upload = Upload(
        document_id=document_id,
        fields=replace(source.fields, metadata={**hidden, **attributes}),
        body=source.body,
        media_type=source.media_type,
        source_uri=source.source_uri,
        source=SourceRef(kind=None, source_id=source.source_id or None),
        chunking=source.chunking,
    )
    attached = NewAttachment(
        document_id=document_id,
        ordinal=0,
        filename=file.filename,
        attributes=attributes,
        chunking=source.chunking,
        body_bytes=len(source.body),
    )

    def with_the_job(connection: Connection, accepted: AcceptedJob) -> None:
        attachments = Attachments(connection, tenant_id)
        if attachments.was_deleted_since(namespace, document_id, source.generation.number):
            raise NoSuchFile(document_id)
        attachments.attach(namespace, accepted.job_id, [attached])

    batch = Batch(tenant_id=tenant_id, namespace=namespace, request_id=request_id, entries=[upload])
    return accept(batch, use, notify=notify, together_with=with_the_job)


@retry_conflicts()
def take_out(tenant_id: TenantId, namespace: Namespace, document_id: DocumentId, use: Resources) -> bool:
    """Remove a file from a namespace and searches; the file itself stays. False if it is not there."""
    with unit_of_work(use.mysql) as work:
        attachments = Attachments(work.connection, tenant_id)
        if document_id not in attachments.named(namespace, [document_id]):
            return False
        delete_within(work, tenant_id, namespace, [document_id])
        attachments.detach(namespace, [document_id])
    return True


def shown_attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a document's metadata that attributes can show: texts, numbers and booleans."""
    return {key: value for key, value in metadata.items() if kind_of(value) is not None}


def _open(connection: Connection, tenant_id: TenantId, store: VectorStore) -> None:
    VectorStores(connection, tenant_id).open(store)
    Audit(connection, tenant_id).wrote("vector_store_open", namespaces=[store.namespace])


def _entry(file: StoredFile, put: Put) -> Upload | JobError:
    """Return the document that a file becomes, without its bytes, which never leave the database."""
    try:
        media_type = _media_type_of(file)
    except UnsupportedMediaType as error:
        return JobError(document_id=file.file_id, code=error.code, detail=str(error))
    return Upload(
        document_id=DocumentId(file.file_id),
        fields=DocumentFields(metadata=dict(put.attributes)),
        body=b"",
        media_type=media_type if len(media_type) <= _LONGEST_MEDIA_TYPE else media_type.partition(";")[0],
        source_uri=file.filename,
        source=SourceRef(kind=SourceKind.FILE, source_id=file.file_id),
        chunking=put.chunking,
    )


def _media_type_of(file: StoredFile) -> str:
    """Return the media type; JSON lines are one document, and every text is accepted. Raises UnsupportedMediaType."""
    try:
        media_type = media_type_of(file.filename, file.declared_type)
    except UnsupportedMediaType:
        if (file.declared_type or "").lower().startswith("text/"):
            return PLAIN
        raise
    return PLAIN if media_type.partition(";")[0] == JSONL else media_type
