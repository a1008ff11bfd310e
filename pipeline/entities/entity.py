"""The entities of a story: people, places, things, and what they are like from which story time on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.keyword.normal_form import normal_form
from pipeline.ranking.hits import Hydrated

_LONGEST_KEY = 255  # characters, as many as the store compares
_MOST_NAMES = 1000  # of one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityState:
    """The state of an entity from ``story_time`` on, until its next state. None: from the beginning."""

    namespace: str
    entity_id: str
    name: str
    type: str | None
    story_time: int | None
    state: Mapping[str, Any]
    updated_at: datetime | None = None


def name_key(name: str) -> str:
    """Return the key under which spellings of a name match: compatibility forms, case and white space do not count."""
    return " ".join(normal_form("NFKC", name).casefold().split())[:_LONGEST_KEY]


def names_in(passages: Iterable[Hydrated]) -> list[tuple[str, str]]:
    """Return namespace and key of every entity that the passages name, in the order in which they are named, each once."""
    named = ((passage.namespace, name_key(name)) for passage in passages for name in passage.entity_names)
    return [pair for pair in dict.fromkeys(named) if pair[1]][:_MOST_NAMES]


def in_order_of_mention(
    states_by_name: Mapping[tuple[str, str], Sequence[EntityState]], named: Sequence[tuple[str, str]]
) -> list[EntityState]:
    """Return the named states in order of mention, each entity once. A shared name returns all its entities, by id."""
    states = (
        state for pair in named for state in sorted(states_by_name.get(pair, ()), key=lambda entity: entity.entity_id)
    )
    return list({(state.namespace, state.entity_id): state for state in states}.values())
