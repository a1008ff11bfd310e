"""Entities of a story: what they are like from which story time on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from chordwise.decoding import Result, decode
from chordwise.errors import UnexpectedAnswer
from chordwise.retries import RetryPolicy, exchange
from chordwise.transport import Answer, Call, Steps, encode

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


class EntityOperations:
    """What ``Operations`` can do to entities. Every call may be sent twice."""

    _policy: RetryPolicy
    _clock: Callable[[], float]

    def put_entities(self, entities: Iterable[Mapping[str, Any]], namespace: str) -> Steps[int]:
        """Write states, as many requests as they need; gives how many were written."""
        waiting, written = list(entities), 0
        for start in range(0, len(waiting), MOST_STATES):
            body = {"namespace": namespace, "entities": [dict(each) for each in waiting[start : start + MOST_STATES]]}
            said = (yield from self._entities("PUT", body=body)).json()
            written += said.get("written", 0) if isinstance(said, dict) else 0
        return written

    def entities(self, namespace: str, *, as_of: int | None, name: str | None) -> Steps[list[EntityState]]:
        """Every entity of a namespace with its latest state that is not later."""
        found: list[EntityState] = []
        cursor: str | None = None
        while True:
            asked = {"namespace": namespace, "as_of": as_of, "name": name, "limit": 200, "cursor": cursor}
            params = tuple((key, str(value)) for key, value in asked.items() if value is not None)
            page = (yield from self._entities("GET", params=params)).json()
            if not isinstance(page, dict) or not isinstance(page.get("data"), list):
                raise UnexpectedAnswer("/v1/entities does not answer with a list")
            found += [decode(EntityState, entry) for entry in page["data"]]
            cursor = page.get("next_cursor")
            if not cursor:
                return found

    def delete_entities(self, entity_ids: Iterable[str], namespace: str) -> Steps[int]:
        """Delete entities with all their states; gives how many states went."""
        body = {"namespace": namespace, "entity_ids": list(entity_ids)}
        said = (yield from self._entities("DELETE", body=body)).json()
        return int(said.get("deleted", 0)) if isinstance(said, dict) else 0

    def _entities(
        self, method: str, *, body: Mapping[str, Any] | None = None, params: tuple[tuple[str, str], ...] = ()
    ) -> Steps[Answer]:
        content = None if body is None else encode(body)
        call = Call(method=method, path="/v1/entities", params=params, content=content, safe=True)
        return exchange(call, self._policy, clock=self._clock)
