"""The body of POST /v1/documents, and its conversion to uploads."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from api_gateway.http import fields
from api_gateway.http.bodies import Decoded, flaws_in, refuse_flaws
from api_gateway.http.fields import TenantWire, Wire
from api_gateway.http.problems import LONGEST_POINTER, MOST_ERRORS, Problem, invalid, places
from api_gateway.resources.ingestion.content import BadSource, Content, SourceIn, content_of
from api_gateway.resources.route_parts import decode_own, validated
from chordwise.contract.job import JobError
from pipeline.chunking.strategies.registry import STRATEGIES, complete, flaws_in_options, options_of
from pipeline.chunking.strategies.strategy import Option
from pipeline.document_sources import SourceRef, document_id_of
from pipeline.ingestion.accept import Batch, OnConflict
from pipeline.records import Chunking, DocumentFields, DocumentId, Namespace, Priority, Upload
from pipeline.settings import Settings
from pipeline.tenants.accounts import Principal

MOST_DOCUMENTS = 10_000  # of one request
# For comparison with an uploader's options; the settings themselves are checked when the gateway starts.
_ASSUMED = {name: float(Settings.model_fields[f"chunk_{name}"].default) for name in ("max_tokens", "overlap")}


class ChunkingIn(Wire):
    """The chunking of the documents; omitted options are the installation's."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    strategy: str = "sentences"

    @property
    def options(self) -> dict[str, Any]:
        """Return the options given beside the strategy; null counts as absent."""
        return {name: value for name, value in (self.model_extra or {}).items() if value is not None}

    @model_validator(mode="after")
    def _fit_the_strategy(self) -> Self:
        if self.strategy not in STRATEGIES:
            raise _error([("strategy", f"is no chunking strategy; there are {', '.join(STRATEGIES)}")])
        flaws = list(islice(flaws_in_options(self.strategy, self.options, _ASSUMED), MOST_ERRORS))
        if flaws:
            raise _error(flaws)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return one alternative for each strategy, with its options."""
        described = handler.resolve_ref_schema(handler(schema))
        described.pop("properties", None)
        described.pop("additionalProperties", None)
        described["oneOf"] = [
            {
                "type": "object",
                "title": strategy.name,
                "description": strategy.meaning,
                "additionalProperties": False,
                **({} if strategy.name == "sentences" else {"required": ["strategy"]}),
                "properties": {
                    "strategy": {"const": strategy.name},
                    **{name: _described(option) for name, option in strategy.options.items()},
                },
            }
            for strategy in STRATEGIES.values()
        ]
        return described


def chunking_json(chunking: Chunking) -> dict[str, Any]:
    """Return the chunking as it is sent: the strategy with all its options."""
    return {"strategy": chunking.strategy, **options_of(chunking)}


def _described(option: Option) -> dict[str, Any]:
    described: dict[str, Any] = {
        "type": "integer" if option.is_whole else "number",
        "minimum": option.minimum,
        "maximum": option.maximum,
        "description": option.meaning,
    }
    return described if option.default is None else {**described, "default": option.default}


def _error(flaws: list[tuple[str, str]]) -> ValidationError:
    """Return each flaw at its own option."""
    return ValidationError.from_exception_data(
        "ChunkingIn",
        [
            InitErrorDetails(type=PydanticCustomError("chunking", "{flaw}", {"flaw": flaw}), loc=(name,), input=None)
            for name, flaw in flaws
        ],
    )


def batch_of(body: bytes, principal: Principal, request_id: str, use: Settings) -> Batch:
    """Return the batch in the body of POST /v1/documents. Heavy: 10,000 documents take some tenths of a second.

    Raises Problem for an invalid body, and if no document is valid.
    """
    decoded = decode_own(body, principal)
    envelope = _envelope(decoded)
    require_few_enough(len(envelope.documents))
    intake = Intake(use, to_chunking(envelope.chunking, use), suspicious=decoded.suspicious)
    entries = [intake.document(value, f"/documents/{index}") for index, value in enumerate(envelope.documents)]
    require_one(entries, intake)
    return Batch(
        tenant_id=principal.tenant_id,
        namespace=Namespace(envelope.namespace),
        request_id=request_id,
        entries=entries,
        on_conflict=envelope.on_conflict,
        priority=Priority(envelope.priority) if envelope.priority else None,
    )


def _envelope(decoded: Decoded) -> Envelope:
    around = {name: value for name, value in decoded.value.items() if name != "documents"}
    refuse_flaws(Decoded(around, decoded.suspicious))
    return validated(Envelope, decoded.value)


def require_few_enough(documents: int) -> None:
    """Raise Problem 422 for more documents than one request may have."""
    if documents > MOST_DOCUMENTS:
        errors = [{"pointer": "/documents", "detail": f"has {documents} entries, the limit is {MOST_DOCUMENTS}"}]
        detail = f"A request may have at most {MOST_DOCUMENTS} documents, this one has {documents}."
        raise Problem(422, "too_many_documents", detail, errors=errors)


def require_one(entries: Sequence[Upload | JobError], intake: Intake) -> None:
    """Raise Problem if every document was refused: 413 or 415 if all share that reason, else 422."""
    refusals = [entry for entry in entries if isinstance(entry, JobError)]
    if len(refusals) < len(entries):
        return
    if not refusals:
        raise invalid([{"pointer": "/documents", "detail": "is empty"}])
    codes = {refusal.code for refusal in refusals}
    code = codes.pop() if len(codes) == 1 else "no_valid_document"
    status = {"document_too_large": 413, "unsupported_media_type": 415}.get(code, 422)
    detail = (
        refusals[0].detail or code if len(refusals) == 1 else f"None of the {len(refusals)} documents can be taken."
    )
    raise Problem(status, code, detail, errors=intake.places)


class DocumentIn(fields.request_of(DocumentFields, Wire)):  # type: ignore[misc]  # computed from the contract
    """One document. Without a `document_id` its file or its address gives the id; a plain text without either gets a
    new id each time, so repeating it creates another document. Its own `chunking` replaces the request's."""

    document_id: fields.NewDocumentId | None = None
    text: str | None = None
    source: SourceIn | None = None
    chunking: ChunkingIn | None = None


class Envelope(TenantWire):
    """A submission without its documents, which are validated one by one."""

    namespace: fields.NewNamespaceName
    on_conflict: OnConflict = "replace"
    chunking: ChunkingIn | None = None
    priority: Literal["interactive", "bulk"] | None = None
    documents: Annotated[list[Any], Field(min_length=1)]


class DocumentsRequest(Envelope):
    """A batch of documents for one namespace. An invalid document does not affect the others."""

    documents: Annotated[list[DocumentIn], Field(min_length=1)]


def to_chunking(sent: ChunkingIn | None, use: Settings) -> Chunking:
    """Return the requested chunking, completed from the settings."""
    usual = {"max_tokens": use.chunk_max_tokens, "overlap": use.chunk_overlap}
    return complete(sent.strategy, sent.options, usual) if sent else complete("sentences", {}, usual)


class Intake:
    """Convert the documents of one submission to uploads, or to refusals with their reasons.

    A refusal gives the first fault of its document; ``places`` collects all faults, up to the limit of one answer.
    """

    def __init__(self, use: Settings, chunking: Chunking, *, suspicious: bool) -> None:
        self._use = use
        self.chunking = chunking
        self._suspicious = suspicious
        self.places: list[dict[str, str]] = []

    def document(self, value: Any, where: str, *, within: SourceRef | None = None) -> Upload | JobError:
        """Return the document at the JSON Pointer ``where``. ``within``: the source that contains it, such as a file of
        JSON lines, unless it has an address of its own."""
        if self._suspicious and isinstance(value, dict | list):
            flaw = next(flaws_in(value), None)
            if flaw is not None:
                return self._invalid(value, where, [flaw])
        try:
            sent = DocumentIn.model_validate(value)
        except ValidationError as error:
            errors = places(error)
            if isinstance(value, dict) and not {"text", "source"} & set(value):
                errors.insert(0, {"pointer": "/text", "detail": "is required"})
            return self._invalid(value, where, errors)
        try:
            content = content_of(sent.text, sent.source)
        except BadSource as error:
            if error.code == "invalid_document":
                return self._invalid(value, where, [{"pointer": error.where, "detail": error.detail}])
            return self.refuse(sent.document_id, error.code, error.detail, where + error.where)
        document_id = sent.document_id or (document_id_of(content.name) if content.name else str(uuid.uuid4()))
        upload = Upload(
            document_id=DocumentId(document_id),
            fields=to_fields(sent),
            body=content.body,
            media_type=content.media_type,
            source_uri=content.uri,
            chunking=self.chunking if sent.chunking is None else to_chunking(sent.chunking, self._use),
            to_fetch=content.to_fetch,
            source=_source_of(content, sent.source, within),
        )
        return self.accept(upload, where + content.where, blank=content.blank)

    def accept(self, upload: Upload, where: str, *, blank: bool) -> Upload | JobError:
        """Return an upload with its text at ``where``, unless it is empty or too large."""
        if blank:
            return self.refuse(upload.document_id, "empty_document", "There is no text.", where)
        size, most = len(upload.body), self._use.max_document_bytes
        if size > most:
            detail = f"The document has {size} bytes; at most {most} are taken (CHORDWISE_MAX_DOCUMENT_BYTES)."
            return self.refuse(upload.document_id, "document_too_large", detail, where)
        return upload

    def refuse(self, document_id: str | None, code: str, detail: str, where: str) -> JobError:
        """Return a refusal for one reason."""
        self._record([{"pointer": where, "detail": detail}])
        return JobError(document_id=document_id, code=code, detail=detail, pointer=where)

    def _invalid(self, value: Any, where: str, errors: list[dict[str, str]]) -> JobError:
        """Return a refusal that names the document by its own id, where it has one that can be stored."""
        errors = [{**error, "pointer": (where + error["pointer"])[:LONGEST_POINTER]} for error in errors]
        self._record(errors)
        first = errors[0]
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        return JobError(
            document_id=nameable(value.get("document_id")) if isinstance(value, dict) else None,
            code="invalid_document",
            detail=f"{first['pointer']} {first['detail']}{more}.",
            pointer=first["pointer"],
        )

    def _record(self, errors: list[dict[str, str]]) -> None:
        self.places += errors[: MOST_ERRORS - len(self.places)]


def _source_of(content: Content, sent: SourceIn | None, within: SourceRef | None) -> SourceRef:
    """Return the source of a document; the containing one if it has no address of its own."""
    source_id = None if sent is None else sent.source_id
    if within is not None and content.uri is None:
        return replace(within, source_id=source_id)
    return SourceRef(kind=content.kind, source_id=source_id)


def to_fields(sent: DocumentIn) -> DocumentFields:
    """Return the document's own fields."""
    source = sent.source
    tags = [*(sent.tags or ()), *((source.tags if source else None) or ())]
    given = {field.name: getattr(sent, field.name) for field in dataclasses.fields(DocumentFields)}
    given["tags"] = tuple(dict.fromkeys(tags)) if source and source.tags else tuple(tags)
    given["readers"] = None if sent.readers is None else tuple(sent.readers)
    given["metadata"] = {**((source.metadata if source else None) or {}), **(sent.metadata or {})}
    return DocumentFields(**given)


def nameable(claimed: object) -> str | None:
    """Return ``claimed`` if it is a valid document id, else None."""
    if not isinstance(claimed, str):
        return None
    try:
        return fields.tidy_document_id(claimed)
    except ValueError:
        return None
