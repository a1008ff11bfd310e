"""Files: submit documents as they are stored on a disk."""

import codecs
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from api_gateway.http.auth import require_same_tenant
from api_gateway.http.bodies import MAX_BODY_BYTES, flaws_in, json_field, limited, require_identity
from api_gateway.http.caller import Caller, Writer
from api_gateway.http.fields import Metadata, NewNamespaceName, ReaderNames, Tags, TenantWire, TypeName
from api_gateway.http.file_names import file_name_of, has_extended_name_only
from api_gateway.http.idempotency import work_id
from api_gateway.http.problems import Problem, invalid, pointer
from api_gateway.http.route_descriptions import route
from api_gateway.resources.ingestion.content import Charset, ParserHint, media_type_as, storable
from api_gateway.resources.ingestion.uploads import (
    MOST_DOCUMENTS,
    ChunkingIn,
    DocumentIn,
    Intake,
    require_few_enough,
    require_one,
    to_chunking,
)
from api_gateway.resources.route_parts import file_form, require_media_type, validated
from api_gateway.resources.shapes import accepted_response
from chordwise.contract.document import LENGTHS
from chordwise.contract.job import JobAccepted, JobError
from pipeline.document_sources import SourceKind, SourceRef, document_id_of, with_hash
from pipeline.errors import MalformedDocument, Rejected
from pipeline.ingestion.accept import AcceptedJob, Batch, OnConflict, accept
from pipeline.parsing.formats import JSONL, charset_of
from pipeline.parsing.json_documents import split_jsonl
from pipeline.records import DocumentFields, DocumentId, Namespace, Priority, Upload
from workers import dispatch

_ID_NAMES = ("document_id", "doc_id", "id", "_id")
_FIELDS = frozenset(DocumentIn.model_fields)


class FilesForm(TenantWire):
    """The options for every file of the request. `tags` and `metadata` are added to those in a JSONL line; its own `type` and
    `readers` go first."""

    namespace: NewNamespaceName
    on_conflict: OnConflict = "replace"
    type: TypeName | None = None
    tags: Tags | None = None
    metadata: Metadata | None = None
    readers: ReaderNames | None = None
    parser_hint: ParserHint | None = None
    charset: Charset | None = None
    chunking: ChunkingIn | None = None
    priority: Literal["interactive", "bulk"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """One ``file`` part."""

    name: str
    declared_type: str | None
    body: bytes


def to_form(fields: Sequence[tuple[str, str]]) -> FilesForm:
    """Return the form fields, with structured ones parsed from JSON. Raises Problem(422)."""
    values: dict[str, Any] = {}
    for name, text in fields:
        if name in ("tags", "readers"):
            values.setdefault(name, []).extend(_listed(name, text))
        elif name in values:
            raise invalid([{"pointer": pointer([name]), "detail": "is given more than once"}])
        elif name in ("metadata", "chunking"):
            values[name] = json_field(name, text)
        else:
            values[name] = text
    flaw = next(flaws_in(values), None)
    if flaw is not None:
        raise invalid([flaw])
    return validated(FilesForm, values)


def _listed(name: str, text: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        return [entry.strip() for entry in text.split(",") if entry.strip()]
    entries: list[Any] = json_field(name, text)
    return entries


def entries_of(files: Sequence[SentFile], form: FilesForm, intake: Intake) -> Iterator[Upload | JobError]:
    """Yield every document of the files, in order. A file of JSON lines has one document per line."""
    ids = _ids_of(files)
    for index, file in enumerate(files):
        where = f"/file/{index}"
        try:
            media_type = media_type_as(
                file.name, file.declared_type, parser_hint=form.parser_hint, charset=form.charset, body=file.body
            )
            if media_type.partition(";")[0] == JSONL:
                yield from _lines(file, charset_of(media_type.partition(";")[2]), form, intake, where)
                continue
        except Rejected as error:
            yield _refused(file, error, where, intake)
            continue
        upload = Upload(
            document_id=DocumentId(ids[index]),
            fields=DocumentFields(
                type=form.type,
                tags=tuple(form.tags or ()),
                metadata=form.metadata or {},
                readers=None if form.readers is None else tuple(form.readers),
            ),
            body=file.body,
            media_type=storable(media_type),
            source_uri=file.name[:2048] or None,
            chunking=intake.chunking,
            source=SourceRef(kind=SourceKind.FILE),
        )
        yield intake.accept(upload, where, blank=not file.body or file.body.isspace())


def _lines(
    file: SentFile, charset: str | None, form: FilesForm, intake: Intake, where: str
) -> Iterator[Upload | JobError]:
    within = SourceRef(kind=SourceKind.FILE, uri=file.name[:2048] or None, media_type=JSONL)
    for line in split_jsonl(file.body, charset=charset):
        here = f"{where}/{line.number}"
        if isinstance(line.value, MalformedDocument):
            yield _refused(file, line.value, here, intake)
        else:
            yield intake.document(document_of(line.value, line.number, file.name, form), here, within=within)


def document_of(line: Mapping[str, Any], number: int, file_name: str, form: FilesForm) -> dict[str, Any]:
    """Return a line as a document: its id under any of the usual names, unknown keys in its metadata, the form's labels
    added.

    A value of the wrong type stays as it is, so that validation refuses it with its position.
    """
    document = {name: value for name, value in line.items() if name in _FIELDS}
    claimed = next((line[name] for name in _ID_NAMES if line.get(name) not in (None, "")), None)
    if isinstance(claimed, int) and not isinstance(claimed, bool):
        claimed = str(claimed)
    document["document_id"] = document_id_of(f"{file_name}#{number}") if claimed is None else claimed
    others = {name: value for name, value in line.items() if name not in _FIELDS and name not in _ID_NAMES}
    metadata = document.get("metadata") or {}
    if isinstance(metadata, dict) and (form.metadata or others):
        document["metadata"] = {**(form.metadata or {}), **others, **metadata}
    tags = document.get("tags") or []
    if isinstance(tags, list) and form.tags and len(tags) <= LENGTHS["tags"].most:  # validation rejects a longer list
        document["tags"] = [*tags, *(tag for tag in form.tags if tag not in tags)]
    if form.type is not None and document.get("type") is None:
        document["type"] = form.type
    if form.readers is not None and document.get("readers") is None:
        document["readers"] = form.readers
    return document


def _ids_of(files: Sequence[SentFile]) -> list[str]:
    """Return the id of each file, in whatever order they come: of several contents under one name, the one with the smallest
    hash gets the name, and the others get their hash."""
    ids = [document_id_of(file.name) for file in files]
    counts = Counter(ids)
    shared = {index for index, document_id in enumerate(ids) if counts[document_id] > 1}
    hashes = {index: hashlib.sha256(files[index].body).digest() for index in shared}
    smallest: dict[str, bytes] = {}
    for index in shared:
        smallest[ids[index]] = min(smallest.get(ids[index], hashes[index]), hashes[index])
    return [
        with_hash(document_id, hashes[index], 8)
        if index in shared and hashes[index] != smallest[document_id]
        else document_id
        for index, document_id in enumerate(ids)
    ]


def _refused(file: SentFile, error: Rejected, where: str, intake: Intake) -> JobError:
    return intake.refuse(document_id_of(file.name), error.code, str(error), where)


# Python codecs that no text uses: one always fails, the others take time in the square of the length.
_NO_CHARSETS: Final = frozenset({"undefined", "punycode", "idna"})


class WholeFormParser(MultiPartParser):
    """A parser that rejects truncated bodies and reads file names in every form that clients send. The base class would
    silently drop a part that was cut off."""

    _ended = False

    def on_headers_finished(self) -> None:
        """Begin a part, with the name of its file."""
        part = self._current_part
        disposition = part.content_disposition or b""
        is_extended = has_extended_name_only(disposition)
        if is_extended:  # the base class takes a part for a file only if it has a filename
            part.content_disposition = disposition + b'; filename="file"'
        super().on_headers_finished()
        if part.file is not None:
            part.file.filename = file_name_of(disposition, None if is_extended else part.file.filename)

    def on_end(self) -> None:
        """Note the closing boundary."""
        self._ended = True

    async def parse(self) -> FormData:
        """Return the parts. Raises MultiPartException for a body that is not a form, or is incomplete."""
        _require_charset(self.headers)
        self.stream = self._to_its_end(self.stream)
        return await super().parse()

    async def _to_its_end(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """Yield the stream, and fail at its end while the files of the parts are still closed on errors."""
        async for chunk in stream:
            yield chunk
        if not self._ended:
            raise MultiPartException("It ends before its closing boundary")


def _require_charset(headers: Mapping[str, str]) -> None:
    """Raise MultiPartException for an invalid character set. An unknown one is read as latin-1."""
    _, parameters = parse_options_header(headers.get("content-type"))
    try:
        charset = codecs.lookup(parameters.get(b"charset", b"utf-8").decode("latin-1")).name
    except LookupError:
        return
    if charset in _NO_CHARSETS:
        raise MultiPartException(f"No text comes in the character set {charset}")


router = APIRouter(tags=["documents"])

_MOST_FIELDS = 1000
_FORM: dict[str, Any] = {"requestBody": {"required": True, "content": file_form(FilesForm, many=True)}}


@router.post(
    "/v1/files",
    **route(
        "Hand in files",
        JobAccepted,
        "The files are durable. Files that could not be taken are among the errors of the job.",
        headers={"Location": "The job."},
        status=202,
    ),
    openapi_extra=_FORM,
)
async def submit(caller: Writer) -> Response:
    """Submit any number of `file` parts: txt, md, html, pdf, docx, odt, rtf, xlsx, xls, ods, csv, json, jsonl, epub, eml,
    ipynb, programs, logs and other texts. A file's name becomes its document's id; `parser_hint` names the format of files
    whose name does not."""
    async with sent_form(caller, caller.gateway.settings.max_body_bytes, setting=MAX_BODY_BYTES) as sent:
        accepted = await caller.gateway.run_heavy(_accept, caller, sent)
    return accepted_response(accepted)


@asynccontextmanager
async def sent_form(caller: Caller, limit: int, *, setting: str | None = None) -> AsyncIterator[FormData]:
    """Yield a multipart body of up to ``limit`` bytes, the value of ``setting``, whose files are open meanwhile. Raises
    Problem(400), Problem(413) or Problem(415)."""
    request = caller.request
    require_identity(request.headers)
    require_media_type(request, "multipart/form-data")
    receive = limited(request.receive, request.headers, limit, setting=setting)
    # Accept one file more than allowed here, so that the rule for documents counts and refuses it.
    most_files = MOST_DOCUMENTS + 1
    stream = Request(request.scope, receive).stream()
    parser = WholeFormParser(request.headers, stream, max_files=most_files, max_fields=_MOST_FIELDS)
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        message = getattr(error, "message", "the boundary is missing").rstrip(".")
        raise Problem(400, "invalid_multipart", f"The multipart body cannot be read: {message}.") from None
    try:
        yield form
    finally:
        await form.close()


def split_form(form: FormData) -> tuple[dict[str, Any], list[tuple[str, UploadFile]]]:
    """Return the texts of a form by name, and its files with their names. Raises Problem(422) for a text given twice."""
    texts: dict[str, Any] = {}
    files: list[tuple[str, UploadFile]] = []
    for name, value in form.multi_items():
        if not isinstance(value, str):
            files.append((name, value))
        elif texts.setdefault(name, value) is not value:
            raise invalid([{"pointer": pointer([name]), "detail": "is given more than once"}])
    return texts, files


def _accept(caller: Caller, sent: FormData) -> AcceptedJob:
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
    require_same_tenant(caller.principal, form.tenant_id)
    if not uploads:
        raise invalid([{"pointer": "/file", "detail": "is required: there is no part called file with a file name"}])
    require_few_enough(len(uploads))
    return accept(_batch_of(caller, form, uploads), caller.use, notify=dispatch.notify)


def _batch_of(caller: Caller, form: FilesForm, uploads: list[UploadFile]) -> Batch:
    settings = caller.gateway.settings
    files = [
        SentFile(name=upload.filename or "", declared_type=upload.content_type, body=upload.file.read())
        for upload in uploads
    ]
    intake = Intake(settings, to_chunking(form.chunking, settings), suspicious=True)
    entries = list(islice(entries_of(files, form, intake), MOST_DOCUMENTS + 1))
    require_few_enough(len(entries))
    require_one(entries, intake)
    return Batch(
        tenant_id=caller.tenant_id,
        namespace=Namespace(form.namespace),
        request_id=caller.request_id,
        job_id=work_id(caller.request),
        entries=entries,
        on_conflict=form.on_conflict,
        priority=Priority(form.priority) if form.priority else None,
    )
