"""Entities of a story and their states."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chordwise.contract.record import Answered


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityShape(Answered):
    """A state of an entity; `story_time` is its start, null from the beginning."""

    entity_id: str
    namespace: str
    name: str
    type: str | None
    story_time: int | None
    state: Mapping[str, Any] | str
    updated_at: datetime
