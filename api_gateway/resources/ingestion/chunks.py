"""Chunks of published documents: list, edit, enable, disable and delete them."""

import uuid
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar

import orjson
from fastapi import APIRouter, Header, Response
from pydantic import AfterValidator, BeforeValidator, Field

from api_gateway.http import cursors
from api_gateway.http.caller import Reader, Writer
from api_gateway.http.fields import NamespaceParameter, Shape, TenantWire, Wire, shown
from api_gateway.http.problems import MOST_ERRORS, Problem, invalid
from api_gateway.http.responses import json_response, page_response
from api_gateway.http.route_descriptions import PRINTABLE, Cursor, Limit, Parameter, route
from api_gateway.live.computations import compute
from api_gateway.resources.retrieval.query_body import FiltersText, filters_parameter
from api_gateway.resources.route_parts import MOST_SHAPE_BYTES, CompleteList, Json, Page, refuse_repeated
from chordwise.contract.chunk import ChunkBeginningShape, ChunkResult, OwnedChunkShape
from pipeline.administration import list_documents
from pipeline.administration.edit_chunks import Edit, delete_chunks
from pipeline.answer.passage_json import passage_as_json
from pipeline.documents.document_views import ChunkOrder, OwnedChunk
from pipeline.jobs.computation import ComputationKind
from pipeline.records import ChunkId

MOST_CHUNKS = 500
_LONGEST_TEXT = 64_000


def _chunk_id(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except ValueError:
        raise ValueError("is not a chunk id") from None


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("has no text; delete the chunk, or switch it off")
    return value


def _immutable(_: Any) -> Any:
    raise ValueError("belongs to the structure of the document and cannot be changed; upload the document again")


ChunkIdText = Annotated[str, AfterValidator(_chunk_id)]
Immutable = Annotated[None, BeforeValidator(_immutable)]

_EXAMPLE_ID = "7e1f6f7e-5a52-5b6c-9d5e-5f0f3c1d2b4a"


class ChunkEditIn(Wire):
    """The edit of one chunk. `etag`: only if the chunk still has it."""

    chunk_id: ChunkIdText
    text: Annotated[str, Field(max_length=_LONGEST_TEXT), AfterValidator(_not_blank)] | None = None
    enabled: bool | None = None
    etag: Annotated[str, Field(max_length=128)] | None = None
    namespace: Immutable = None
    document_id: Immutable = None
    generation: Immutable = None
    ordinal: Immutable = None
    parent_id: Immutable = None
    chunk_type: Immutable = None
    chunk_index: Immutable = None
    chapter_id: Immutable = None
    story_time: Immutable = None
    entity_names: Immutable = None
    summary: Immutable = None
    attributes: Immutable = None
    window: Immutable = None
    edited: Immutable = None
    searched: Immutable = None
    heading_path: Immutable = None
    page: Immutable = None
    page_start: Immutable = None
    page_end: Immutable = None
    start: Immutable = None
    end: Immutable = None
    token_count: Immutable = None
    metadata: Immutable = None
    source_id: Immutable = None


class ChunksEditRequest(TenantWire):
    """Edits of existing chunks, each applied independently."""

    example: ClassVar = {"chunks": [{"chunk_id": _EXAMPLE_ID, "text": "Hold the button for ten seconds."}]}
    most_bytes: ClassVar = MOST_SHAPE_BYTES

    chunks: Annotated[list[ChunkEditIn], Field(min_length=1, max_length=MOST_CHUNKS)]


class ChunksLookupRequest(TenantWire):
    """The chunks to name."""

    example: ClassVar = {"chunk_ids": [_EXAMPLE_ID]}

    chunk_ids: Annotated[list[ChunkIdText], Field(min_length=1, max_length=MOST_CHUNKS)]


class ChunksDeleteRequest(ChunksLookupRequest):
    """The chunks to delete. An empty list is refused."""

    most_bytes: ClassVar = MOST_SHAPE_BYTES


class OwnedChunkPage(Page[OwnedChunkShape]):
    """One page of chunks."""


class ChunkResults(Shape):
    """The outcome for each chunk, in the order of the request."""

    data: list[ChunkResult]


class ChunkBeginnings(CompleteList[ChunkBeginningShape]):
    """The chunks that exist, in the order of the request."""


def owned(chunk: OwnedChunk, window: str | None) -> dict[str, Any]:
    """Return a chunk in the form for its owner."""
    return shown(OwnedChunkShape, chunk, **of_document(chunk, window), metadata=chunk.fields.metadata)


def of_document(chunk: OwnedChunk, window: str | None) -> dict[str, Any]:
    """Return a chunk in the form of its document's list."""
    segment = chunk.passage.segment
    return {
        "chunk_id": chunk.chunk_id,
        "namespace": chunk.generation.scope.namespace,
        "document_id": chunk.generation.document_id,
        "generation": chunk.generation.number,
        "ordinal": chunk.ordinal,
        **passage_as_json(chunk.passage),
        "parent_id": chunk.parent_id,
        "story_time": chunk.fields.story_time if segment is None or segment.story_time is None else segment.story_time,
        "window": window,
        "edited": chunk.passage.reworded,
    }


router = APIRouter(tags=["chunks"])

_STATUS = {
    "chunk_not_found": 404,
    "precondition_failed": 412,
    "document_replaced": 409,
    "chunk_changed": 409,
    "embedder_refused": 422,
    "chunk_too_long": 422,
    "empty_chunk": 422,
}
_ABOUT_TEXT = ("chunk_too_long", "empty_chunk")
_REPEATED = "stands earlier in this list"
_MOST_SKIPPED = 10_000


@router.get("/v1/chunks", **route("List chunks", OwnedChunkPage, "One page of chunks, switched off ones too."))
async def list_chunks(
    caller: Reader,
    namespace: Annotated[NamespaceParameter, Parameter(description="The namespace the chunks are in.")],
    document_id: Annotated[str | None, Parameter(max_length=64, description="Only those of this document.")] = None,
    source_id: Annotated[
        str | None, Parameter(max_length=64, description="Only those of documents of this source.")
    ] = None,
    enabled: Annotated[bool | None, Parameter(description="Only those that searches see, or do not see.")] = None,
    chunk_type: Annotated[
        str | None,
        Parameter(
            max_length=16,
            pattern=PRINTABLE,
            description="Only those of this type: parent, child, sentence, qa, segment.",
        ),
    ] = None,
    parent_id: Annotated[
        str | None, Parameter(max_length=36, pattern=PRINTABLE, description="Only the children of this parent.")
    ] = None,
    filters: FiltersText = None,
    order_by: Annotated[
        ChunkOrder, Parameter(description="`document_id` is by document, parent_id and chunk_index.")
    ] = "document_id",
    offset: Annotated[
        int, Parameter(ge=0, le=_MOST_SKIPPED, description="Chunks to leave out; a `cursor` has no such bound.")
    ] = 0,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List chunks of published generations, and the parents they are part of."""
    after = _position(cursor, order_by)
    if after is not None and offset:
        detail = "cannot be combined with cursor, which says where the list continues"
        errors = [{"pointer": "/offset", "in": "query", "detail": detail}]
        raise invalid(errors, detail=f"The parameter offset {detail}.")
    chunks = await caller.gateway.run(
        list_documents.list_chunks,
        caller.tenant_id,
        namespace,
        caller.use,
        reads_as=caller.reads_as,
        document_id=document_id,
        source_id=source_id,
        enabled=enabled,
        chunk_type=chunk_type,
        parent_id=parent_id,
        filters=None if filters is None else filters_parameter(filters),
        order_by=order_by,
        after=after,
        offset=offset,
        limit=limit + 1,
    )
    page, following = cursors.page(chunks, limit, lambda last: _cursor(last[0], order_by))
    return page_response([owned(chunk, window) for chunk, window in page], following)


@router.post("/v1/chunks/lookup", **route("Name chunks by their ids", ChunkBeginnings, "The chunks that exist."))
async def look_up(caller: Reader, body: Json[ChunksLookupRequest]) -> Response:
    """Return title and first words of chunks, for ids from a trace. Unknown ids are left out; chunks of replaced
    generations are named while they are stored."""
    chunk_ids = [ChunkId(chunk_id) for chunk_id in dict.fromkeys(body.chunk_ids)]
    read = partial(list_documents.name_chunks, reads_as=caller.reads_as)
    found = await caller.gateway.run(read, caller.tenant_id, chunk_ids, caller.use)
    return page_response(found, None)


@router.put(
    "/v1/chunks",
    **route("Change chunks", ChunkResults, "The outcome for each chunk; some may have failed.", 404, 409, 412),
)
async def edit(
    caller: Writer,
    sent: Json[ChunksEditRequest],
    if_match: Annotated[str | None, Header(description="The etag of the chunk, where only one is edited.")] = None,
) -> Response:
    """Edit chunks. A text is analysed and embedded again; `enabled` hides a chunk from every search, or shows it again.
    If every chunk failed for one reason, the answer is that error. A later upload of the document replaces edits."""
    refuse_repeated([chunk.chunk_id for chunk in sent.chunks], "/chunks/{}/chunk_id", _REPEATED)
    if if_match is not None and len(sent.chunks) != 1:
        raise Problem(422, "invalid_request", "If-Match applies to one chunk; with more, give each its own etag.")
    etag = None if if_match == "*" else if_match
    edits = [
        Edit(chunk_id=ChunkId(chunk.chunk_id), text=chunk.text, enabled=chunk.enabled, etag=chunk.etag or etag)
        for chunk in sent.chunks
    ]
    body = await caller.gateway.run(orjson.dumps, edits)
    done = await compute(caller, ComputationKind.CHUNK_EDIT, {}, body=body)
    return _answer([ChunkResult(**edited) for edited in orjson.loads(done.body)])


@router.delete("/v1/chunks", **route("Delete chunks", ChunkResults, "The outcome for each chunk.", 404, 409))
async def delete(caller: Writer, sent: Json[ChunksDeleteRequest]) -> Response:
    """Delete the named chunks, and the children of a parent. A document whose last chunk is deleted is deleted too."""
    refuse_repeated(sent.chunk_ids, "/chunk_ids/{}", _REPEATED)
    chunk_ids = [ChunkId(chunk_id) for chunk_id in sent.chunk_ids]
    return _answer(await caller.gateway.run_heavy(delete_chunks, caller.tenant_id, chunk_ids, caller.use))


def _answer(results: list[ChunkResult]) -> Response:
    """Return the results, or one error if all failed alike."""
    codes = {result.code for result in results}
    if len(codes) == 1 and (code := results[0].code) is not None:
        detail = results[0].detail or code
        errors = [
            {"pointer": f"/chunks/{index}/text", "detail": result.detail or code}
            for index, result in enumerate(results)
            if code in _ABOUT_TEXT
        ]
        raise Problem(_STATUS[code], code, f"{detail[0].upper()}{detail[1:]}.", errors=errors[:MOST_ERRORS])
    headers = {"ETag": results[0].etag} if len(results) == 1 and results[0].etag else None
    return json_response({"data": results}, headers=headers)


def _position(cursor: str | None, order_by: ChunkOrder) -> tuple[Any, ...] | None:
    if order_by == "document_id":
        return cursors.decode(cursor, "owned_chunks", str, int, int)
    return cursors.decode(cursor, order_by, datetime, str, int, int)


def _cursor(last: OwnedChunk, order_by: ChunkOrder) -> str:
    if order_by == "document_id":
        return cursors.encode("owned_chunks", *last.position)
    return cursors.encode(order_by, last.updated_at.replace(tzinfo=None), *last.position)
