"""The text of a document, given directly, as bytes, as a file or at an address, and the document's name."""

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic.json_schema import WithJsonSchema

from api_gateway.http.fields import TEXT_MEDIA_TYPES, Metadata, NewSourceId, Tags, Wire
from pipeline.document_sources import SourceKind
from pipeline.errors import FetchRefused, UnsupportedMediaType
from pipeline.outbound.web import LONGEST_URI, web_address
from pipeline.parsing.detection import codec_of
from pipeline.parsing.formats import JSONL, charset_of, media_type_of
from pipeline.parsing.sniffing import media_type_of_fetched, media_type_shown
from pipeline.records import OCTETS

_LONGEST_MEDIA_TYPE = 127


def _hint(value: Any) -> Any:
    """Return a suffix or a media type, as the media type to read every file as."""
    if not isinstance(value, str):
        return value
    try:
        return media_type_of(f"file.{value.strip().lstrip('.')}", value)
    except UnsupportedMediaType as error:
        raise ValueError(f"names no known format: {error}") from None


def _charset(value: Any) -> Any:
    """Return the name of a character set in lower case."""
    if not isinstance(value, str):
        return value
    if codec_of(value) is None:
        raise ValueError("names no known character set")
    return value.strip().lower()


Charset = Annotated[
    str,
    Field(max_length=40, description="The character set of the bytes, such as big5 or gb18030."),
    BeforeValidator(_charset),
]
ParserHint = Annotated[str, BeforeValidator(_hint), WithJsonSchema({"type": "string", "examples": ["md", "text/html"]})]


class SourceIn(Wire):
    """The origin of a text, and how to read it.

    Of `text` (of the document or in here) and `bytes`, one is needed; with neither, the document is fetched from `uri`,
    which must be http or https then. `charset` takes precedence over the detected encoding, unless it hardly fits.
    `source_id`: documents of a namespace with the same one belong to one source; without it, those with the same `uri`
    do. `mime_type` is another name for `media_type`. `tags` and `metadata` are added to those of the document.
    """

    source_id: NewSourceId | None = None
    uri: Annotated[str, Field(max_length=LONGEST_URI)] | None = None
    text: str | None = None
    content: Annotated[str | None, Field(alias="bytes", description="The bytes of a file, in base64.")] = None
    filename: Annotated[str, Field(max_length=1024)] | None = None
    media_type: Annotated[str, Field(max_length=255)] | None = None
    mime_type: Annotated[str, Field(max_length=255)] | None = None
    parser_hint: ParserHint | None = None
    charset: Charset | None = None
    tags: Tags | None = None
    metadata: Metadata | None = None

    @property
    def declared_type(self) -> str | None:
        """Return the media type that the sender declared."""
        return self.media_type or self.mime_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A document's text, or the address to fetch it from. ``where``: a JSON Pointer from the document to it."""

    body: bytes
    media_type: str
    where: str
    uri: str | None = None
    name: str | None = None  # the document's name if it has no id of its own
    blank: bool = False
    to_fetch: bool = False
    kind: SourceKind = SourceKind.TEXT


class BadSource(Exception):
    """The source is invalid. ``code`` is stable, ``where`` a JSON Pointer from the document."""

    def __init__(self, where: str, detail: str, *, code: str = "invalid_document") -> None:
        super().__init__(detail)
        self.where = where
        self.detail = detail
        self.code = code


def content_of(text: str | None, source: SourceIn | None) -> Content:
    """Return a document's content, or the address to fetch it from. Raises BadSource."""
    source = source or SourceIn()
    if source.media_type and source.mime_type and source.media_type != source.mime_type:
        raise BadSource("/source/mime_type", "is another type than media_type")
    given = [
        where
        for where, value in (("/text", text), ("/source/text", source.text), ("/source/bytes", source.content))
        if value is not None
    ]
    if len(given) > 1:
        raise BadSource(given[1], f"is given beside {given[0]}; a document has its text once")
    if source.content is not None:
        return _bytes(source, source.content)
    if given:
        return _text(text if source.text is None else source.text, source, given[0])
    if source.uri is None:
        raise BadSource("/text", "is required")
    return _to_fetch(source, source.uri)


def _text(text: str | None, source: SourceIn, where: str) -> Content:
    """Return the content of a decoded text, for which a character set has no meaning."""
    declared = source.parser_hint or source.declared_type or "text/plain"
    base = declared.partition(";")[0].strip().lower()
    if base not in TEXT_MEDIA_TYPES:
        name = "parser_hint" if source.parser_hint else "media_type" if source.media_type else "mime_type"
        allowed = ", ".join(TEXT_MEDIA_TYPES[:-1]) + f" or {TEXT_MEDIA_TYPES[-1]}"
        raise BadSource(f"/source/{name}", f"must be {allowed} for a text")
    uri = source.uri or source.filename
    text = text or ""
    blank = not text or text.isspace()
    return Content(body=text.encode(), media_type=base, where=where, uri=uri, name=source.filename, blank=blank)


def _bytes(source: SourceIn, content: str) -> Content:
    try:
        body = base64.b64decode(content, validate=True)
    except (ValueError, binascii.Error):
        raise BadSource("/source/bytes", "is not base64") from None
    try:
        if source.parser_hint or source.filename or source.declared_type:
            media_type = media_type_as(
                source.filename,
                source.declared_type,
                parser_hint=source.parser_hint,
                charset=source.charset,
                body=body,
            )
        else:
            media_type = _with_charset(media_type_of_fetched(body, declared=None, uri=""), source.charset)
    except UnsupportedMediaType as error:
        raise BadSource("/source/media_type", str(error), code=error.code) from None
    uri = source.uri or source.filename
    return Content(
        body=body,
        media_type=storable(_one_document(media_type)),
        where="/source/bytes",
        uri=uri,
        name=source.filename,
        blank=not body or body.isspace(),
        kind=SourceKind.BYTES,
    )


def _to_fetch(source: SourceIn, uri: str) -> Content:
    """Return the content to fetch from ``uri``. A generic media type counts as unknown and is detected from the bytes."""
    try:
        address = web_address(uri)
    except FetchRefused as error:
        raise BadSource("/source/uri", str(error), code=error.code) from None
    media_type = source.parser_hint or OCTETS
    try:
        if source.declared_type and not source.parser_hint and source.declared_type != OCTETS:
            media_type = media_type_of(None, source.declared_type)
    except UnsupportedMediaType as error:
        raise BadSource("/source/media_type", str(error), code=error.code) from None
    return Content(
        body=b"",
        media_type=storable(_with_charset(_one_document(media_type), source.charset)),
        where="/source/uri",
        uri=uri,
        name=source.filename or address.uri.partition("://")[2].rstrip("/"),
        to_fetch=True,
        kind=SourceKind.URL,
    )


def media_type_as(
    filename: str | None, declared: str | None, *, parser_hint: str | None, charset: str | None, body: bytes
) -> str:
    """Return the media type to read a body as, with the character set of ``charset``, else of the declared type. The bytes
    decide where they show another format beyond doubt, and for a name without a suffix and a type that says nothing.
    Raises UnsupportedMediaType."""
    if parser_hint is not None:
        return _with_charset(parser_hint, charset or charset_of((declared or "").partition(";")[2]))
    try:
        named = media_type_of(filename, declared)
    except UnsupportedMediaType:
        if shown := media_type_shown(body, None):
            return _with_charset(shown, charset)
        if not _says_nothing(filename, declared):
            raise
        return _with_charset(media_type_of_fetched(body, declared=None, uri=""), charset)
    return _with_charset(media_type_shown(body, named.partition(";")[0]) or named, charset)


def _says_nothing(filename: str | None, declared: str | None) -> bool:
    name = (filename or "").replace("\\", "/").rpartition("/")[2]
    has_suffix = "." in name.strip(".")
    return bool(name) and not has_suffix and (declared or OCTETS).partition(";")[0].strip().lower() == OCTETS


def _with_charset(media_type: str, charset: str | None) -> str:
    return f"{media_type.partition(';')[0]};charset={charset}" if charset else media_type


def _one_document(media_type: str) -> str:
    if media_type.partition(";")[0] == JSONL:
        detail = "JSON lines are many documents; send them to /v1/files"
        raise BadSource("/source/media_type", detail, code="unsupported_media_type")
    return media_type


def storable(media_type: str) -> str:
    """Return the media type as the stores can hold it: a long one loses its parameters."""
    fits = media_type.isascii() and media_type.isprintable() and len(media_type) <= _LONGEST_MEDIA_TYPE
    return media_type if fits else media_type.partition(";")[0]
