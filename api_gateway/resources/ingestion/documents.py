"""Documents: submit them as JSON, list them, read one with its chunks and generations, roll it back, delete it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar

from fastapi import APIRouter, Header, Path, Response
from pydantic import AfterValidator, Field

from api_gateway.http import cursors
from api_gateway.http.bodies import MAX_BODY_BYTES, read_json_body
from api_gateway.http.caller import Caller, Reader, Writer
from api_gateway.http.fields import NamespaceName, NamespaceParameter, TenantWire, tidy_document_id
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import Problem, quoted
from api_gateway.http.request_context import SLASH
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Limit, Parameter, Wait, json_body, route
from api_gateway.live import poll
from api_gateway.resources.ingestion.chunks import of_document
from api_gateway.resources.ingestion.uploads import DocumentsRequest, batch_of
from api_gateway.resources.retrieval.query_body import FiltersText, filters_parameter
from api_gateway.resources.route_parts import Json, deleted, existing, parse, send_page
from api_gateway.resources.shapes import (
    ChunkPage,
    DocumentPage,
    accepted_response,
    document_json,
)
from chordwise.contract.document import Document, GenerationList
from chordwise.contract.job import JobAccepted
from pipeline.administration import list_documents as owned_documents
from pipeline.administration.delete_documents import delete_document
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import DocumentOrder, DocumentSelection, DocumentStatus, DocumentView, OwnedChunk
from pipeline.ingestion.accept import AcceptedJob, accept
from pipeline.ingestion.reingest import roll_back
from pipeline.records import DocumentId, JobId, Namespace
from workers import dispatch


class RollbackRequest(TenantWire):
    """The document, and the retained generation to roll back to; without one, the latest retained one."""

    example: ClassVar = {"namespace": "kb"}

    namespace: NamespaceName
    generation: Annotated[int, Field(ge=1)] | None = None


def parse_id(segment: str) -> DocumentId:
    """Return the id in a path. Raises Problem(404) for an invalid one."""
    document_id = segment.replace(SLASH, "/")
    return DocumentId(parse(tidy_document_id, document_id, not_found(document_id)))


def not_found(document_id: str) -> Problem:
    """Return the problem of a missing document."""
    return Problem(404, "document_not_found", f"There is no document {quoted(document_id)} in this namespace.")


router = APIRouter(tags=["documents"])

InNamespace = Annotated[NamespaceParameter, Parameter(description="The namespace the document is in.")]
Id = Annotated[
    DocumentId, AfterValidator(parse_id), Path(description="The document's id; a slash in it is written `%2F`.")
]

_EXAMPLE = {
    "namespace": "kb",
    "documents": [
        {
            "document_id": "manual-1",
            "title": "Controller manual",
            "text": "# Resetting\n\nHold the button for five seconds.",
            "type": "manual",
            "tags": ["controller"],
            "source": {"media_type": "text/markdown"},
        }
    ],
}


@router.post(
    "/v1/documents",
    **route(
        "Hand in documents",
        JobAccepted,
        "The documents are durable: no crash can lose one. Invalid documents are among the errors of the job.",
        headers={"Location": "The job."},
        status=202,
    ),
    openapi_extra=json_body(DocumentsRequest, _EXAMPLE),
)
async def submit(caller: Writer) -> Response:
    """Accept the valid documents of a batch. If none is valid, the answer is an error and nothing was stored."""
    body = await read_json_body(caller.request, caller.gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES)
    accepted = await caller.gateway.run_heavy(accept_body, caller, body, work_id(caller.request))
    return accepted_response(accepted)


def accept_body(caller: Caller, body: bytes, job_id: JobId | None = None) -> AcceptedJob:
    """Accept the documents of a body as a job, with this id if it has one already. Heavy. Raises Problem, or the errors
    of intake."""
    batch = replace(batch_of(body, caller.principal, caller.request_id, caller.gateway.settings), job_id=job_id)
    return accept(batch, caller.use, notify=dispatch.notify)


@router.get("/v1/documents", **route("List documents", DocumentPage, "One page of documents, by namespace and id."))
async def list_documents(
    caller: Reader,
    namespace: Annotated[NamespaceParameter | None, Parameter(description="Only those in this namespace.")] = None,
    status: Annotated[
        DocumentStatus | None, Parameter(description="Only those whose latest upload is in this state.")
    ] = None,
    source_id: Annotated[str | None, Parameter(max_length=64, description="Only those of this source.")] = None,
    contains: Annotated[
        str | None,
        Parameter(
            min_length=1,
            max_length=200,
            description="Only those whose id or title contains this text; case and accents do not count.",
        ),
    ] = None,
    filters: FiltersText = None,
    duplicates: Annotated[
        bool, Parameter(description="Only those with the same bytes as an older document of their namespace.")
    ] = False,
    order_by: Annotated[
        DocumentOrder, Parameter(description="`document_id` is by namespace and id, `-updated_at` the newest first.")
    ] = "document_id",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List documents that are searchable or being ingested. With `status`, those in this state: an upload that failed
    or was cancelled and never became searchable is listed under `failed` or `cancelled` only, and no quota counts it.
    """
    selection = DocumentSelection(
        namespace=namespace,
        status=status,
        source_id=source_id,
        contains=contains,
        filters=None if filters is None else filters_parameter(filters),
        duplicates=duplicates,
        order_by=order_by,
    )
    kind, *types = ("documents", str, str) if order_by == "document_id" else (f"documents:{order_by}", str, str, str)
    after = cursors.decode(cursor, kind, *types)
    read = partial(DocumentViews.views, reads_as=caller.reads_as, after=after, limit=limit + 1)
    views = await caller.gateway.run(caller.read, DocumentViews, read, selection)
    send = partial(document_json, reads_as=caller.reads_as)
    return send_page(views, limit, kind, lambda view: view.position(order_by), send)


@router.get("/v1/documents/{document_id}", **route("Get a document", Document, "The document, without its text.", 404))
async def get_document(caller: Reader, document_id: Id, namespace: InNamespace, wait: Wait = 0) -> Response:
    """Return a document. `generation` is null while the first one is being ingested. With `wait`, the answer comes when
    it is searchable, its upload has failed or was cancelled, or the seconds have passed."""
    name = f"{caller.tenant_id}:document:{namespace}:{document_id}"

    def is_settled(view: DocumentView) -> bool:
        return view.generation is not None or view.status in ("failed", "cancelled")

    view = await poll.until(caller, name, lambda: find(caller, namespace, document_id), is_settled, wait)
    return json_response(document_json(view, reads_as=caller.reads_as))


@router.delete(
    "/v1/documents/{document_id}", **route("Delete a document", None, "Deleted; searches no longer find it.", 404)
)
async def delete(caller: Writer, document_id: Id, namespace: InNamespace) -> Response:
    """Delete a document, including uploads under this id that are still being ingested."""
    was_there = await caller.gateway.run(delete_document, caller.tenant_id, namespace, document_id, caller.use)
    return deleted(was_there, not_found(document_id))


@router.get(
    "/v1/documents/{document_id}/chunks",
    **route("List a document's chunks", ChunkPage, "One page of chunks, by parent_id and chunk_index.", 404),
)
async def list_chunks(
    caller: Reader, document_id: Id, namespace: InNamespace, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """List the chunks of the searchable generation, with their parents; none while the first one is being ingested."""
    after = cursors.decode(cursor, "chunks", int, int)

    def read() -> Sequence[tuple[OwnedChunk, str | None]]:
        find(caller, namespace, document_id)
        start, use = (document_id, *after) if after else None, caller.use
        return owned_documents.list_chunks(
            caller.tenant_id,
            namespace,
            use,
            reads_as=caller.reads_as,
            document_id=document_id,
            after=start,
            limit=limit + 1,
        )

    rows = await caller.gateway.run(read)
    return send_page(rows, limit, "chunks", lambda row: row[0].position[1:], lambda row: of_document(*row))


def find(caller: Caller, namespace: Namespace, document_id: DocumentId) -> DocumentView:
    """Return the document. Blocking. Raises Problem 404."""
    view = caller.read(DocumentViews, DocumentViews.view, namespace, document_id, reads_as=caller.reads_as)
    return existing(view, not_found(document_id))


@router.get(
    "/v1/documents/{document_id}/generations",
    **route(
        "List a document's generations",
        GenerationList,
        "The generations of which something is left.",
        404,
        headers={"ETag": "The present state, for `If-Match` of a rollback."},
    ),
)
async def list_generations(caller: Reader, document_id: Id, namespace: InNamespace) -> Response:
    """List the generations, newest first: the visible one, those available for a rollback, those being ingested, and
    failed ones."""
    await caller.gateway.run(find, caller, namespace, document_id)
    history = await caller.gateway.run(
        owned_documents.list_generations, caller.tenant_id, caller.use, namespace, document_id
    )
    history = existing(history, not_found(document_id))
    return json_response(history, headers={"ETag": history.etag})


@router.post(
    "/v1/documents/{document_id}/rollback",
    **route(
        "Roll back a document",
        JobAccepted,
        "The generation is accepted once more, as the latest upload of the document; searches see what is shown now "
        "until it is ingested.",
        404,
        409,
        412,
        headers={"Location": "The job."},
        status=202,
    ),
)
async def rollback(
    caller: Writer,
    document_id: Id,
    sent: Json[RollbackRequest],
    if_match: Annotated[
        str | None, Header(description="Only if the document's generations are still those this etag came with.")
    ] = None,
) -> Response:
    """Ingest the earlier upload again, with the current settings; edits of single chunks are not restored. The visible
    generation becomes the previous one, so a second rollback undoes the first. A 409 if none is retained."""
    accepted = await caller.gateway.run(
        roll_back,
        caller.tenant_id,
        Namespace(sent.namespace),
        document_id,
        caller.use,
        to=sent.generation,
        etag=None if if_match == "*" else if_match,
        request_id=caller.request_id,
        notify=dispatch.notify,
    )
    return accepted_response(existing(accepted, not_found(document_id)))
