"""Entities of a story: write their states, look them up as of a story time, delete them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import gateway_of
from api_gateway.http import cursors
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import Cursor, Limit, answers, json_body
from api_gateway.http.fields import INT64, namespace_parameter
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.problems import invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.resources.entity_shapes import (
    EntitiesDeleted,
    EntitiesDeleteRequest,
    EntitiesRequest,
    EntitiesWritten,
    EntityPage,
    entity,
    to_states,
)
from pipeline.administration.edit_entities import delete_entities, list_states, put_states
from pipeline.records import Namespace

router = APIRouter(tags=["entities"])

_EXAMPLE = {"entity_id": "lin", "name": "林远", "type": "person", "story_time": 1200, "state": {"place": "北城"}}


@router.put(
    "/v1/entities",
    responses=answers(200, EntitiesWritten, "They are written, all of them.", 400, 401, 403, 413, 415, 422, 503),
    openapi_extra=json_body(EntitiesRequest, {"namespace": "novel", "entities": [_EXAMPLE]}),
    summary="Write states of entities",
)
async def put(request: Request, principal: Writer) -> Response:
    """Each says what an entity is like from a story time on. The same entity and story time again replaces the state."""
    gateway = gateway_of(request)
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
    request: Request,
    principal: Reader,
    namespace: Annotated[str, Parameter(description="The namespace the entities are in.")],
    as_of: Annotated[
        int | None, Parameter(ge=-INT64, le=INT64 - 1, description="No state later than this; without it, the latest.")
    ] = None,
    name: Annotated[str | None, Parameter(max_length=255, description="Only those that are called so then.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The latest state of each entity that is not later than `as_of`. Entities that have none yet are not listed."""
    gateway = gateway_of(request)
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
async def delete(request: Request, principal: Writer) -> Response:
    """Those that are named, with all their states. One that is not there counts as nothing."""
    gateway = gateway_of(request)
    sent = await read_shape(request, principal, EntitiesDeleteRequest)
    gone = await gateway.run_heavy(
        delete_entities, principal.tenant_id, Namespace(sent.namespace), sent.entity_ids, gateway.resources
    )
    return json_response({"deleted": gone})
