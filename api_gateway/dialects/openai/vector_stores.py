"""Vector stores: made, looked at, changed, deleted. Every namespace is one, whoever made it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from api_gateway.dialects.openai import conversions as shown
from api_gateway.dialects.openai import objects as shapes
from api_gateway.dialects.openai.error_bodies import answered, no_store
from api_gateway.dialects.openai.lookups import After, Before, Limit, Order, cut, namespace_of, place_of, put, store_of
from api_gateway.dialects.openai.requests import VectorStoreChange, VectorStoreRequest, to_chunking
from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import json_body
from api_gateway.http.json_bodies import read_shape
from api_gateway.http.responses import json_response
from pipeline.administration.edit_vector_stores import Put, change_store, open_store
from pipeline.database.unit_of_work import unit_of_work
from pipeline.maintenance.erase import delete_namespace
from pipeline.records import Namespace
from pipeline.tenants.tenant_store import Principal
from pipeline.vector_stores.attachment_store import Attachments, ListPosition, Tally
from pipeline.vector_stores.collection_store import VectorStore, VectorStores
from pipeline.vector_stores.file_store import made_at, new_id

router = APIRouter()

ID_PREFIX = "vs_"
_MAX_BODY_BYTES = 256 * 1024


@router.post(
    "/vector_stores",
    responses=answered(shapes.VectorStoreObject, "The vector store.", 400, 404, 413, 429),
    openapi_extra=json_body(VectorStoreRequest, {"name": "Manuals", "metadata": {"team": "support"}}),
    summary="Make a vector store",
)
async def create(request: Request, principal: Writer) -> Response:
    """It is a namespace named after its id. With `file_ids`, these are put into it."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, VectorStoreRequest, limit=_MAX_BODY_BYTES)
    chunking = to_chunking(asked.chunking_strategy, gateway.settings)
    puts = [Put(file_id=each, chunking=chunking, attributes={}) for each in dict.fromkeys(asked.file_ids or ())]
    namespace = Namespace(new_id(ID_PREFIX))
    created_at = made_at(ID_PREFIX, namespace) or datetime.now(UTC)
    made = VectorStore(
        namespace=namespace,
        name=asked.name or "",
        description=asked.description,
        metadata=asked.metadata or {},
        expires_after_days=asked.expires_after.days if asked.expires_after else None,
        created_at=created_at,
        last_active_at=created_at,
    )
    if puts:
        request_id = request.state.request_id
        await gateway.run_heavy(put, principal, namespace, puts, gateway, request_id=request_id, opening=made)
    else:
        await gateway.run(open_store, principal.tenant_id, made, gateway.resources)
    return json_response(await gateway.run(_shown, principal, namespace, gateway))


@router.get(
    "/vector_stores",
    responses=answered(shapes.VectorStoreList, "One page of vector stores.", 400),
    summary="List vector stores",
)
async def list_stores(
    request: Request,
    principal: Reader,
    limit: Limit = 20,
    order: Order = "desc",
    after: After = None,
    before: Before = None,
) -> Response:
    """Every namespace of the tenant, the newest first unless `order` says otherwise."""
    gateway = gateway_of(request)

    def read() -> tuple[list[VectorStore], dict[str, Tally], ListPosition | None]:
        with unit_of_work(gateway.resources.mysql) as work:
            stores = VectorStores(work.connection, principal.tenant_id)

            def position(store_id: str) -> datetime | None:
                found = stores.one(Namespace(store_id))
                return made_at(ID_PREFIX, store_id) if found is None else found.created_at

            place = place_of(after, before, position)
            page = stores.page(place=place, newest_first=order == "desc", limit=limit + 1)
            names = [each.namespace for each in page]
            return page, Attachments(work.connection, principal.tenant_id).tallies(names), place

    page, tallies, place = await gateway.run(read)
    entries, has_more = cut(page, limit, place)
    return shown.page_response([shown.store(each, tallies[each.namespace]) for each in entries], has_more=has_more)


@router.get(
    "/vector_stores/{vector_store_id}",
    responses=answered(shapes.VectorStoreObject, "The vector store.", 404),
    summary="Look at a vector store",
)
async def look(request: Request, principal: Reader, vector_store_id: str) -> Response:
    """With how many of its files stand where."""
    gateway = gateway_of(request)
    return json_response(await gateway.run(_shown, principal, vector_store_id, gateway))


@router.post(
    "/vector_stores/{vector_store_id}",
    responses=answered(shapes.VectorStoreObject, "The vector store as it is now.", 400, 404, 413),
    openapi_extra=json_body(VectorStoreChange, {"name": "Manuals of 2026"}),
    summary="Change a vector store",
)
async def change(request: Request, principal: Writer, vector_store_id: str) -> Response:
    """What is left out stays as it is."""
    gateway = gateway_of(request)
    asked = await read_shape(request, principal, VectorStoreChange, limit=_MAX_BODY_BYTES)

    def do() -> dict[str, Any]:
        namespace = namespace_of(vector_store_id)
        store_of(principal, vector_store_id, gateway, in_use=True)
        if (
            change_store(principal.tenant_id, namespace, lambda before: _changed(before, asked), gateway.resources)
            is None
        ):
            raise no_store(vector_store_id)
        return _shown(principal, vector_store_id, gateway)

    return json_response(await gateway.run(do))


@router.delete(
    "/vector_stores/{vector_store_id}",
    responses=answered(shapes.Deleted, "It is gone, with all documents in it.", 404),
    summary="Delete a vector store",
)
async def delete(request: Request, principal: Writer, vector_store_id: str) -> Response:
    """Files that were put into it stay files."""
    gateway = gateway_of(request)
    namespace = namespace_of(vector_store_id)
    gone = await gateway.run_heavy(delete_namespace, principal.tenant_id, namespace, gateway.resources)
    gateway.namespaces.forget(principal.tenant_id, namespace)
    if gone is None:
        raise no_store(vector_store_id)
    return json_response({"id": namespace, "object": "vector_store.deleted", "deleted": True})


def _changed(before: VectorStore, asked: VectorStoreChange) -> VectorStore:
    """The store with every field that the request names; naming it with null takes it away. Changing it uses it."""
    fields = asked.model_fields_set
    moment = datetime.now(UTC)
    after = replace(before, last_active_at=moment)
    if "name" in fields:
        after = replace(after, name=asked.name or "")
    if "description" in fields:
        after = replace(after, description=asked.description)
    if "metadata" in fields:
        after = replace(after, metadata=asked.metadata or {})
    if "expires_after" in fields:
        after = replace(after, expires_after_days=asked.expires_after.days if asked.expires_after else None)
    days = after.expires_after_days
    return replace(after, expires_at=None if days is None else moment + timedelta(days=days))


def _shown(principal: Principal, store_id: str, gateway: Gateway) -> dict[str, Any]:
    found = store_of(principal, store_id, gateway)
    with unit_of_work(gateway.resources.mysql) as work:
        tallies = Attachments(work.connection, principal.tenant_id).tallies([found.namespace])
    return shown.store(found, tallies[found.namespace])
