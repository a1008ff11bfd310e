"""Export and import of namespaces, part by part: docs/portability.md."""

import base64
import binascii
import dataclasses
import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from api_gateway.http import cursors, fields
from api_gateway.http.bodies import flaws_in, limited, require_identity
from api_gateway.http.caller import Caller, FullReader, JobReader, Writer
from api_gateway.http.fields import Shape
from api_gateway.http.problems import Problem, invalid, places
from api_gateway.http.responses import json_response
from api_gateway.http.route_descriptions import Cursor, Parameter, route
from api_gateway.resources.ingestion.uploads import nameable, require_few_enough
from api_gateway.resources.route_parts import deleted, existing, require_media_type
from chordwise.contract.archive import ImportedPart
from chordwise.contract.job import JobError
from pipeline.archives.archive import PART, Enclosed, NewPart, Part, packed_type, read_part, write_part
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.ingestion.accept import Batch, OnConflict
from pipeline.ingestion.import_archive import PartStatus, forget, parts_of, receive_part
from pipeline.maintenance.export import ExportedPart, export_part
from pipeline.records import Chunking, DocumentFields, DocumentId, Upload
from workers import dispatch

_DIGEST = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")
_IMPORT_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SIMPLE = (str, int, float, bool)


class Carried(BaseModel):
    """The base of archive records: strict about known fields, and ignoring those of later versions."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class CarriedWhole(Carried):
    """The source that a document is a part of."""

    uri: Annotated[str, Field(max_length=2048)] | None = None
    media_type: Annotated[str, Field(max_length=127, pattern=r"^[!-~]+$")] = "text/plain"


class CarriedSource(Carried):
    """The source of a document before it was exported."""

    uri: Annotated[str, Field(max_length=2048)] | None = None
    media_type: Annotated[str, Field(max_length=255)] = "text/plain"
    kind: Literal["text", "bytes", "file", "url", "sheet"] = "text"
    source_id: fields.NewSourceId | None = None
    whole: CarriedWhole | None = None


class CarriedDocument(fields.request_of(DocumentFields, Carried)):  # type: ignore[misc]  # computed from the contract
    """A line of ``documents.jsonl``."""

    document_id: fields.NewDocumentId
    tags: fields.Tags = Field(default_factory=list)
    metadata: fields.Metadata = Field(default_factory=dict)
    source: CarriedSource = CarriedSource()
    chunking: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAnswer(ImportedPart):
    """The outcome of a sent part. `present`: it had been received before, and nothing changed."""

    import_id: str
    namespace: str
    status: Literal["accepted", "present"]


class Import(Shape):
    """The parts of an archive that were received, in order."""

    import_id: str
    namespace: str
    parts: list[ImportedPart]


def entries_of(part: Part, *, most_bytes: int) -> list[Upload | JobError]:
    """Return the documents of a part as uploads, each a part of its own; an invalid one does not affect the others."""
    taken: set[str] = set()
    entries: list[Upload | JobError] = []
    for index, document in enumerate(part.documents):
        entry = _entry(part, document, f"/documents/{index}", most_bytes)
        if isinstance(entry, Upload) and entry.document_id in taken:
            detail = "The same document_id stands earlier in this part."
            entry = JobError(document_id=entry.document_id, code="duplicate_document_id", detail=detail)
        elif isinstance(entry, Upload):
            taken.add(entry.document_id)
        entries.append(entry)
    return entries


def _entry(part: Part, document: Enclosed, where: str, most_bytes: int) -> Upload | JobError:
    described = dict(document.description)
    flaw = next(flaws_in(described), None)
    if flaw is not None:
        return _refused(described, f"{where}{flaw['pointer']}", flaw["detail"])
    try:
        sent = CarriedDocument.model_validate(described)
    except ValidationError as error:
        first = places(error)[0]
        return _refused(described, f"{where}{first['pointer']}", first["detail"])
    alone = Part(origin=part.origin, documents=[replace(document, description={"document_id": sent.document_id})])
    body = write_part(alone)
    if len(body) > most_bytes:
        detail = f"The document has {len(body)} bytes with its vectors; at most {most_bytes} are taken."
        return JobError(document_id=sent.document_id, code="document_too_large", detail=detail, pointer=where)
    source = sent.source
    described_fields = {field.name: getattr(sent, field.name) for field in dataclasses.fields(DocumentFields)}
    return Upload(
        document_id=DocumentId(sent.document_id),
        fields=DocumentFields(
            **{
                **described_fields,
                "tags": tuple(sent.tags),
                "readers": None if sent.readers is None else tuple(sent.readers),
            }
        ),
        body=body,
        media_type=packed_type(source.media_type),
        source_uri=source.uri,
        chunking=_chunking(sent.chunking),
        source=SourceRef(
            kind=SourceKind(source.kind),
            source_id=source.source_id,
            uri=source.whole.uri if source.whole else None,
            media_type=source.whole.media_type if source.whole else None,
        ),
    )


def _refused(described: Mapping[str, Any], where: str, detail: str) -> JobError:
    document_id = nameable(described.get("document_id"))
    return JobError(document_id=document_id, code="invalid_document", detail=f"{where} {detail}.", pointer=where[:255])


def _chunking(sent: Mapping[str, Any]) -> Chunking:
    """Return the chunking of the document. It is not applied again, only stored."""
    options: dict[str, Any] = {}
    for field in dataclasses.fields(Chunking):
        value = sent.get(field.name)
        if isinstance(value, _SIMPLE) and (field.default is None or type(value) is type(field.default)):
            options[field.name] = value
    return Chunking(**options)


def checked(body: bytes, digest: str | None) -> bytes:
    """Return the SHA-256 of a body that matches its Content-Digest. Raises Problem(422) for a mismatch."""
    match = _DIGEST.search(digest or "")
    if match is None:
        detail = "is required, in the form sha-256=:<base64>:"
        raise invalid([{"pointer": "/content-digest", "in": "header", "detail": detail}])
    actual = hashlib.sha256(body).digest()
    try:
        declared = base64.b64decode(match[1], validate=True)
    except binascii.Error:
        declared = b""
    if declared != actual:
        detail = f"The part is damaged: its SHA-256 is {actual.hex()}, and Content-Digest says {declared.hex()}."
        raise Problem(422, "digest_mismatch", detail)
    return actual


def content_digest(body: bytes) -> str:
    """Return the Content-Digest header (RFC 9530) of a body."""
    return f"sha-256=:{base64.b64encode(hashlib.sha256(body).digest()).decode()}:"


def parse_import_id(value: str) -> str:
    """Return an import's id unchanged. Raises Problem(422) for an invalid one."""
    if not _IMPORT_ID.fullmatch(value) or value in (".", ".."):
        detail = "must have 1 to 64 letters, digits, '.', '_' and '-', and be neither '.' nor '..'"
        raise invalid([{"pointer": "/import_id", "in": "path", "detail": detail}])
    return value


def require_addressable(namespace: str) -> None:
    """Raise Problem(422) for a namespace that may not come to be."""
    try:
        fields.addressable(namespace)
    except ValueError as error:
        raise invalid([{"pointer": "/namespace", "in": "path", "detail": str(error)}]) from None


router = APIRouter(tags=["namespaces"])

Name = Annotated[fields.NamespaceParameter, Path(description="The namespace's name.")]
ImportId = Annotated[
    str, AfterValidator(parse_import_id), Path(description="Chosen by the sender: the archive's `archive_id`.")
]
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
        None,
        "A part of the archive.",
        404,
        headers=_HEADERS,
        content={PART: _BINARY},
    ),
)
async def export(caller: FullReader, namespace: Name, cursor: Cursor = None, limit: MostDocuments = 500) -> Response:
    """Return the searchable documents, with chunks and vectors, by document id. A part ends at `limit` documents or
    about 4 MB. A document replaced during the export appears in its old or its new form."""
    after = cursors.decode(cursor, "export", str)

    def read() -> ExportedPart:
        start = after[0] if after else ""
        return export_part(caller.tenant_id, namespace, caller.use, after=start, most_documents=limit)

    await caller.gateway.namespaces.require(caller.tenant_id, [namespace])
    part = await caller.gateway.run_heavy(read)
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
        PartAnswer,
        "The documents of the part are durable, and on their way as a job. Single documents that could not be taken "
        "are among its errors.",
        409,
        headers={"Location": "The job."},
        also={200: "The same part had arrived before; nothing was done."},
        status=202,
    ),
    openapi_extra=_PART_BODY,
)
async def import_part(
    caller: Writer, namespace: Name, import_id: ImportId, part: Number, on_conflict: IfThere = "replace"
) -> Response:
    """Import a part. Needs `Content-Digest: sha-256=:<base64>:`. Parts may come in any order, and more than once.
    Vectors are kept if this installation's model made them; else the chunks are embedded again."""
    require_addressable(namespace)
    body = await _read(caller)
    digest = caller.request.headers.get("content-digest")

    embedder = caller.use.embedder

    def receive() -> tuple[PartStatus, ImportedPart]:
        sha256 = checked(body, digest)
        content = read_part(body)
        if not content.documents:
            raise invalid([{"pointer": "/documents", "detail": "is empty"}])
        require_few_enough(len(content.documents))
        batch = Batch(
            tenant_id=caller.tenant_id,
            namespace=namespace,
            request_id=caller.request_id,
            entries=entries_of(content, most_bytes=caller.gateway.settings.max_document_bytes),
            on_conflict=on_conflict,
        )
        new = NewPart(
            import_id=import_id,
            number=part,
            sha256=sha256,
            documents=len(content.documents),
            chunks=content.chunk_count,
            vectors=content.vector_count,
            vectors_kept=(embedder.model, embedder.dimension) == (content.origin.model, content.origin.dimension),
        )
        return receive_part(batch, new, caller.use, notify=dispatch.notify)

    outcome, received = await caller.gateway.run_heavy(receive)
    if outcome == "differs":
        detail = f"Part {part} of import {import_id} has arrived before, with the SHA-256 {received.sha256}."
        raise Problem(409, "import_part_differs", detail)
    status = 202 if outcome == "accepted" else 200
    location = {"Location": f"/v1/jobs/{received.job_id}"}
    answer = {"import_id": import_id, "namespace": namespace, "status": outcome, **asdict(received)}
    return json_response(answer, status=status, headers=location)


@router.get(
    "/v1/namespaces/{namespace}/imports/{import_id}",
    **route("List the parts of an import", Import, "The parts that have arrived, with their jobs.", 404),
)
async def get_import(caller: JobReader, namespace: Name, import_id: ImportId) -> Response:
    """List the received parts. All others have to be sent, or sent again."""
    parts = await caller.gateway.run(parts_of, caller.tenant_id, namespace, import_id, caller.use)
    received = existing(parts or None, _not_found(import_id))
    return json_response({"import_id": import_id, "namespace": namespace, "parts": received})


@router.delete(
    "/v1/namespaces/{namespace}/imports/{import_id}",
    **route("Forget an import", None, "Its parts will be accepted again.", 404),
)
async def delete(caller: Writer, namespace: Name, import_id: ImportId) -> Response:
    """Delete the record of an import. The documents and jobs stay."""
    forgotten = await caller.gateway.run(forget, caller.tenant_id, namespace, import_id, caller.use)
    return deleted(forgotten > 0, _not_found(import_id))


async def _read(caller: Caller) -> bytes:
    request = caller.request
    require_identity(request.headers)
    require_media_type(request, PART)
    receive = limited(request.receive, request.headers, caller.gateway.settings.max_body_bytes)
    return await Request(request.scope, receive).body()


def _not_found(import_id: str) -> Problem:
    return Problem(404, "import_not_found", f"No part of an import {import_id!r} has arrived in this namespace.")
