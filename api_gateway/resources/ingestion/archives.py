"""Export and import of namespaces, part by part: docs/portability.md."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi import Query as Parameter
from starlette.responses import Response

from api_gateway.gateway import Gateway
from api_gateway.http import cursors
from api_gateway.http.auth import Reader, Writer
from api_gateway.http.bodies import limited, require_identity
from api_gateway.http.descriptions import Cursor, route
from api_gateway.http.fields import namespace_parameter
from api_gateway.http.problems import Problem, invalid
from api_gateway.http.responses import json_response
from api_gateway.resources.ingestion.archive_parts import (
    Import,
    PartAnswer,
    checked,
    content_digest,
    entries_of,
    import_answer,
    parse_import_id,
    part_answer,
)
from api_gateway.resources.ingestion.uploads import require_few_enough
from api_gateway.resources.route_parts import CurrentGateway, existing, require_media_type
from pipeline.archives.archive import PART, NewPart, read_part
from pipeline.ingestion.accept import Batch, OnConflict
from pipeline.ingestion.import_archive import PartOutcome, forget, parts_of, receive_part
from pipeline.maintenance.export import ExportedPart, export_part
from workers import dispatch

router = APIRouter(tags=["namespaces"])

Name = Annotated[str, Path(description="The namespace's name.")]
ImportId = Annotated[str, Path(description="Chosen by the sender: the archive's `archive_id`.")]
Number = Annotated[int, Path(ge=1, le=1_000_000, description="The part's number in the archive.")]
MostDocuments = Annotated[int, Parameter(ge=1, le=1000, description="Documents in this part at most.")]
IfThere = Annotated[OnConflict, Parameter(description="The action for a document that exists already.")]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_PART_BODY: dict[str, Any] = {"requestBody": {"required": True, "content": {PART: _BINARY}}}
_HEADERS = {
    "Content-Digest": "The part's SHA-256 (RFC 9530).",
    "Next-Cursor": "Where the next part begins; absent from the last one.",
    "Chordwise-Counts": "Documents, chunks, vectors, and chunks without a vector: `documents=1, chunks=2, …`.",
}


@router.get(
    "/v1/namespaces/{namespace}/export",
    **route(
        "Export a namespace, part by part",
        200,
        None,
        "A part of the archive.",
        404,
        headers=_HEADERS,
        content={PART: _BINARY},
    ),
)
async def export(
    gateway: CurrentGateway, principal: Reader, namespace: Name, cursor: Cursor = None, limit: MostDocuments = 500
) -> Response:
    """Return the searchable documents, with chunks and vectors, by document id. A part ends at `limit` documents or
    about 4 MB. A document replaced during the export appears in its old or its new form."""
    name = namespace_parameter(namespace)
    after = cursors.decode(cursor, "export", str)

    def read() -> ExportedPart:
        start = after[0] if after else ""
        return export_part(principal.tenant_id, name, gateway.resources, after=start, most_documents=limit)

    await gateway.namespaces.require(principal.tenant_id, [name])
    part = await gateway.run_heavy(read)
    counts = ("documents", "chunks", "vectors", "without_vector")
    headers = {
        "Content-Digest": content_digest(part.body),
        "Chordwise-Counts": ", ".join(f"{count}={getattr(part, count)}" for count in counts),
    }
    if part.following is not None:
        headers["Next-Cursor"] = cursors.encode("export", part.following)
    return Response(part.body, media_type=PART, headers=headers)


@router.put(
    "/v1/namespaces/{namespace}/imports/{import_id}/parts/{part}",
    **route(
        "Import a part of an archive",
        202,
        PartAnswer,
        "The documents of the part are durable, and on their way as a job. Single documents that could not be taken "
        "are among its errors.",
        409,
        headers={"Location": "The job."},
        also={200: "The same part had arrived before; nothing was done."},
    ),
    openapi_extra=_PART_BODY,
)
async def import_part(
    request: Request,
    gateway: CurrentGateway,
    principal: Writer,
    namespace: Name,
    import_id: ImportId,
    part: Number,
    on_conflict: IfThere = "replace",
) -> Response:
    """Import a part. Needs `Content-Digest: sha-256=:<base64>:`. Parts may come in any order, and more than once.
    Vectors are kept if this installation's model made them; else the chunks are embedded again."""
    name, parsed_id = namespace_parameter(namespace), parse_import_id(import_id)
    body = await _read(request, gateway)
    digest = request.headers.get("content-digest")

    embedder = gateway.resources.embedder

    def receive() -> PartOutcome:
        sha256 = checked(body, digest)
        content = read_part(body)
        if not content.documents:
            raise invalid([{"pointer": "/documents", "detail": "is empty"}])
        require_few_enough(len(content.documents), gateway.settings)
        batch = Batch(
            tenant_id=principal.tenant_id,
            namespace=name,
            request_id=request.state.request_id,
            entries=entries_of(content, most_bytes=gateway.settings.max_packed_document_bytes),
            on_conflict=on_conflict,
        )
        new = NewPart(
            import_id=parsed_id,
            number=part,
            sha256=sha256,
            documents=len(content.documents),
            chunks=content.chunk_count,
            vectors=content.vector_count,
            vectors_kept=(embedder.model, embedder.dimension) == (content.origin.model, content.origin.dimension),
        )
        return receive_part(batch, new, gateway.resources, ring=dispatch.ring)

    received = await gateway.run_heavy(receive)
    if received.status == "differs":
        detail = f"Part {part} of import {parsed_id} has arrived before, with the SHA-256 {received.part.sha256}."
        raise Problem(409, "import_part_differs", detail)
    status = 202 if received.status == "accepted" else 200
    location = {"Location": f"/v1/jobs/{received.part.job_id}"}
    return json_response(part_answer(received, parsed_id, name), status=status, headers=location)


@router.get(
    "/v1/namespaces/{namespace}/imports/{import_id}",
    **route("List the parts of an import", 200, Import, "The parts that have arrived, with their jobs.", 404),
)
async def look(gateway: CurrentGateway, principal: Reader, namespace: Name, import_id: ImportId) -> Response:
    """List the received parts. All others have to be sent, or sent again."""
    name, parsed_id = namespace_parameter(namespace), parse_import_id(import_id)
    parts = await gateway.run(parts_of, principal.tenant_id, name, parsed_id, gateway.resources)
    return json_response(import_answer(existing(parts or None, _not_found(parsed_id)), parsed_id, name))


@router.delete(
    "/v1/namespaces/{namespace}/imports/{import_id}",
    **route("Forget an import", 204, None, "Its parts will be accepted again.", 404),
)
async def delete(gateway: CurrentGateway, principal: Writer, namespace: Name, import_id: ImportId) -> Response:
    """Delete the record of an import. The documents and jobs stay."""
    name, parsed_id = namespace_parameter(namespace), parse_import_id(import_id)
    forgotten = await gateway.run(forget, principal.tenant_id, name, parsed_id, gateway.resources)
    existing(forgotten > 0, _not_found(parsed_id))
    return Response(status_code=204)


async def _read(request: Request, gateway: Gateway) -> bytes:
    require_identity(request.headers)
    require_media_type(request, PART)
    receive = limited(request.receive, request.headers, gateway.settings.max_body_bytes)
    return await Request(request.scope, receive).body()


def _not_found(import_id: str) -> Problem:
    return Problem(404, "import_not_found", f"No part of an import {import_id!r} has arrived in this namespace.")
