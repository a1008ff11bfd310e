"""Write, list and delete entities, which answers that name them return."""

from collections.abc import Sequence

import structlog

from chordwise.contract.entity import EntityShape
from pipeline.administration.call_store import call_store
from pipeline.database.unit_of_work import retry_conflicts, unit_of_work
from pipeline.entities.entity_store import Entities
from pipeline.records import Namespace, TenantId
from pipeline.resources import Resources

log = structlog.get_logger(__name__)


list_states = call_store(Entities, Entities.page, reading=True)


@retry_conflicts(attempts=8)
def put_states(tenant_id: TenantId, states: Sequence[EntityShape], use: Resources) -> int:
    """Write these states, all or none; return how many."""
    with unit_of_work(use.mysql) as work:
        Entities(work.connection, tenant_id).put(states)
    log.info("entity_states_written", tenant_id=tenant_id, states=len(states))
    return len(states)


@retry_conflicts(attempts=8)
def delete_entities(tenant_id: TenantId, namespace: Namespace, entity_ids: Sequence[str], use: Resources) -> int:
    """Delete these entities with all their states; return the number of states."""
    with unit_of_work(use.mysql) as work:
        deleted = Entities(work.connection, tenant_id).delete(namespace, entity_ids)
    log.info("entities_deleted", tenant_id=tenant_id, states=deleted)
    return deleted
