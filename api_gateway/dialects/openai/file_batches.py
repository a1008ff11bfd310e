"""Batches of files, which are jobs."""

from contextlib import suppress
from datetime import datetime

from fastapi import APIRouter, Response

from api_gateway.dialects.openai import objects
from api_gateway.dialects.openai.lookups import (
    FileListQuery,
    answered,
    files_page,
    namespace_of,
    no_batch,
    put,
    store_of,
    wrong,
)
from api_gateway.dialects.openai.requests import FileBatchRequest, to_chunking, to_put
from api_gateway.http.caller import Caller, FullReader, Writer
from api_gateway.resources.route_parts import Json, existing
from pipeline.administration import edit_vector_stores, steer_jobs
from pipeline.administration.edit_vector_stores import Put
from pipeline.records import JobId
from pipeline.settings import Settings
from pipeline.vector_stores.collection import Tally

router = APIRouter()


@router.post(
    "/vector_stores/{vector_store_id}/file_batches",
    **answered(
        "Add files to a vector store", objects.FileBatchObject, "The batch, being ingested.", 400, 404, 413, 429
    ),
)
async def create(caller: Writer, vector_store_id: str, body: Json[FileBatchRequest]) -> Response:
    """Add up to 2000 files to a vector store together. On success all of them are in the ledger, otherwise none."""
    puts = _puts(body, caller.gateway.settings)

    def do() -> JobId:
        store_of(caller, vector_store_id, in_use=True)
        namespace = namespace_of(vector_store_id)
        return put(caller, namespace, puts).job_id

    job_id = await caller.gateway.run_heavy(do)
    return await caller.gateway.run(_send, caller, vector_store_id, job_id)


@router.get(
    "/vector_stores/{vector_store_id}/file_batches/{batch_id}",
    **answered("Get a batch of files", objects.FileBatchObject, "The batch.", 404),
)
async def get_batch(caller: FullReader, vector_store_id: str, batch_id: str) -> Response:
    """Return a batch. While it is in progress, the header `openai-poll-after-ms` says when to poll again."""
    return await caller.gateway.run(_send, caller, vector_store_id, _job(batch_id))


@router.post(
    "/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel",
    **answered(
        "Cancel a batch of files", objects.FileBatchObject, "The batch; its remaining files are cancelled.", 404
    ),
)
async def cancel(caller: Writer, vector_store_id: str, batch_id: str) -> Response:
    """Cancel the files of a batch that are not completed. A batch that has ended stays as it is."""
    job_id = _job(batch_id)

    def do() -> Response:
        _batch(caller, vector_store_id, job_id)
        with suppress(steer_jobs.WrongJobState):  # it has ended by itself, and its status says how
            steer_jobs.cancel(caller.tenant_id, job_id, caller.use)
        return _send(caller, vector_store_id, job_id)

    return await caller.gateway.run(do)


@router.get(
    "/vector_stores/{vector_store_id}/file_batches/{batch_id}/files",
    **answered("List the files of a batch", objects.StoreFileList, "One page of files.", 400, 404),
)
async def list_files(caller: FullReader, vector_store_id: str, batch_id: str, query: FileListQuery) -> Response:
    """List the files that this batch was the last to add."""
    job_id = _job(batch_id)

    def read() -> Response:
        _batch(caller, vector_store_id, job_id)
        return files_page(caller, namespace_of(vector_store_id), query, job_id=job_id)

    return await caller.gateway.run(read)


def _puts(sent: FileBatchRequest, use: Settings) -> list[Put]:
    if sent.files is None:
        chunking, names = to_chunking(sent.chunking_strategy, use), dict.fromkeys(sent.file_ids or ())
        return [Put(file_id=name, chunking=chunking, attributes=sent.attributes or {}) for name in names]
    if len({file.file_id for file in sent.files}) < len(sent.files):
        raise wrong("files", "names a file twice")
    return [to_put(file, use) for file in sent.files]


def _job(batch_id: str) -> JobId:
    return existing(objects.job_of(batch_id), no_batch(batch_id))


def _batch(caller: Caller, store_id: str, job_id: JobId) -> tuple[datetime, Tally]:
    """Return the time and the tally of a batch of this vector store. Blocking. Raises Problem(404)."""
    namespace = namespace_of(store_id)
    batch = edit_vector_stores.tally_batch(caller.tenant_id, namespace, job_id, caller.use)
    if batch is not None:
        return batch
    store_of(caller, store_id)
    raise no_batch(objects.BATCH_PREFIX + job_id.replace("-", ""))


def _send(caller: Caller, store_id: str, job_id: JobId) -> Response:
    created_at, tally = _batch(caller, store_id, job_id)
    batch = objects.batch(job_id, namespace_of(store_id), created_at, tally)
    return objects.polled_response(batch, waiting=tally.of("in_progress"))
