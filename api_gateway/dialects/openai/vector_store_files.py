"""Files in a vector store: add, look up, describe, read, remove."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

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
from api_gateway.http.caller import Caller, FullReader, Writer
from api_gateway.http.responses import json_response
from api_gateway.resources.jobs import until_finished
from api_gateway.resources.route_parts import Json
from pipeline.administration.edit_vector_stores import NoSuchFile, describe_file, take_out
from pipeline.administration.list_documents import list_chunks
from pipeline.records import DocumentId, JobId
from pipeline.vector_stores.collection import Attached
from workers import dispatch

router = APIRouter()

_DESCRIBED_WITHIN_S = 5.0
_CHUNKS_AT_ONCE = 500


@router.post(
    "/vector_stores/{vector_store_id}/files",
    **answered(
        "Add a file to a vector store", objects.StoreFileObject, "The file, being ingested.", 400, 404, 413, 429
    ),
)
async def create(caller: Writer, vector_store_id: str, body: Json[StoreFileRequest]) -> Response:
    """Add a file. It is searchable once its status is `completed`. A file that is in the store already is ingested
    again."""

    def do() -> Attached:
        namespace = namespace_of(vector_store_id)
        store_of(caller, vector_store_id, in_use=True)
        puts = [to_put(body, caller.gateway.settings)]
        put(caller, namespace, puts)
        return file_of(caller, vector_store_id, body.file_id)

    return _polled(await caller.gateway.run(do))


@router.get(
    "/vector_stores/{vector_store_id}/files",
    **answered("List the files of a vector store", objects.StoreFileList, "One page of files.", 400, 404),
)
async def list_files(caller: FullReader, vector_store_id: str, query: FileListQuery) -> Response:
    """List the files in a vector store, including documents ingested another way."""

    def read() -> Response:
        store_of(caller, vector_store_id)
        return files_page(caller, namespace_of(vector_store_id), query)

    return await caller.gateway.run(read)


@router.get(
    "/vector_stores/{vector_store_id}/files/{file_id}",
    **answered("Get a file in a vector store", objects.StoreFileObject, "The file.", 404),
)
async def get_file(caller: FullReader, vector_store_id: str, file_id: str) -> Response:
    """Return a file in a vector store. While it is in progress, the header `openai-poll-after-ms` says when to poll
    again."""
    return _polled(await caller.gateway.run(file_of, caller, vector_store_id, file_id))


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
)
async def describe(caller: Writer, vector_store_id: str, file_id: str, body: Json[StoreFileChange]) -> Response:
    """Replace a file's attributes. Searches use the old ones until the status is `completed` again, nearly always
    before this answer."""

    def do() -> JobId | None:
        store_of(caller, vector_store_id, in_use=True)
        try:
            accepted = describe_file(
                caller.tenant_id,
                file_of(caller, vector_store_id, file_id),
                body.attributes or {},
                caller.use,
                notify=dispatch.notify,
                request_id=caller.request_id,
            )
        except NoSuchFile:
            raise no_file(file_id) from None
        return None if accepted is None else accepted.job_id

    job_id = await caller.gateway.run(do)
    if job_id is not None:
        await until_finished(caller, job_id, _DESCRIBED_WITHIN_S)
    return _polled(await caller.gateway.run(file_of, caller, vector_store_id, file_id))


@router.get(
    "/vector_stores/{vector_store_id}/files/{file_id}/content",
    **answered(
        "Get the text of a file in a vector store",
        objects.StoreFileContent,
        "The text that was read from the file.",
        404,
    ),
)
async def content(caller: FullReader, vector_store_id: str, file_id: str) -> Response:
    """Return the text of a file in its searched pieces, in order; empty until the file is `completed`."""
    return json_response(await caller.gateway.run_heavy(_content, caller, vector_store_id, file_id))


@router.delete(
    "/vector_stores/{vector_store_id}/files/{file_id}",
    **answered("Remove a file from a vector store", objects.Deleted, "Removed from the vector store.", 404),
)
async def delete(caller: Writer, vector_store_id: str, file_id: str) -> Response:
    """Remove a file from a vector store. Searches stop finding it at once; the file itself stays."""

    def do() -> None:
        namespace = namespace_of(vector_store_id)
        if not take_out(caller.tenant_id, namespace, DocumentId(file_id), caller.use):
            store_of(caller, vector_store_id)
            raise no_file(file_id)

    await caller.gateway.run(do)
    return json_response({"id": file_id, "object": "vector_store.file.deleted", "deleted": True})


def _polled(file: Attached) -> Response:
    return objects.polled_response(objects.store_file(file), waiting=1 if file.status == "in_progress" else 0)


def _content(caller: Caller, store_id: str, file_id: str) -> dict[str, Any]:
    file_of(caller, store_id, file_id)
    texts: list[str] = []
    read = partial(list_chunks, reads_as=caller.reads_as, document_id=file_id, enabled=True, limit=_CHUNKS_AT_ONCE)
    after = None
    while True:
        page = read(caller.tenant_id, namespace_of(store_id), caller.use, after=after)
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
