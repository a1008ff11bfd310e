"""Files on their way in: what POST /v1/files takes, and its conversion to uploads."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from api_gateway.http.bodies import flaws_in, json_field
from api_gateway.http.fields import MOST_TAGS, Metadata, NamespaceName, Tags, TypeName, Wire
from api_gateway.http.problems import invalid, places, pointer
from api_gateway.resources.ingestion.chunking_options import ChunkingIn
from api_gateway.resources.ingestion.content import Charset, ParserHint, document_id_of, media_type_as, storable
from api_gateway.resources.ingestion.uploads import DocumentIn, Intake
from pipeline.document_sources import SourceKind, SourceRef
from pipeline.documents.derived_ids import with_hash
from pipeline.errors import MalformedDocument, Rejected, UnsupportedMediaType
from pipeline.ingestion.accept import OnConflict, Refusal
from pipeline.parsing import JSONL, charset_of, split_jsonl
from pipeline.records import DocumentFields, Upload

_ID_NAMES = ("document_id", "doc_id", "id", "_id")
_FIELDS = frozenset(DocumentIn.model_fields)


class FilesForm(Wire):
    """What holds for every file of the request. `tags` and `metadata` are added to what a JSONL line says itself."""

    tenant_id: str | None = None
    namespace: NamespaceName
    on_conflict: OnConflict = "replace"
    type: TypeName | None = None
    tags: Tags | None = None
    metadata: Metadata | None = None
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
    """The form fields, those that are not scalar out of their JSON. Raises Problem 422."""
    values: dict[str, Any] = {}
    for name, text in fields:
        if name == "tags":
            values.setdefault("tags", []).extend(_tags(text))
        elif name in values:
            raise invalid([{"pointer": pointer([name]), "detail": "is given more than once"}])
        elif name in ("metadata", "chunking"):
            values[name] = json_field(name, text)
        else:
            values[name] = text
    flaw = next(flaws_in(values), None)
    if flaw is not None:
        raise invalid([{"pointer": pointer(flaw.path), "detail": flaw.detail}])
    try:
        return FilesForm.model_validate(values)
    except ValidationError as error:
        raise invalid(places(error)) from None


def _tags(text: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        return [tag.strip() for tag in text.split(",") if tag.strip()]
    found: list[Any] = json_field("tags", text)
    return found


def entries_of(files: Sequence[SentFile], form: FilesForm, intake: Intake) -> Iterator[Upload | Refusal]:
    """Every document of the files, in order. A file of JSON lines is as many documents as it has lines."""
    names: set[str] = set()
    for place, file in enumerate(files):
        where = f"/file/{place}"
        try:
            media_type = media_type_as(
                file.name, file.declared_type, parser_hint=form.parser_hint, charset=form.charset
            )
        except UnsupportedMediaType as error:
            yield _refused(file, error, where, intake)
            continue
        if media_type.partition(";")[0] == JSONL:
            try:
                yield from _lines(file, charset_of(media_type.partition(";")[2]), form, intake, where)
            except Rejected as error:
                yield _refused(file, error, where, intake)
            continue
        yield intake.upload(
            document_id=_unique(document_id_of(file.name), file.body, names),
            fields=DocumentFields(type=form.type, tags=tuple(form.tags or ()), metadata=form.metadata or {}),
            body=file.body,
            media_type=storable(media_type),
            source_uri=file.name[:2048] or None,
            text_where=where,
            blank=not file.body or file.body.isspace(),
            source=SourceRef(kind=SourceKind.FILE),
        )


def _lines(
    file: SentFile, charset: str | None, form: FilesForm, intake: Intake, where: str
) -> Iterator[Upload | Refusal]:
    within = SourceRef(kind=SourceKind.FILE, uri=file.name[:2048] or None, media_type=JSONL)
    for line in split_jsonl(file.body, charset=charset):
        here = f"{where}/{line.number}"
        if isinstance(line.value, MalformedDocument):
            yield _refused(file, line.value, here, intake)
        else:
            yield intake.document(document_of(line.value, line.number, file.name, form), here, within=within)


def document_of(line: Mapping[str, Any], number: int, file_name: str, form: FilesForm) -> dict[str, Any]:
    """A line as a document: its id under any of the usual names, unknown keys in its metadata, the form's labels added.

    What is of a wrong type stays as it is, to be refused with its place.
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
    if isinstance(tags, list) and form.tags and len(tags) <= MOST_TAGS:  # validation rejects a longer list
        document["tags"] = [*tags, *(tag for tag in form.tags if tag not in tags)]
    if form.type is not None and document.get("type") is None:
        document["type"] = form.type
    return document


def _unique(document_id: str, body: bytes, taken: set[str]) -> str:
    """Another id for a second file of the same name, which is the same whenever the same file is sent."""
    if document_id in taken:
        document_id = with_hash(document_id, hashlib.sha256(body).digest(), 8)
    taken.add(document_id)
    return document_id


def _refused(file: SentFile, error: Rejected, where: str, intake: Intake) -> Refusal:
    return intake.refuse(document_id_of(file.name), error.code, str(error), where)
