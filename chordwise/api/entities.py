"""Entities of a story: what they are like from which story time on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.records import Result
from chordwise.resource import Resource, operation
from chordwise.transport import Steps

_PATH = "/v1/entities"
MOST_STATES = 500  # of one request


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityState(Result):
    """What an entity is like; ``story_time`` is since when, None from the beginning."""

    entity_id: str
    namespace: str = ""
    name: str = ""
    type: str | None = None
    story_time: int | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    updated_at: datetime | None = None


class EntityOperations(Resource):
    """What ``Operations`` can do to entities. Every call may be sent twice."""

    @operation
    def put_entities(self, entities: Iterable[Mapping[str, Any]], *, namespace: str) -> Steps[int]:
        """Write what entities of a story are like, each a mapping with ``entity_id``, ``name`` and, if there are any,
        ``type``, ``story_time`` and ``state``. Gives how many states were written."""
        waiting, written = list(entities), 0
        for start in range(0, len(waiting), MOST_STATES):
            body = {"namespace": namespace, "entities": [dict(each) for each in waiting[start : start + MOST_STATES]]}
            said = (yield from self._request("PUT", _PATH, body=body)).json()
            written += said.get("written", 0) if isinstance(said, dict) else 0
        return written

    @operation
    def entities(
        self, namespace: str, *, as_of: int | None = None, name: str | None = None
    ) -> Steps[list[EntityState]]:
        """What the entities of a namespace are like at the story time ``as_of``, or last of all."""
        asked = {"namespace": namespace, "as_of": as_of, "name": name}
        return self._pages(EntityState, _PATH, asked, at_most=200)

    @operation
    def delete_entities(self, entity_ids: Iterable[str], *, namespace: str) -> Steps[int]:
        """Delete entities with all their states; gives how many states went."""
        body = {"namespace": namespace, "entity_ids": list(entity_ids)}
        said = (yield from self._request("DELETE", _PATH, body=body)).json()
        return int(said.get("deleted", 0)) if isinstance(said, dict) else 0
