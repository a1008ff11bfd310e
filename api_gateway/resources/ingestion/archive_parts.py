"""Parts of archives: their documents as uploads, the outcome of an import, and checksums."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api_gateway.http.bodies import flaws_in
from api_gateway.http.fields import (
    Author,
    DocumentIdText,
    Integer64,
    Metadata,
    Moment,
    Shape,
    SourceIdText,
    Tags,
    Title,
    TypeName,
)
from api_gateway.http.problems import Problem, invalid, places, pointer
from api_gateway.resources.ingestion.uploads import nameable
from pipeline.archives.archive import Enclosed, Part, PartView, packed_type, write_part
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.ingestion.accept import Refusal
from pipeline.ingestion.import_archive import PartOutcome
from pipeline.records import Chunking, DocumentFields, DocumentId, Upload

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
    source_id: SourceIdText | None = None
    whole: CarriedWhole | None = None


class CarriedDocument(Carried):
    """A line of ``documents.jsonl``."""

    document_id: DocumentIdText
    title: Title | None = None
    author: Author | None = None
    type: TypeName | None = None
    tags: Tags = []
    published_at: Moment | None = None
    story_time: Integer64 | None = None
    metadata: Metadata = {}
    source: CarriedSource = CarriedSource()
    chunking: dict[str, Any] = {}


class ImportedPart(Shape):
    """A received part and the job of its documents. `vectors_kept`: its vectors are stored as they are, because this
    installation's model made them; otherwise its chunks are embedded again."""

    part: int
    sha256: str
    job_id: str
    documents: int
    chunks: int
    vectors: int
    vectors_kept: bool
    received_at: datetime
    finished: bool


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


def entries_of(part: Part, *, most_bytes: int) -> list[Upload | Refusal]:
    """Return the documents of a part as uploads, each a part of its own; an invalid one does not affect the others."""
    taken: set[str] = set()
    entries: list[Upload | Refusal] = []
    for index, document in enumerate(part.documents):
        entry = _entry(part, document, f"/documents/{index}", most_bytes)
        if isinstance(entry, Upload) and entry.document_id in taken:
            detail = "The same document_id stands earlier in this part."
            entry = Refusal(document_id=entry.document_id, code="duplicate_document_id", detail=detail)
        elif isinstance(entry, Upload):
            taken.add(entry.document_id)
        entries.append(entry)
    return entries


def _entry(part: Part, document: Enclosed, where: str, most_bytes: int) -> Upload | Refusal:
    described = dict(document.description)
    flaw = next(flaws_in(described), None)
    if flaw is not None:
        return _refused(described, f"{where}{pointer(flaw.path)}", flaw.detail)
    try:
        sent = CarriedDocument.model_validate(described)
    except ValidationError as error:
        first = places(error)[0]
        return _refused(described, f"{where}{first['pointer']}", first["detail"])
    alone = Part(origin=part.origin, documents=[replace(document, description={"document_id": sent.document_id})])
    body = write_part(alone)
    if len(body) > most_bytes:
        detail = f"The document has {len(body)} bytes with its vectors; at most {most_bytes} are taken."
        return Refusal(document_id=sent.document_id, code="document_too_large", detail=detail, pointer=where)
    source = sent.source
    described_fields = {field.name: getattr(sent, field.name) for field in fields(DocumentFields)}
    return Upload(
        document_id=DocumentId(sent.document_id),
        fields=DocumentFields(**{**described_fields, "tags": tuple(sent.tags)}),
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


def _refused(described: Mapping[str, Any], where: str, detail: str) -> Refusal:
    document_id = nameable(described.get("document_id"))
    return Refusal(document_id=document_id, code="invalid_document", detail=f"{where} {detail}.", pointer=where[:255])


def _chunking(sent: Mapping[str, Any]) -> Chunking:
    """Return the chunking of the document. It is not applied again, only stored."""
    options: dict[str, Any] = {}
    for field in fields(Chunking):
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
    if not _IMPORT_ID.fullmatch(value):
        detail = "must have 1 to 64 letters, digits, '.', '_' and '-'"
        raise invalid([{"pointer": "/import_id", "in": "path", "detail": detail}])
    return value


def part_answer(received: PartOutcome, import_id: str, namespace: str) -> dict[str, Any]:
    """Convert the outcome of a part to its JSON form."""
    return {"import_id": import_id, "namespace": namespace, "status": received.status, **asdict(received.part)}


def import_answer(parts: Sequence[PartView], import_id: str, namespace: str) -> dict[str, Any]:
    """Return the received parts, as they are sent."""
    return {"import_id": import_id, "namespace": namespace, "parts": [asdict(part) for part in parts]}
