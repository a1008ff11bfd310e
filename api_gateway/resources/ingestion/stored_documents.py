"""Stored documents: the original, text and page images of one; change, ingest again or delete many."""

import dataclasses
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Self
from urllib.parse import quote

from fastapi import APIRouter, Header, Path, Response
from pydantic import Field, model_validator

from api_gateway.http import fields
from api_gateway.http.caller import Caller, Reader, Writer
from api_gateway.http.fields import TenantWire, Wire, shown
from api_gateway.http.problems import Problem
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Parameter, answers, route
from api_gateway.live.computations import compute
from api_gateway.resources.ingestion.documents import Id, InNamespace, find, not_found
from api_gateway.resources.ingestion.uploads import ChunkingIn, to_chunking
from api_gateway.resources.route_parts import MOST_SHAPE_BYTES, CompleteList, Json, existing, refuse_repeated
from api_gateway.resources.shapes import accepted_response
from chordwise.contract.chunk import DocumentText
from chordwise.contract.document import DocumentsChanged, SimilarDocument
from chordwise.contract.job import JobAccepted
from pipeline.administration.delete_documents import delete_documents
from pipeline.administration.list_documents import find_similar, read_original
from pipeline.document_sources import original_type
from pipeline.ingestion.reingest import DocumentChanges, reingest
from pipeline.jobs.computation import ComputationKind, Done
from pipeline.records import DocumentFields, DocumentId, Namespace
from workers import dispatch

MOST_DOCUMENTS: Final = 500
_WIDEST: Final = 2000  # pixels of a page image
_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(DocumentFields))
_REPEATED: Final = "stands earlier in this list"


class NewFields(fields.request_of(DocumentFields, Wire)):  # type: ignore[misc]  # computed from the contract
    """New values of a document's fields; omitted ones stay. `tags` and `metadata` are replaced whole; null empties a
    field."""

    def given(self) -> dict[str, Any]:
        """Return the values that were sent, as those of `DocumentFields`."""
        empty: dict[str, Any] = {"tags": (), "metadata": {}}
        given = {name: getattr(self, name) for name in self.model_fields_set & _FIELDS}
        given = {name: empty.get(name) if value is None else value for name, value in given.items()}
        return {**given, "tags": tuple(given["tags"])} if "tags" in given else given


class DocumentsChangeRequest(TenantWire):
    """Changes of searchable documents. `set`: new values of their fields. `chunking`: another chunking, by default each
    keeps its own. `discard_edits`: whether edits of single chunks may be lost; without it such documents are
    refused."""

    example: ClassVar = {"namespace": "kb", "document_ids": ["manual-1"], "set": {"type": "manual"}, "add_tags": ["v2"]}
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    namespace: fields.NamespaceName
    document_ids: Annotated[list[fields.DocumentIdText], Field(min_length=1, max_length=MOST_DOCUMENTS)]
    set: NewFields = NewFields()
    add_tags: fields.Tags = Field(default_factory=list)
    remove_tags: fields.Tags = Field(default_factory=list)
    chunking: ChunkingIn | None = None
    discard_edits: bool = False

    @model_validator(mode="after")
    def _name_tags_once(self) -> Self:
        if "readers" in self.set.model_fields_set:
            raise ValueError("changes readers, which PUT /v1/documents/readers does at once")
        if set(self.add_tags) & set(self.remove_tags):
            raise ValueError("adds and removes the same tag")
        return self


class DocumentsDeleteRequest(TenantWire):
    """The documents to delete. An empty list is refused."""

    example: ClassVar = {"namespace": "kb", "document_ids": ["manual-1"]}
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    namespace: fields.NamespaceName
    document_ids: Annotated[list[fields.DocumentIdText], Field(min_length=1, max_length=MOST_DOCUMENTS)]


router = APIRouter(tags=["documents"])

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


@router.get(
    "/v1/documents/{document_id}/original",
    **route(
        "Download a document's original",
        None,
        "The bytes, as they were sent or fetched.",
        404,
        409,
        content={"application/octet-stream": _BINARY},
    ),
)
async def original(
    caller: Reader,
    document_id: Id,
    namespace: InNamespace,
    generation: Annotated[
        int | None, Parameter(ge=1, description="A generation that is left; by default the searchable one.")
    ] = None,
) -> Response:
    """Return the bytes of an upload exactly as sent, always as an attachment. A document imported with its chunks has
    no original (409)."""
    sent = await caller.gateway.run_heavy(
        partial(read_original, reads_as=caller.reads_as),
        caller.tenant_id,
        namespace,
        document_id,
        generation,
        caller.use,
    )
    upload = existing(sent, not_found(document_id))
    if original_type(upload.media_type) != upload.media_type.partition(";")[0]:
        raise Problem(409, "imported_with_chunks", "The document was imported with its chunks; it has no original.")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(_file_name(upload.source_uri or document_id), safe='')}",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return Response(upload.body, headers=headers, media_type="application/octet-stream")


def _file_name(name: str) -> str:
    """Return the last part of an address, without its parameters."""
    return name.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2] or "document"


@router.get(
    "/v1/documents/{document_id}/text", **route("Get a document's text", DocumentText, "The text.", 404, 409, 413, 415)
)
async def text(caller: Reader, document_id: Id, namespace: InNamespace) -> Response:
    """Return the text that the searchable upload was cut from. A worker parses the original anew, within the limits of
    parsing."""
    done = await _read(caller, document_id, namespace, {"wanted": "text"})
    return Response(done.body, media_type="application/json")


_PAGE = answers(200, None, "The page as an image.", 404, 409, 413, 415, content={"image/png": _BINARY})
_PAGE[200]["headers"] = {"X-Pages": {"description": "The number of pages.", "schema": {"type": "integer"}}}


@router.get("/v1/documents/{document_id}/pages/{page}", responses=_PAGE, summary="Get an image of a page")
async def page_image(
    caller: Reader,
    document_id: Id,
    namespace: InNamespace,
    page: Annotated[int, Path(ge=1, le=10_000, description="The page's number, from 1.")],
    width: Annotated[int, Parameter(ge=100, le=_WIDEST, description="The image's width in pixels.")] = 1000,
) -> Response:
    """Return a page of a PDF file as PNG. A worker renders it in its parser process, within the limits of parsing."""
    wanted = {"wanted": "page", "page": page, "width": width}
    done = await _read(caller, document_id, namespace, wanted)
    if not done.body:
        raise Problem(404, "page_not_found", f"The document has no page {page}.")
    return Response(done.body, media_type="image/png", headers={"X-Pages": str(done.about["pages"])})


async def _read(caller: Caller, document_id: DocumentId, namespace: Namespace, wanted: dict[str, Any]) -> Done:
    """Have a worker read a stored document. Raises Problem 404 without such a document, and what the worker raises."""
    await caller.gateway.run(find, caller, namespace, document_id)
    asked = {"namespace": namespace, "document_id": document_id, **wanted}
    return await compute(caller, ComputationKind.STORED, asked)


class SimilarDocuments(CompleteList[SimilarDocument]):
    """Documents by similarity, at most ten."""


@router.get(
    "/v1/documents/{document_id}/similar",
    **route("List similar documents", SimilarDocuments, "The most similar documents.", 404),
)
async def similar(caller: Reader, document_id: Id, namespace: InNamespace) -> Response:
    """List the documents of the namespace whose vector is nearly the same: copies, earlier versions, and texts on the
    same matter (similarity 0.9 and above). None for a document that is not searchable yet."""
    find_readable = partial(find_similar, reads_as=caller.reads_as)
    near = await caller.gateway.run_heavy(find_readable, caller.tenant_id, namespace, document_id, caller.use)
    data = [
        shown(SimilarDocument, other, title=other.fields.title, similarity=round(similarity, 4), same_bytes=same)
        for other, similarity, same in existing(near, not_found(document_id))
    ]
    return json_response({"data": data, "next_cursor": None})


@router.patch(
    "/v1/documents",
    **route(
        "Change documents, or ingest them again",
        JobAccepted,
        "The documents are ingested again by a job; documents that it refuses are among its errors.",
        404,
        409,
        412,
        headers={"Location": "The job."},
        status=202,
    ),
)
async def change(
    caller: Writer,
    sent: Json[DocumentsChangeRequest],
    if_match: Annotated[
        str | None, Header(description="The etag of the document's generations, where only one is changed.")
    ] = None,
) -> Response:
    """Accept stored uploads again with other fields or another chunking; without changes they are ingested anew as they
    are. Searches see the present state until the job is done. Unchanged chunks keep their vectors."""
    refuse_repeated(sent.document_ids, "/document_ids/{}", _REPEATED)
    if if_match is not None and len(sent.document_ids) != 1:
        raise Problem(422, "invalid_request", "If-Match applies to one document.")
    ids = [DocumentId(document_id) for document_id in sent.document_ids]
    changes = DocumentChanges(
        fields=sent.set.given(),
        add_tags=sent.add_tags,
        remove_tags=sent.remove_tags,
        chunking=None if sent.chunking is None else to_chunking(sent.chunking, caller.gateway.settings),
        discard_edits=sent.discard_edits,
    )
    accepted = await caller.gateway.run_heavy(
        reingest,
        caller.tenant_id,
        Namespace(sent.namespace),
        ids,
        changes,
        caller.use,
        etag=None if if_match == "*" else if_match,
        request_id=caller.request_id,
        notify=dispatch.notify,
    )
    return accepted_response(existing(accepted, not_found(ids[0])))


@router.delete("/v1/documents", **route("Delete several documents", DocumentsChanged, "Deleted."))
async def delete(caller: Writer, sent: Json[DocumentsDeleteRequest]) -> Response:
    """Delete the named documents, including uploads under these ids that are still being ingested. If the answer is
    lost, repeat the request."""
    refuse_repeated(sent.document_ids, "/document_ids/{}", _REPEATED)
    ids = [DocumentId(document_id) for document_id in sent.document_ids]
    namespace = Namespace(sent.namespace)
    deleted = await caller.gateway.run_heavy(delete_documents, caller.tenant_id, namespace, ids, caller.use)
    return json_response({"namespace": namespace, "documents": deleted, "more": False})
