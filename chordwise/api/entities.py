"""Entities of a story and their states over story time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chordwise.contract import entity
from chordwise.resource import Resource, operation
from chordwise.transport import Answer, Steps

_PATH = "/v1/entities"
MOST_STATES = 500  # of one request


EntityState = entity.EntityShape


class EntityOperations(Resource):
    """Operations on entities. Every call may be sent twice."""

    @operation
    def put_entities(self, entities: Iterable[Mapping[str, Any]], *, namespace: str) -> Steps[int]:
        """Store states of entities, each a mapping with ``entity_id``, ``name`` and optionally
        ``type``, ``story_time`` and ``state``, an object or a text. Returns the number of states written."""
        states, written = [dict(state) for state in entities], 0
        for start in range(0, len(states), MOST_STATES):
            body = {"namespace": namespace, "entities": states[start : start + MOST_STATES]}
            written += _count((yield from self._request("PUT", _PATH, body=body)), "written")
        return written

    @operation
    def entities(
        self, namespace: str, *, as_of: int | None = None, name: str | None = None
    ) -> Steps[list[EntityState]]:
        """Return the states of a namespace's entities at the story time ``as_of``, by default the latest."""
        filters = {"namespace": namespace, "as_of": as_of, "name": name}
        return self._pages(EntityState, _PATH, filters, at_most=200)

    @operation
    def delete_entities(self, entity_ids: Iterable[str], *, namespace: str) -> Steps[int]:
        """Delete entities with all their states; returns the number of deleted states."""
        body = {"namespace": namespace, "entity_ids": list(entity_ids)}
        return _count((yield from self._request("DELETE", _PATH, body=body)), "deleted")


def _count(answer: Answer, name: str) -> int:
    body = answer.json()
    return int(body.get(name, 0)) if isinstance(body, dict) else 0
