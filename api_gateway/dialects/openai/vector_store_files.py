"""Files in a vector store: add, look up, describe, read, remove."""

from typing import Any

from fastapi import APIRouter, Request, Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import (
    FileListQuery,
    answered,
    file_of,
    files_page,
    namespace_of,
    no_file,
    put,
    store_of,
)
from api_gateway.dialects.openai.requests import StoreFileChange, StoreFileRequest, to_put
from api_gateway.gateway import Gateway
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.descriptions import json_body
from api_gateway.http.responses import json_response
from api_gateway.resources.jobs import until_finished
from api_gateway.resources.route_parts import CurrentGateway, read_shape
from pipeline.administration.edit_vector_stores import NoSuchFile, describe_file, take_out
from pipeline.administration.list_documents import list_chunks
from pipeline.records import DocumentId, JobId
from pipeline.tenants.accounts import Principal
from pipeline.vector_stores.collection import Attached
from workers import dispatch

router = APIRouter()

_MAX_BODY_BYTES = 64 * 1024
_DESCRIBED_WITHIN_S = 5.0
_CHUNKS_AT_ONCE = 500


@router.post(
    "/vector_stores/{vector_store_id}/files",
    **answered(
        "Add a file to a vector store", objects.StoreFileObject, "The file, being ingested.", 400, 404, 413, 429
    ),
    openapi_extra=json_body(StoreFileRequest, {"file_id": "file-0123", "attributes": {"year": 2026}}),
)
async def create(request: Request, gateway: CurrentGateway, principal: Writer, vector_store_id: str) -> Response:
    """Add a file. It is searchable once its status is `completed`. A file that is in the store already is ingested
    again."""
    body = await read_shape(request, principal, StoreFileRequest, limit=_MAX_BODY_BYTES)

    def do() -> Attached:
        namespace = namespace_of(vector_store_id)
        store_of(principal, vector_store_id, gateway, in_use=True)
        puts = [to_put(body, gateway.settings)]
        put(principal, namespace, puts, gateway, request_id=request.state.request_id)
        return file_of(principal, vector_store_id, body.file_id, gateway)

    return _polled(await gateway.run(do))


@router.get(
    "/vector_stores/{vector_store_id}/files",
    **answered("List the files of a vector store", objects.StoreFileList, "One page of files.", 400, 404),
)
async def list_files(
    gateway: CurrentGateway, principal: Reader, vector_store_id: str, query: FileListQuery
) -> Response:
    """List the files in a vector store, including documents ingested another way."""

    def read() -> Response:
        store_of(principal, vector_store_id, gateway)
        return files_page(principal, namespace_of(vector_store_id), gateway, query)

    return await gateway.run(read)


@router.get(
    "/vector_stores/{vector_store_id}/files/{file_id}",
    **answered("Get a file in a vector store", objects.StoreFileObject, "The file.", 404),
)
async def look(gateway: CurrentGateway, principal: Reader, vector_store_id: str, file_id: str) -> Response:
    """Return a file in a vector store. While it is in progress, the header `openai-poll-after-ms` says when to poll
    again."""
    return _polled(await gateway.run(file_of, principal, vector_store_id, file_id, gateway))


@router.post(
    "/vector_stores/{vector_store_id}/files/{file_id}",
    **answered(
        "Change the attributes of a file",
        objects.StoreFileObject,
        "The file with its new attributes.",
        400,
        404,
        413,
        429,
    ),
    openapi_extra=json_body(StoreFileChange, {"attributes": {"year": 2027}}),
)
async def describe(
    request: Request, gateway: CurrentGateway, principal: Writer, vector_store_id: str, file_id: str
) -> Response:
    """Replace a file's attributes. Searches use the old ones until the status is `completed` again, nearly always
    before this answer."""
    body = await read_shape(request, principal, StoreFileChange, limit=_MAX_BODY_BYTES)

    def do() -> JobId | None:
        store_of(principal, vector_store_id, gateway, in_use=True)
        try:
            ticket = describe_file(
                principal.tenant_id,
                file_of(principal, vector_store_id, file_id, gateway),
                body.attributes or {},
                gateway.resources,
                ring=dispatch.ring,
                request_id=request.state.request_id,
            )
        except NoSuchFile:
            raise no_file(file_id) from None
        return None if ticket is None else ticket.job_id

    job_id = await gateway.run(do)
    if job_id is not None:
        await until_finished(principal.tenant_id, job_id, _DESCRIBED_WITHIN_S, gateway, receive=request.receive)
    return _polled(await gateway.run(file_of, principal, vector_store_id, file_id, gateway))


@router.get(
    "/vector_stores/{vector_store_id}/files/{file_id}/content",
    **answered(
        "Get the text of a file in a vector store",
        objects.StoreFileContent,
        "The text that was read from the file.",
        404,
    ),
)
async def content(gateway: CurrentGateway, principal: Reader, vector_store_id: str, file_id: str) -> Response:
    """Return the text of a file in its searched pieces, in order; empty until the file is `completed`."""
    return json_response(await gateway.run_heavy(_content, principal, vector_store_id, file_id, gateway))


@router.delete(
    "/vector_stores/{vector_store_id}/files/{file_id}",
    **answered("Remove a file from a vector store", objects.Deleted, "Removed from the vector store.", 404),
)
async def delete(gateway: CurrentGateway, principal: Writer, vector_store_id: str, file_id: str) -> Response:
    """Remove a file from a vector store. Searches stop finding it at once; the file itself stays."""

    def do() -> None:
        namespace = namespace_of(vector_store_id)
        if not take_out(principal.tenant_id, namespace, DocumentId(file_id), gateway.resources):
            store_of(principal, vector_store_id, gateway)
            raise no_file(file_id)

    await gateway.run(do)
    return json_response({"id": file_id, "object": "vector_store.file.deleted", "deleted": True})


def _polled(file: Attached) -> Response:
    return objects.polled_response(objects.store_file(file), waiting=1 if file.status == "in_progress" else 0)


def _content(principal: Principal, store_id: str, file_id: str, gateway: Gateway) -> dict[str, Any]:
    file_of(principal, store_id, file_id, gateway)
    texts: list[str] = []
    after = None
    while True:
        page = list_chunks(
            principal.tenant_id,
            namespace_of(store_id),
            gateway.resources,
            document_id=file_id,
            enabled=True,
            after=after,
            limit=_CHUNKS_AT_ONCE,
        )
        texts += [chunk.passage.text for chunk, _ in page if chunk.searched]
        if len(page) < _CHUNKS_AT_ONCE:
            break
        after = page[-1][0].position
    return {
        "object": "vector_store.file_content.page",
        "data": [{"type": "text", "text": text} for text in texts],
        "has_more": False,
        "next_page": None,
    }
