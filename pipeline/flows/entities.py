"""Entities: written by whoever keeps the story, read with the answers that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from pipeline.core.entities import EntityState, in_order_of_mention, names_in
from pipeline.core.hits import Hydrated
from pipeline.flows.resources import Resources
from pipeline.records import Namespace, TenantId
from pipeline.stores.engines import Conflict
from pipeline.stores.entities import Entities
from pipeline.stores.work import reading, unit_of_work

log = structlog.get_logger(__name__)

_again = retry(
    retry=retry_if_exception_type(Conflict),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.05, max=1),
    reraise=True,
)


@_again
def put_states(tenant_id: TenantId, states: Sequence[EntityState], use: Resources) -> int:
    """Write these states, all or none. Gives how many."""
    with unit_of_work(use.mysql) as work:
        Entities(work.connection, tenant_id).put(states)
    log.info("entity_states_written", tenant_id=tenant_id, states=len(states))
    return len(states)


def list_states(
    tenant_id: TenantId,
    namespace: Namespace,
    use: Resources,
    *,
    as_of: int | None,
    name: str | None,
    after: str,
    limit: int,
) -> list[EntityState]:
    """A page of `Entities.page`."""
    with reading(use.mysql) as connection:
        return Entities(connection, tenant_id).page(namespace, as_of=as_of, name=name, after=after, limit=limit)


@_again
def delete_entities(tenant_id: TenantId, namespace: Namespace, entity_ids: Sequence[str], use: Resources) -> int:
    """Delete these entities with all their states. Gives how many states went."""
    with unit_of_work(use.mysql) as work:
        gone = Entities(work.connection, tenant_id).delete(namespace, entity_ids)
    log.info("entities_deleted", tenant_id=tenant_id, states=gone)
    return gone


def states_named(
    tenant_id: TenantId, passages: Sequence[Hydrated], use: Resources, *, as_of: int | None
) -> list[dict[str, Any]]:
    """What the entities that these passages name are like at ``as_of``, or last of all, in order of mention; never a
    state that comes later. Raises StoreUnavailable."""
    named = names_in(passages)
    if not named:
        return []
    with reading(use.mysql) as connection:
        found = Entities(connection, tenant_id).named(named, as_of=as_of)
    return [
        {
            "id": state.entity_id,
            "name": state.name,
            "type": state.type,
            "state": state.state,
            "story_time": state.story_time,
            "namespace": state.namespace,
        }
        for state in in_order_of_mention(found, named)
    ]
