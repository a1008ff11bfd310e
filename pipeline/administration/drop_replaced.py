"""Drop the rows of replaced and deleted generations once no query can still hold them."""

from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.documents.document_store import Documents
from pipeline.documents.generation_store import GenerationRows, Retired
from pipeline.records import TenantId
from pipeline.resources import Resources

DROPPED_AT_ONCE = 200


def drop_retired(tenant_id: TenantId, use: Resources) -> int:
    """Drop the due rows of retired generations in both stores; return how many. A crash repeats work."""
    total = 0
    while True:
        dropped = _drop_some(tenant_id, use)
        total += dropped
        if dropped < DROPPED_AT_ONCE:
            return total


@retry_conflicts(attempts=4)
def _drop_some(tenant_id: TenantId, use: Resources) -> int:
    with unit_of_work(use.mysql) as work:
        retired, documents = Retired(work.connection, tenant_id), Documents(work.connection, tenant_id)
        due = retired.due(limit=DROPPED_AT_ONCE)
        shown = documents.shown(due)
        if due:
            use.installation.confirm(work.connection)  # the connection that read the retired generations
        use.vectors(tenant_id).drop([generation for generation in due if generation not in shown])
        GenerationRows(work.connection, tenant_id).drop(due)
        retired.forget(due)
    return len(due)
