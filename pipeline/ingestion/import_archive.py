"""Import a part of an archive: its documents become a job like any other, and the part is recorded with it."""

from collections.abc import Callable
from typing import Literal

import structlog
from sqlalchemy import Connection

from chordwise.contract.archive import ImportedPart
from pipeline.archives.archive import NewPart
from pipeline.archives.import_store import Imports
from pipeline.database.unit_of_work import unit_of_work
from pipeline.errors import PartKnown
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources
from pipeline.tenants.audit_store import Audit

log = structlog.get_logger(__name__)

PartStatus = Literal["accepted", "present", "differs"]


def receive_part(
    batch: Batch, part: NewPart, use: Resources, *, notify: Callable[[AcceptedJob], None]
) -> tuple[PartStatus, ImportedPart]:
    """Accept a part's documents, with the part in one transaction; repeating changes nothing. ``differs``: another part of
    this number was accepted before, and is kept. Raises as ``accept``."""
    stored = _stored_part(batch, part, use)
    status: PartStatus = "present"
    if stored is None:

        def note(connection: Connection, accepted: AcceptedJob) -> None:
            Imports(connection, batch.tenant_id, batch.namespace).add(part, accepted.job_id)

        try:
            accept(batch, use, notify=notify, together_with=note)
            status = "accepted"
            log.info("part_accepted", part=part.number, documents=part.documents, vectors_kept=part.vectors_kept)
        except PartKnown:  # another request sent it at the same moment
            log.info("part_known", part=part.number)
        stored = _stored_part(batch, part, use)
        if stored is None:
            raise PartKnown(f"part {part.number} was accepted, and its namespace was deleted since")
    return status if stored.sha256 == part.sha256.hex() else "differs", stored


def parts_of(tenant_id: TenantId, namespace: Namespace, import_id: str, use: Resources) -> list[ImportedPart]:
    """Return the parts that arrived. Raises StoreUnavailable."""
    with unit_of_work(use.mysql) as work:
        return Imports(work.connection, tenant_id, namespace).parts(import_id)


def forget(tenant_id: TenantId, namespace: Namespace, import_id: str, use: Resources) -> int:
    """Forget the parts of an import, so that it can be repeated; return how many. Raises StoreUnavailable."""
    with unit_of_work(use.mysql) as work:
        count = Imports(work.connection, tenant_id, namespace).forget(import_id)
        if count:
            Audit(work.connection, tenant_id).wrote(
                "import_forget", namespaces=[namespace], ids=[import_id], count=count
            )
        return count


def _stored_part(batch: Batch, part: NewPart, use: Resources) -> ImportedPart | None:
    parts = parts_of(batch.tenant_id, batch.namespace, part.import_id, use)
    return next((view for view in parts if view.part == part.number), None)
