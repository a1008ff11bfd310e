"""Files: hand in documents as they lie on a disk."""

from __future__ import annotations

import codecs
from collections.abc import AsyncGenerator, Mapping
from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Request
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.responses import Response

from api_gateway.gateway import Gateway, gateway_of
from api_gateway.http import responses as wire
from api_gateway.http.auth import Writer, require_same_tenant
from api_gateway.http.bodies import MAX_BODY_BYTES, limited, require_identity
from api_gateway.http.descriptions import answers
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import Problem, invalid, pointer
from api_gateway.resources.ingestion.file_shapes import FilesForm, SentFile, entries_of, to_form
from api_gateway.resources.ingestion.submit import require_few_enough, require_one
from api_gateway.resources.ingestion.uploads import Intake, to_chunking
from api_gateway.resources.shapes import JobAccepted
from pipeline.ingestion.accept import AcceptedJob, Batch, accept
from pipeline.records import Namespace, Priority
from pipeline.tenants.tenant_store import Principal
from workers import dispatch

# Codecs of Python that no text comes in: one always fails, the others take time in the square of the length.
_NO_CHARSETS: Final = frozenset({"undefined", "punycode", "idna"})


class WholeFormParser(MultiPartParser):
    """A parser of bodies that came whole. Where one is cut off, the part that was about to come is not among those
    that came before it, and nothing would tell."""

    _ended = False

    def on_end(self) -> None:
        """The closing boundary has come."""
        self._ended = True

    async def parse(self) -> FormData:
        """The parts. Raises MultiPartException for what is no form, or is not one to its end."""
        _require_charset(self.headers)
        self.stream = self._to_its_end(self.stream)
        return await super().parse()

    async def _to_its_end(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """The stream, failing while the files of the parts are still closed should it fail."""
        async for chunk in stream:
            yield chunk
        if not self._ended:
            raise MultiPartException("It ends before its closing boundary")


def _require_charset(headers: Mapping[str, str]) -> None:
    """Raises MultiPartException for a character set that is none. An unknown one is read as latin-1."""
    _, parameters = parse_options_header(headers.get("content-type"))
    try:
        known = codecs.lookup(parameters.get(b"charset", b"utf-8").decode("latin-1")).name
    except LookupError:
        return
    if known in _NO_CHARSETS:
        raise MultiPartException(f"No text comes in the character set {known}")


router = APIRouter(tags=["documents"])

_MOST_FIELDS = 1000
_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "allOf": [
                        {"$ref": "#/components/schemas/FilesForm"},
                        {
                            "type": "object",
                            "required": ["file"],
                            "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                        },
                    ]
                }
            }
        },
    }
}


@router.post(
    "/v1/files",
    status_code=202,
    responses=answers(
        202,
        JobAccepted,
        "The files are durable. Files that could not be taken are among the errors of the job.",
        *(400, 401, 403, 413, 415, 422, 429, 503),
        headers={"Location": "The job."},
    ),
    openapi_extra=_FORM,
    summary="Hand in files",
)
async def submit(request: Request, principal: Writer) -> Response:
    """Any number of `file` parts: txt, md, html, pdf, docx, xlsx, csv, json, jsonl. A file's name becomes its document's id."""
    gateway = gateway_of(request)
    sent = await read_form(request, gateway, gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES)
    try:
        ticket = await gateway.run_heavy(_accept, sent, principal, request, gateway)
    finally:
        await sent.close()
    return wire.accepted_response(ticket)


async def read_form(request: Request, gateway: Gateway, limit: int, *, setting: str | None = None) -> FormData:
    """A multipart body of up to ``limit`` bytes, which follow from ``setting``. Raises Problem 400, 413 or 415; close the
    form when done with its files."""
    require_identity(request.headers)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "multipart/form-data":
        detail = f"This route does not take a body of type {media_type or 'unknown'}; it takes multipart/form-data."
        raise Problem(415, "unsupported_media_type", detail)
    receive = limited(request.receive, request.headers, limit, setting=setting)
    # One file more than allowed is let through, to be counted and refused by the same rule as documents.
    most_files = gateway.settings.max_documents_per_batch + 1
    stream = Request(request.scope, receive).stream()
    parser = WholeFormParser(request.headers, stream, max_files=most_files, max_fields=_MOST_FIELDS)
    try:
        return await parser.parse()
    except (MultiPartException, KeyError) as error:
        message = getattr(error, "message", "the boundary is missing").rstrip(".")
        raise Problem(400, "invalid_multipart", f"The multipart body cannot be read: {message}.") from None


def _accept(sent: FormData, principal: Principal, request: Request, gateway: Gateway) -> AcceptedJob:
    fields: list[tuple[str, str]] = []
    uploads: list[UploadFile] = []
    for name, value in sent.multi_items():
        if isinstance(value, str):
            fields.append((name, value))
        elif name == "file":
            uploads.append(value)
        else:
            raise invalid([{"pointer": pointer([name]), "detail": "is a file; files belong into parts called file"}])
    form = to_form(fields)
    require_same_tenant(principal, form.tenant_id)
    if not uploads:
        raise invalid([{"pointer": "/file", "detail": "is required: there is no part called file with a file name"}])
    require_few_enough(len(uploads), gateway.settings)
    return accept(_batch_of(form, uploads, principal, request, gateway), gateway.resources, ring=dispatch.ring)


def _batch_of(
    form: FilesForm, uploads: list[UploadFile], principal: Principal, request: Request, gateway: Gateway
) -> Batch:
    settings = gateway.settings
    files = [
        SentFile(name=upload.filename or "", declared_type=upload.content_type, body=upload.file.read())
        for upload in uploads
    ]
    intake = Intake(settings, to_chunking(form.chunking, settings), suspicious=True)
    entries = list(islice(entries_of(files, form, intake), settings.max_documents_per_batch + 1))
    require_few_enough(len(entries), settings)
    require_one(entries, intake)
    return Batch(
        tenant_id=principal.tenant_id,
        namespace=Namespace(form.namespace),
        request_id=request.state.request_id,
        job_id=work_id(request),
        entries=entries,
        on_conflict=form.on_conflict,
        priority=Priority(form.priority) if form.priority else None,
    )
