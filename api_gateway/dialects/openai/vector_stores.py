"""Vector stores: create, read, change, delete. Every namespace is a vector store, however it was created."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import APIRouter, Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import StoreListQuery, answered, cut, namespace_of, no_store, put, store_of
from api_gateway.dialects.openai.requests import VectorStoreChange, VectorStoreRequest, to_chunking
from api_gateway.http.caller import Caller, FullReader, Writer
from api_gateway.http.responses import json_response
from api_gateway.resources.route_parts import Json, existing
from pipeline.administration import edit_vector_stores
from pipeline.administration.edit_vector_stores import Put, change_store, open_store
from pipeline.maintenance.erase import delete_namespace
from pipeline.records import Namespace
from pipeline.vector_stores.collection import VectorStore, made_at, new_id

router = APIRouter()


@router.post(
    "/vector_stores",
    **answered("Create a vector store", objects.VectorStoreObject, "The vector store.", 400, 404, 413, 429),
)
async def create(caller: Writer, body: Json[VectorStoreRequest]) -> Response:
    """Create a vector store, a namespace named after its id. Files in `file_ids` are added to it."""
    chunking = to_chunking(body.chunking_strategy, caller.gateway.settings)
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
        await caller.gateway.run_heavy(put, caller, namespace, puts, opening=made)
    else:
        await caller.gateway.run(open_store, caller.tenant_id, made, caller.use)
    return json_response(await caller.gateway.run(_store_json, caller, namespace))


@router.get(
    "/vector_stores", **answered("List vector stores", objects.VectorStoreList, "One page of vector stores.", 400)
)
async def list_stores(caller: FullReader, query: StoreListQuery) -> Response:
    """List the tenant's namespaces, newest first unless `order` says otherwise."""
    stores, tallies, position = await caller.gateway.run(
        edit_vector_stores.list_stores,
        caller.tenant_id,
        query.start,
        caller.use,
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
async def get_store(caller: FullReader, vector_store_id: str) -> Response:
    """Return a vector store with the number of its files in each state."""
    return json_response(await caller.gateway.run(_store_json, caller, vector_store_id))


@router.post(
    "/vector_stores/{vector_store_id}",
    **answered("Change a vector store", objects.VectorStoreObject, "The vector store as it is now.", 400, 404, 413),
)
async def change(caller: Writer, vector_store_id: str, body: Json[VectorStoreChange]) -> Response:
    """Change a vector store. Omitted fields stay as they are."""

    def do() -> dict[str, Any]:
        namespace = namespace_of(vector_store_id)
        store_of(caller, vector_store_id, in_use=True)
        after = change_store(caller.tenant_id, namespace, lambda before: _changed(before, body), caller.use)
        existing(after, no_store(vector_store_id))
        return _store_json(caller, vector_store_id)

    return json_response(await caller.gateway.run(do))


@router.delete(
    "/vector_stores/{vector_store_id}",
    **answered("Delete a vector store", objects.Deleted, "Deleted, with all its documents.", 404),
)
async def delete(caller: Writer, vector_store_id: str) -> Response:
    """Delete a vector store with its documents. Its files stay stored."""
    namespace = namespace_of(vector_store_id)
    deleted = await caller.gateway.run_heavy(delete_namespace, caller.tenant_id, namespace, caller.use)
    caller.gateway.namespaces.forget(caller.tenant_id, namespace)
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


def _store_json(caller: Caller, store_id: str) -> dict[str, Any]:
    stored = store_of(caller, store_id)
    tally = edit_vector_stores.tally_store(caller.tenant_id, Namespace(stored.namespace), caller.use)
    return objects.store(stored, tally)
