"""Entities of a story: write their states, look them up at a story time, delete them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from pydantic import AfterValidator, Field
from starlette.responses import Response

from api_gateway.http import cursors
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.fields import (
    INT64,
    DocumentIdText,
    Integer64,
    Metadata,
    NamespaceName,
    Shape,
    TypeName,
    Wire,
    namespace_parameter,
    shown,
)
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.resources.route_parts import CurrentGateway
from pipeline.administration.edit_entities import delete_entities, list_states, put_states
from pipeline.entities.entity import EntityState
from pipeline.records import Namespace

MOST_STATES = 500


def _name(value: str) -> str:
    name = " ".join(value.split())
    if not name:
        raise ValueError("has no text")
    return name


EntityName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_name)]


class EntityIn(Wire):
    """The state of an entity from `story_time` on; without one, from the beginning. `state` is any object."""

    entity_id: DocumentIdText
    name: EntityName
    type: TypeName | None = None
    story_time: Integer64 | None = None
    state: Metadata = Field(default_factory=dict)


class EntitiesRequest(Wire):
    """States of entities of one namespace. A state with the same entity and story time is replaced."""

    tenant_id: str | None = None
    namespace: NamespaceName
    entities: Annotated[list[EntityIn], Field(min_length=1, max_length=MOST_STATES)]


class EntitiesDeleteRequest(Wire):
    """The entities to delete, with all their states. An empty list is refused."""

    tenant_id: str | None = None
    namespace: NamespaceName
    entity_ids: Annotated[list[DocumentIdText], Field(min_length=1, max_length=MOST_STATES)]


class EntityShape(Shape):
    """A state of an entity; `story_time` is its start, null from the beginning."""

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
    """How many states were deleted."""

    deleted: int


def to_states(sent: EntitiesRequest) -> list[EntityState]:
    """Return the states as records."""
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
    """Return an entity as it is sent."""
    return shown(EntityShape, state)


router = APIRouter(tags=["entities"])

_EXAMPLE = {"entity_id": "lin", "name": "林远", "type": "person", "story_time": 1200, "state": {"place": "北城"}}


@router.put(
    "/v1/entities",
    responses=answers(200, EntitiesWritten, "All states are written.", 400, 401, 403, 413, 415, 422, 503),
    openapi_extra=json_body(EntitiesRequest, {"namespace": "novel", "entities": [_EXAMPLE]}),
    summary="Write states of entities",
)
async def put(request: Request, gateway: CurrentGateway, principal: Writer) -> Response:
    """Write states of entities, each valid from a story time on. The same entity and story time again replaces the
    state."""
    sent = await read_shape(request, principal, EntitiesRequest)
    first: dict[tuple[str, int | None], int] = {}
    again = [
        place
        for place, each in enumerate(sent.entities)
        if first.setdefault((each.entity_id, each.story_time), place) != place
    ]
    if again:
        detail = "has the entity and story time of an earlier one in this list"
        raise invalid([{"pointer": f"/entities/{place}", "detail": detail} for place in again])
    written = await gateway.run_heavy(put_states, principal.tenant_id, to_states(sent), gateway.resources)
    return json_response({"written": written})


@router.get(
    "/v1/entities",
    responses=answers(200, EntityPage, "One page of entities, each with one state.", 401, 403, 422, 503),
    summary="List entities as of a story time",
)
async def list_entities(
    gateway: CurrentGateway,
    principal: Reader,
    namespace: Annotated[str, Parameter(description="The namespace the entities are in.")],
    as_of: Annotated[
        int | None, Parameter(ge=-INT64, le=INT64 - 1, description="No state later than this; without it, the latest.")
    ] = None,
    name: Annotated[
        str | None, Parameter(max_length=255, description="Only entities with this name at that time.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List the latest state of each entity that is not later than `as_of`. Entities without one are omitted."""
    within = namespace_parameter(namespace)
    after = cursors.decode(cursor, "entities", str)
    found = await gateway.run(
        list_states,
        principal.tenant_id,
        within,
        gateway.resources,
        as_of=as_of,
        name=name,
        after=after[0] if after else "",
        limit=limit + 1,
    )
    shown, following = cursors.page(found, limit, lambda last: cursors.encode("entities", last.entity_id))
    return page_response([entity(state) for state in shown], following)


@router.delete(
    "/v1/entities",
    responses=answers(200, EntitiesDeleted, "They are gone.", 400, 401, 403, 413, 415, 422, 503),
    openapi_extra=json_body(EntitiesDeleteRequest, {"namespace": "novel", "entity_ids": ["lin"]}),
    summary="Delete entities",
)
async def delete(request: Request, gateway: CurrentGateway, principal: Writer) -> Response:
    """Delete the named entities with all their states. Unknown names are ignored."""
    sent = await read_shape(request, principal, EntitiesDeleteRequest)
    gone = await gateway.run_heavy(
        delete_entities, principal.tenant_id, Namespace(sent.namespace), sent.entity_ids, gateway.resources
    )
    return json_response({"deleted": gone})
