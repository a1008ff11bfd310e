"""Entities of a story: requests, answers, and the conversion between them and records."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from api_gateway.http.fields import DocumentIdText, Integer64, Metadata, NamespaceName, TypeName, Wire
from api_gateway.resources.shapes import Shape, shown
from pipeline.entities.entity import EntityState

MOST_STATES = 500


def _name(value: str) -> str:
    name = " ".join(value.split())
    if not name:
        raise ValueError("has no text")
    return name


EntityName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_name)]


class EntityIn(Wire):
    """What an entity is like from `story_time` on; without one, from the beginning. `state` is any object."""

    entity_id: DocumentIdText
    name: EntityName
    type: TypeName | None = None
    story_time: Integer64 | None = None
    state: Metadata = Field(default_factory=dict)


class EntitiesRequest(Wire):
    """States of entities of one namespace. What an entity has at the same story time is replaced."""

    tenant_id: str | None = None
    namespace: NamespaceName
    entities: Annotated[list[EntityIn], Field(min_length=1, max_length=MOST_STATES)]


class EntitiesDeleteRequest(Wire):
    """Exactly the entities that are to go, with all their states. An empty list is refused."""

    tenant_id: str | None = None
    namespace: NamespaceName
    entity_ids: Annotated[list[DocumentIdText], Field(min_length=1, max_length=MOST_STATES)]


class EntityShape(Shape):
    """What an entity is like; `story_time` is since when, null from the beginning."""

    entity_id: str
    namespace: str
    name: str
    type: str | None
    story_time: int | None
    state: dict[str, Any]
    updated_at: datetime


class EntityPage(Shape):
    """Entities by id, each with its latest state."""

    data: list[EntityShape]
    next_cursor: str | None


class EntitiesWritten(Shape):
    """How many states were written."""

    written: int


class EntitiesDeleted(Shape):
    """How many states went."""

    deleted: int


def to_states(sent: EntitiesRequest) -> list[EntityState]:
    """The states as records."""
    return [
        EntityState(
            namespace=sent.namespace,
            entity_id=each.entity_id,
            name=each.name,
            type=each.type,
            story_time=each.story_time,
            state=each.state,
        )
        for each in sent.entities
    ]


def entity(state: EntityState) -> dict[str, Any]:
    """An entity as it is sent."""
    return shown(EntityShape, state)
