"""The outcome of each document's latest upload, as SQL conditions and writes: the status follows from comparing its
number with those of the last failed and cancelled generations."""

from collections.abc import Sequence

from pipeline.database.rows import TenantStore, by_namespace_and_number, now
from pipeline.database.statements import same_document, sql
from pipeline.records import Generation, JobId

STATUS = (
    "CASE WHEN d.failed_generation = d.latest_generation THEN 'failed'"
    " WHEN d.cancelled_generation = d.latest_generation THEN 'cancelled'"
    " WHEN GREATEST(COALESCE(d.published_generation, 0), d.settled_generation) >= d.latest_generation THEN 'succeeded'"
    " WHEN w.document_id IS NOT NULL THEN 'running' ELSE 'queued' END"
)
# To be joined where STATUS is read. DISTINCT has the few items that workers hold read once instead of for each document.
WORKED_ON = (
    "LEFT JOIN (SELECT DISTINCT namespace, document_id, generation FROM job_items WHERE tenant_id = :tenant"
    " AND state = 'running') w ON w.namespace = d.namespace AND w.document_id = d.document_id"
    " AND w.generation = d.latest_generation"
)


class DocumentOutcomes(TenantStore):
    """Uploads of one tenant that ended without becoming searchable. Call with their items locked."""

    def failed(self, generations: Sequence[Generation], *, refused: bool) -> None:
        """Record that these uploads failed, each where no later one of its document has. ``refused``: the document is at
        fault, so that the same file of a followed source fails again."""
        for namespace, number, document_ids in by_namespace_and_number(generations):
            values = {"namespace": namespace, "number": number, "ids": document_ids, "refused": refused}
            self._run(_FAILED, now=now(), **values)

    def cancelled(self, job_id: JobId, *, where: str) -> None:
        """Record that the items of a job that fit the condition ``where`` are cancelled; call before they are."""
        self._run(_CANCELLED.format(where=where), job=job_id, now=now())

    def reopened(self, job_id: JobId, *, where: str) -> None:
        """Record that the items of a job that fit the condition ``where`` are tried again; call before they are queued."""
        self._run(_REOPENED.format(where=where), job=job_id, now=now())


_FAILED = sql(
    "UPDATE documents d SET d.failed_generation = :number, d.updated_at = :now, d.failed_version = IF(:refused,"
    f" (SELECT g.source_version FROM generations g WHERE {same_document('g', 'd')} AND g.generation = :number), NULL)"
    " WHERE d.tenant_id = :tenant AND d.namespace = :namespace AND d.document_id IN :ids AND d.failed_generation < :number"
)

# A dead letter is a document, not an upload: its newest failure, until a later upload is published or it is deleted.
_WAITS = (
    "{item}.dead_at IS NOT NULL AND {item}.generation = d.failed_generation AND {item}.generation >"
    " GREATEST(d.deleted_generation, d.settled_generation, COALESCE(d.published_generation, 0))"
)


def of_dead_letters(item: str) -> str:
    """Return a join of items under an alias with the documents ``d`` of which they are the dead letter."""
    return f"JOIN documents d ON {same_document('d', item)} AND {_WAITS.format(item=item)}"


_OF_ITEMS = f"UPDATE documents d JOIN job_items i ON {same_document('i', 'd')}"
_CANCELLED = (
    f"{_OF_ITEMS} AND i.generation = d.latest_generation SET d.cancelled_generation = i.generation, d.updated_at = :now"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job AND {where}"
)
_REOPENED = (
    f"{_OF_ITEMS} SET d.failed_generation = IF(d.failed_generation = i.generation, 0, d.failed_generation),"
    " d.cancelled_generation = IF(d.cancelled_generation = i.generation, 0, d.cancelled_generation), d.updated_at = :now"
    " WHERE i.tenant_id = :tenant AND i.job_id = :job AND {where}"
)
