"""Entities of a story: write their states, look them up at a story time, delete them."""

from datetime import UTC, datetime
from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Response
from pydantic import AfterValidator, Field

from api_gateway.http import cursors, fields
from api_gateway.http.caller import Reader, Writer
from api_gateway.http.fields import INT64, Shape, TenantWire, Wire
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, route
from api_gateway.resources.route_parts import MOST_SHAPE_BYTES, Json, Page, refuse_repeated, send_page
from chordwise.contract.entity import EntityShape
from pipeline.administration.edit_entities import delete_entities, list_states, put_states
from pipeline.records import Namespace

MOST_STATES = 500


def _name(value: str) -> str:
    name = " ".join(value.split())
    if not name:
        raise ValueError("has no text")
    return name


EntityName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_name)]


class EntityIn(Wire):
    """The state of an entity from `story_time` on; without one, from the beginning. `state` is an object or a text."""

    entity_id: fields.NewDocumentId
    name: EntityName
    type: fields.TypeName | None = None
    story_time: fields.Integer64 | None = None
    state: fields.ObjectOrText = Field(default_factory=dict)


class EntitiesRequest(TenantWire):
    """States of entities of one namespace. A state with the same entity and story time is replaced."""

    example: ClassVar = {
        "namespace": "novel",
        "entities": [
            {"entity_id": "lin", "name": "林远", "type": "person", "story_time": 1200, "state": {"place": "北城"}}
        ],
    }
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    namespace: fields.NewNamespaceName
    entities: Annotated[list[EntityIn], Field(min_length=1, max_length=MOST_STATES)]


class EntitiesDeleteRequest(TenantWire):
    """The entities to delete, with all their states. An empty list is refused."""

    example: ClassVar = {"namespace": "novel", "entity_ids": ["lin"]}
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    namespace: fields.NamespaceName
    entity_ids: Annotated[list[fields.DocumentIdText], Field(min_length=1, max_length=MOST_STATES)]


class EntityPage(Page[EntityShape]):
    """Entities by id, each with its latest state."""


class EntitiesWritten(Shape):
    """How many states were written."""

    written: int


class EntitiesDeleted(Shape):
    """How many states were deleted."""

    deleted: int


router = APIRouter(tags=["entities"])


@router.put("/v1/entities", **route("Write states of entities", EntitiesWritten, "All states are written."))
async def put(caller: Writer, sent: Json[EntitiesRequest]) -> Response:
    """Write states of entities, each valid from a story time on. The same entity and story time again replaces the
    state."""
    refuse_repeated(
        [(entity.entity_id, entity.story_time) for entity in sent.entities],
        "/entities/{}",
        "has the entity and story time of an earlier one in this list",
    )
    moment = datetime.now(UTC)
    states = [EntityShape(namespace=sent.namespace, updated_at=moment, **dict(entity)) for entity in sent.entities]
    written = await caller.gateway.run_heavy(put_states, caller.tenant_id, states, caller.use)
    return json_response({"written": written})


@router.get(
    "/v1/entities",
    **route("List entities as of a story time", EntityPage, "One page of entities, each with one state."),
)
async def list_entities(
    caller: Reader,
    namespace: Annotated[fields.NamespaceParameter, Parameter(description="The namespace the entities are in.")],
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
    after = cursors.decode(cursor, "entities", str)
    read = partial(list_states, caller.tenant_id, caller.use, namespace, as_of=as_of, name=name)
    states = await caller.gateway.run(read, after=after[0] if after else "", limit=limit + 1)
    return send_page(states, limit, "entities", lambda state: (state.entity_id,))


@router.delete("/v1/entities", **route("Delete entities", EntitiesDeleted, "They are gone."))
async def delete(caller: Writer, sent: Json[EntitiesDeleteRequest]) -> Response:
    """Delete the named entities with all their states. Unknown names are ignored."""
    deleted = await caller.gateway.run_heavy(
        delete_entities, caller.tenant_id, Namespace(sent.namespace), sent.entity_ids, caller.use
    )
    return json_response({"deleted": deleted})
