"""States of entities by story time. The state at a time is the latest one that is not later."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chordwise.contract.entity import EntityShape
from pipeline.database.rows import TenantStore, insert_many, now, record_of, slices, to_json
from pipeline.database.statements import sql
from pipeline.entities.entity import name_key
from pipeline.records import Namespace
from pipeline.tenants.audit_store import Audit
from pipeline.tenants.namespace_store import Namespaces

_BEGINNING = -(2**63)  # the story time of a state that holds from the beginning
_END = 2**63 - 1
_IDS_AT_ONCE = 500


class Entities(TenantStore):
    """One tenant's entities."""

    def put(self, states: Sequence[EntityShape]) -> None:
        """Write states, replacing those of the same story time. Creates and locks their namespaces."""
        moment = now()
        for namespace in sorted({state.namespace for state in states}):
            self._run(_NAMESPACE, namespace=namespace, now=moment)
            Namespaces(self._connection, self._tenant_id).revise(Namespace(namespace))
        ordered = sorted(states, key=_key)
        insert_many(
            self._connection,
            "INSERT INTO entity_states (tenant_id, namespace, entity_id, story_time, name, name_key, type, state,"
            " updated_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
            " ON DUPLICATE KEY UPDATE name = VALUES(name), name_key = VALUES(name_key), type = VALUES(type),"
            " state = VALUES(state), updated_at = VALUES(updated_at)",
            [(self._tenant_id, *_key(s), s.name, name_key(s.name), s.type, to_json(s.state), moment) for s in ordered],
        )
        self._audit("entities_put", {state.namespace for state in states}, [state.entity_id for state in ordered])

    def named(self, pairs: Sequence[tuple[str, str]], *, as_of: int | None) -> dict[tuple[str, str], list[EntityShape]]:
        """Return by (namespace, name key) the states at ``as_of``, or the last ones, of entities that had the name."""
        if not pairs:
            return {}
        rows = self._run(
            _NAMED,
            as_of=_END if as_of is None else as_of,
            namespaces=sorted({namespace for namespace, _ in pairs}),
            names=sorted({name for _, name in pairs}),
        ).mappings()
        states_by_name: defaultdict[tuple[str, str], list[EntityShape]] = defaultdict(list)
        for row in rows:
            states_by_name[row["namespace"], row["requested_key"]].append(_state(row))
        # A name of one namespace means nothing in another.
        return {pair: states_by_name[pair] for pair in pairs if pair in states_by_name}

    def page(
        self, namespace: Namespace, *, as_of: int | None, name: str | None, after: str, limit: int
    ) -> list[EntityShape]:
        """Return entities' states at ``as_of``, or the last ones, by id after ``after``; ``name``: those called so then."""
        key = None if name is None else name_key(name)
        time = _END if as_of is None else as_of
        rows = self._run(_PAGE, namespace=namespace, as_of=time, after=after, limit=limit, name=key)
        return [_state(row) for row in rows.mappings()]

    def delete(self, namespace: Namespace, entity_ids: Sequence[str]) -> int:
        """Delete these entities with all their states; return the number of states."""
        deleted = 0
        if entity_ids:
            Namespaces(self._connection, self._tenant_id).revise(namespace)  # first, as `put` locks its row first
        for ids in slices(sorted(set(entity_ids)), _IDS_AT_ONCE):
            deleted += self._run(_DELETE, namespace=namespace, ids=list(ids)).rowcount
        if deleted:
            self._audit("entities_delete", [namespace], sorted(entity_ids))
        return deleted

    def _audit(self, action: str, namespaces: Iterable[str], entity_ids: Sequence[str]) -> None:
        ids = list(dict.fromkeys(entity_ids))
        Audit(self._connection, self._tenant_id).wrote(action, namespaces=sorted(namespaces), ids=ids)


def _key(state: EntityShape) -> tuple[str, str, int]:
    return state.namespace, state.entity_id, _BEGINNING if state.story_time is None else state.story_time


def _state(row: Mapping[Any, Any]) -> EntityShape:
    return record_of(
        EntityShape,
        row,
        story_time=None if row["story_time"] == _BEGINNING else row["story_time"],
        state=json.loads(row["state"]),
    )


_NAMESPACE = sql(
    "INSERT INTO namespaces (tenant_id, namespace, created_at) VALUES (:tenant, :namespace, :now)"
    " ON DUPLICATE KEY UPDATE namespace = VALUES(namespace)"
)

_COLUMNS = "e.namespace, e.entity_id, e.name, e.type, e.story_time, e.state, e.updated_at"

_NAMED = sql(
    f"SELECT n.name_key AS requested_key, {_COLUMNS} FROM"
    " (SELECT DISTINCT namespace, name_key, entity_id FROM entity_states"
    "  WHERE tenant_id = :tenant AND namespace IN :namespaces AND name_key IN :names AND story_time <= :as_of) n"
    " JOIN entity_states e ON e.tenant_id = :tenant AND e.namespace = n.namespace AND e.entity_id = n.entity_id"
    " AND e.story_time = (SELECT MAX(l.story_time) FROM entity_states l WHERE l.tenant_id = :tenant"
    "  AND l.namespace = n.namespace AND l.entity_id = n.entity_id AND l.story_time <= :as_of)"
    " ORDER BY e.namespace, e.entity_id"
)

_PAGE = sql(
    f"SELECT {_COLUMNS} FROM"
    " (SELECT entity_id, MAX(story_time) AS story_time FROM entity_states"
    "  WHERE tenant_id = :tenant AND namespace = :namespace AND entity_id > :after AND story_time <= :as_of"
    "  GROUP BY entity_id) l"
    " JOIN entity_states e ON e.tenant_id = :tenant AND e.namespace = :namespace AND e.entity_id = l.entity_id"
    " AND e.story_time = l.story_time"
    " WHERE :name IS NULL OR e.name_key = :name ORDER BY e.entity_id LIMIT :limit"
)

_DELETE = sql("DELETE FROM entity_states WHERE tenant_id = :tenant AND namespace = :namespace AND entity_id IN :ids")
