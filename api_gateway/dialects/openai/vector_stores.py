"""Vector stores: create, read, change, delete. Every namespace is a vector store, however it was created."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import StoreListQuery, answered, cut, namespace_of, no_store, put, store_of
from api_gateway.dialects.openai.requests import VectorStoreChange, VectorStoreRequest, to_chunking
from api_gateway.gateway import Gateway
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import json_body
from api_gateway.http.responses import json_response
from api_gateway.resources.route_parts import CurrentGateway, existing, read_shape
from pipeline.administration import edit_vector_stores
from pipeline.administration.edit_vector_stores import Put, change_store, open_store
from pipeline.maintenance.erase import delete_namespace
from pipeline.records import Namespace
from pipeline.tenants.accounts import Principal
from pipeline.vector_stores.collection import VectorStore, made_at, new_id

router = APIRouter()

_MAX_BODY_BYTES = 256 * 1024


@router.post(
    "/vector_stores",
    **answered("Create a vector store", objects.VectorStoreObject, "The vector store.", 400, 404, 413, 429),
    openapi_extra=json_body(VectorStoreRequest, {"name": "Manuals", "metadata": {"team": "support"}}),
)
async def create(request: Request, gateway: CurrentGateway, principal: Writer) -> Response:
    """Create a vector store, a namespace named after its id. Files in `file_ids` are added to it."""
    body = await read_shape(request, principal, VectorStoreRequest, limit=_MAX_BODY_BYTES)
    chunking = to_chunking(body.chunking_strategy, gateway.settings)
    puts = [Put(file_id=name, chunking=chunking, attributes={}) for name in dict.fromkeys(body.file_ids or ())]
    namespace = Namespace(new_id(edit_vector_stores.STORE_PREFIX))
    created_at = made_at(edit_vector_stores.STORE_PREFIX, namespace) or datetime.now(UTC)
    made = VectorStore(
        namespace=namespace,
        name=body.name or "",
        description=body.description,
        metadata=body.metadata or {},
        expires_after_days=body.expires_after.days if body.expires_after else None,
        created_at=created_at,
        last_active_at=created_at,
    )
    if puts:
        request_id = request.state.request_id
        await gateway.run_heavy(put, principal, namespace, puts, gateway, request_id=request_id, opening=made)
    else:
        await gateway.run(open_store, principal.tenant_id, made, gateway.resources)
    return json_response(await gateway.run(_store_json, principal, namespace, gateway))


@router.get(
    "/vector_stores", **answered("List vector stores", objects.VectorStoreList, "One page of vector stores.", 400)
)
async def list_stores(gateway: CurrentGateway, principal: Reader, query: StoreListQuery) -> Response:
    """List the tenant's namespaces, newest first unless `order` says otherwise."""
    stores, tallies, position = await gateway.run(
        edit_vector_stores.list_stores,
        principal.tenant_id,
        query.start,
        gateway.resources,
        newest_first=query.newest_first,
        limit=query.limit + 1,
    )
    page, has_more = cut(stores, query.limit, position)
    rows = [objects.store(stored, tallies[stored.namespace]) for stored in page]
    return objects.page_response(rows, has_more=has_more)


@router.get(
    "/vector_stores/{vector_store_id}",
    **answered("Get a vector store", objects.VectorStoreObject, "The vector store.", 404),
)
async def look(gateway: CurrentGateway, principal: Reader, vector_store_id: str) -> Response:
    """Return a vector store with the number of its files in each state."""
    return json_response(await gateway.run(_store_json, principal, vector_store_id, gateway))


@router.post(
    "/vector_stores/{vector_store_id}",
    **answered("Change a vector store", objects.VectorStoreObject, "The vector store as it is now.", 400, 404, 413),
    openapi_extra=json_body(VectorStoreChange, {"name": "Manuals of 2026"}),
)
async def change(request: Request, gateway: CurrentGateway, principal: Writer, vector_store_id: str) -> Response:
    """Change a vector store. Omitted fields stay as they are."""
    body = await read_shape(request, principal, VectorStoreChange, limit=_MAX_BODY_BYTES)

    def do() -> dict[str, Any]:
        namespace = namespace_of(vector_store_id)
        store_of(principal, vector_store_id, gateway, in_use=True)
        after = change_store(principal.tenant_id, namespace, lambda before: _changed(before, body), gateway.resources)
        existing(after, no_store(vector_store_id))
        return _store_json(principal, vector_store_id, gateway)

    return json_response(await gateway.run(do))


@router.delete(
    "/vector_stores/{vector_store_id}",
    **answered("Delete a vector store", objects.Deleted, "Deleted, with all its documents.", 404),
)
async def delete(gateway: CurrentGateway, principal: Writer, vector_store_id: str) -> Response:
    """Delete a vector store with its documents. Its files stay stored."""
    namespace = namespace_of(vector_store_id)
    deleted = await gateway.run_heavy(delete_namespace, principal.tenant_id, namespace, gateway.resources)
    gateway.namespaces.forget(principal.tenant_id, namespace)
    existing(deleted, no_store(vector_store_id))
    return json_response({"id": namespace, "object": "vector_store.deleted", "deleted": True})


def _changed(before: VectorStore, sent: VectorStoreChange) -> VectorStore:
    """Return the store with the changes of a request; null removes a value. A change counts as use."""
    fields, now = sent.model_fields_set, datetime.now(UTC)
    after = replace(before, last_active_at=now)
    if "name" in fields:
        after = replace(after, name=sent.name or "")
    if "description" in fields:
        after = replace(after, description=sent.description)
    if "metadata" in fields:
        after = replace(after, metadata=sent.metadata or {})
    if "expires_after" in fields:
        after = replace(after, expires_after_days=sent.expires_after.days if sent.expires_after else None)
    days = after.expires_after_days
    return replace(after, expires_at=None if days is None else now + timedelta(days=days))


def _store_json(principal: Principal, store_id: str, gateway: Gateway) -> dict[str, Any]:
    stored = store_of(principal, store_id, gateway)
    tally = edit_vector_stores.tally_store(principal.tenant_id, Namespace(stored.namespace), gateway.resources)
    return objects.store(stored, tally)
