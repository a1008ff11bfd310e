"""Preview of a document's chunks before it is submitted."""

from dataclasses import asdict
from typing import Any, Self

from fastapi import APIRouter, Response
from pydantic import model_validator
from starlette.datastructures import FormData

from api_gateway.gateway import Gateway
from api_gateway.http.auth import require_same_tenant
from api_gateway.http.bodies import Decoded, flaws_in, json_field, read_json_body, refuse_flaws
from api_gateway.http.caller import Caller, Writer
from api_gateway.http.fields import DocumentIdText, NamespaceName, TenantWire, Title
from api_gateway.http.problems import invalid
from api_gateway.http.route_descriptions import json_body, route
from api_gateway.live.computations import compute
from api_gateway.resources.ingestion.content import BadSource, Charset, ParserHint, content_of, media_type_as
from api_gateway.resources.ingestion.documents import find
from api_gateway.resources.ingestion.files import sent_form, split_form
from api_gateway.resources.ingestion.uploads import ChunkingIn, DocumentIn, to_chunking
from api_gateway.resources.route_parts import decode_own, file_form, media_type_of_body, validated
from chordwise.contract.chunk import PreviewAnswer
from pipeline.errors import DocumentTooLarge, EmptyDocument
from pipeline.jobs.computation import ComputationKind
from pipeline.records import Chunking, DocumentId, Namespace


class PreviewRequest(TenantWire):
    """One document as in `POST /v1/documents`, or the `namespace` and `document_id` of a stored one, and its chunking."""

    document: DocumentIn | None = None
    namespace: NamespaceName | None = None
    document_id: DocumentIdText | None = None
    chunking: ChunkingIn | None = None

    @model_validator(mode="after")
    def _name_one_document(self) -> Self:
        if (self.document is None) == (self.document_id is None) or (self.document_id is None) != (
            self.namespace is None
        ):
            raise ValueError("needs either document, or namespace and document_id")
        return self


class PreviewForm(TenantWire):
    """The fields beside the one `file` of a preview."""

    title: Title | None = None
    parser_hint: ParserHint | None = None
    charset: Charset | None = None
    chunking: ChunkingIn | None = None


router = APIRouter(tags=["chunks"])


MOST_PREVIEW_BYTES = 1024 * 1024  # a caller waits for it; CHORDWISE_MAX_DOCUMENT_BYTES bounds it too
_AROUND = 256 * 1024  # bytes that JSON or a form may add to the document
_EXAMPLE = {
    "document": {"title": "Manual", "text": "# Resetting\n\nHold the button for five seconds."},
    "chunking": {"strategy": "parent_child", "max_tokens": 128, "parent_tokens": 512},
}
_BODY = json_body(PreviewRequest, _EXAMPLE)
_BODY["requestBody"]["content"] |= file_form(PreviewForm)


@router.post(
    "/v1/chunks/preview",
    **route("Preview chunks", PreviewAnswer, "The chunks the document would have.", 404, 409),
    openapi_extra=_BODY,
)
async def preview_chunks(caller: Writer) -> Response:
    """Preview one document of up to 1 MiB as JSON or as a `file`, or a stored document of
    any size. Nothing is stored and no model is called."""
    if media_type_of_body(caller.request) == "multipart/form-data":
        most = _most_bytes(caller.gateway) + _AROUND
        async with sent_form(caller, most) as form:
            document, parameters = await caller.gateway.run_heavy(_of_form, caller, form)
    else:
        # JSON escapes take up to six times as many bytes.
        most = min(6 * _most_bytes(caller.gateway), caller.gateway.settings.max_body_bytes) + _AROUND
        sent = await read_json_body(caller.request, most)
        document, parameters = await caller.gateway.run_heavy(_of_json, caller, sent)
    kind = ComputationKind.PREVIEW if document else ComputationKind.STORED
    done = await compute(caller, kind, parameters, body=document)
    return Response(done.body, media_type="application/json")


# The bytes of a document to preview, and the parameters of `pipeline.ingestion.preview`.
_Document = tuple[bytes, dict[str, Any]]


def _of_json(caller: Caller, body: bytes) -> _Document:
    sent = validated(PreviewRequest, refuse_flaws(decode_own(body, caller.principal)))
    document = sent.document
    if document is None:
        return _stored(caller, sent)
    try:
        content = content_of(document.text, document.source)
    except BadSource as error:
        raise invalid([{"pointer": f"/document{error.where}", "detail": error.detail}]) from None
    if content.to_fetch:
        raise invalid([{"pointer": "/document/text", "detail": "is required: a preview fetches nothing"}])
    return _document(
        content.body,
        caller.gateway,
        media_type=content.media_type,
        filename=content.uri,
        title=document.title,
        chunking=to_chunking(document.chunking or sent.chunking, caller.gateway.settings),
    )


def _stored(caller: Caller, sent: PreviewRequest) -> _Document:
    """Return no bytes, but the name of a stored document, which the worker reads itself."""
    namespace, document_id = Namespace(sent.namespace or ""), DocumentId(sent.document_id or "")
    find(caller, namespace, document_id)
    chunking = asdict(to_chunking(sent.chunking, caller.gateway.settings))
    return b"", {"wanted": "preview", "namespace": namespace, "document_id": document_id, "chunking": chunking}


def _of_form(caller: Caller, form: FormData) -> _Document:
    values, files = split_form(form)
    if "chunking" in values:
        values["chunking"] = json_field("chunking", values["chunking"])
    require_same_tenant(caller.principal, values.get("tenant_id"))
    sent = validated(PreviewForm, refuse_flaws(Decoded(values, suspicious=any(flaws_in(values)))))
    if len(files) != 1:
        raise invalid([{"pointer": "/file", "detail": "is required once: a preview is of one file"}])
    file = files[0][1]
    name, body = file.filename or "", file.file.read()
    hint, charset = sent.parser_hint, sent.charset
    return _document(
        body,
        caller.gateway,
        media_type=media_type_as(name, file.content_type, parser_hint=hint, charset=charset, body=body),
        filename=name or None,
        title=sent.title,
        chunking=to_chunking(sent.chunking, caller.gateway.settings),
    )


def _document(
    body: bytes, gateway: Gateway, *, media_type: str, filename: str | None, title: str | None, chunking: Chunking
) -> _Document:
    if not body or body.isspace():
        raise EmptyDocument("There is no text.")
    if len(body) > (most := _most_bytes(gateway)):
        raise DocumentTooLarge(f"The document has {len(body)} bytes; a preview takes at most {most}.")
    return body, {"media_type": media_type, "filename": filename, "title": title, "chunking": asdict(chunking)}


def _most_bytes(gateway: Gateway) -> int:
    return min(MOST_PREVIEW_BYTES, gateway.settings.max_document_bytes)
