"""The entities of a story: people, places, things, and what they are like from which story time on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeline.keyword.normal_form import normal_form

_LONGEST_KEY = 255  # characters, as many as the store compares


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityState:
    """The state of an entity from ``story_time`` on, until its next state. None: from the beginning."""

    namespace: str
    entity_id: str
    name: str
    type: str | None
    story_time: int | None
    state: Mapping[str, Any] | str
    updated_at: datetime | None = None


def name_key(name: str) -> str:
    """Return the key under which spellings of a name match: compatibility forms, case and white space do not count."""
    return " ".join(normal_form("NFKC", name).casefold().split())[:_LONGEST_KEY]
