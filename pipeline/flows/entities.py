"""Entities: written by whoever keeps the story, read with the answers that name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog

from pipeline.core.entities import EntityState, in_order_of_mention, names_in
from pipeline.core.hits import Hydrated
from pipeline.core.query import Query
from pipeline.flows.resources import Resources
from pipeline.flows.texts import read_in_time
from pipeline.records import Namespace, TenantId
from pipeline.stores.entities import Entities
from pipeline.stores.work import reading, retry_conflicts, unit_of_work

log = structlog.get_logger(__name__)


@retry_conflicts(attempts=8)
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


@retry_conflicts(attempts=8)
def delete_entities(tenant_id: TenantId, namespace: Namespace, entity_ids: Sequence[str], use: Resources) -> int:
    """Delete these entities with all their states. Gives how many states went."""
    with unit_of_work(use.mysql) as work:
        gone = Entities(work.connection, tenant_id).delete(namespace, entity_ids)
    log.info("entities_deleted", tenant_id=tenant_id, states=gone)
    return gone


def states_named(query: Query, passages: Sequence[Hydrated], use: Resources) -> list[dict[str, Any]]:
    """Return the states that the entities named by these passages have at the query's story time, or the last ones, in
    order of mention; never a state that comes later. Raises Unavailable."""
    named = names_in(passages)
    if not named:
        return []

    def read() -> dict[tuple[str, str], list[EntityState]]:
        with reading(use.mysql) as connection:
            return Entities(connection, query.tenant_id).named(named, as_of=query.filters.story_time)

    found = read_in_time(query, use, read)
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
