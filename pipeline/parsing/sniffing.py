"""Detect the format of a fetched document: by its first bytes, the server's declaration, and its name."""

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from pipeline.errors import UnsupportedMediaType
from pipeline.parsing import formats
from pipeline.parsing.containers import what_it_is

_GENERIC = frozenset({"", formats.PLAIN, "application/octet-stream", "binary/octet-stream", "application/zip"})
_ZIP = b"PK\x03\x04"
_FOLDERS = {formats.DOCX: b"word/", formats.XLSX: b"xl/", formats.PPTX: b"ppt/"}  # of their parts
_LOOKED_AT = 4096  # bytes
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body")


def media_type_of_fetched(body: bytes, *, declared: str | None, uri: str) -> str:
    """Return the media type of a fetched document with its charset: by unmistakable bytes (PDF, Office), the server's
    type unless generic, the address's suffix, an HTML beginning, else plain text if the server says so, or nothing, and
    it looks like text. Raises UnsupportedMediaType."""
    base, _, parameters = (declared or "").partition(";")
    base = base.strip().lower()
    sure = _by_signature(body)
    if sure is not None:
        return sure
    if base not in _GENERIC:
        return _parsable(formats.media_type_of(None, declared))
    charset = f";{parameters.strip()}" if "charset" in parameters.lower() else ""
    try:
        return _parsable(formats.media_type_of(file_name_of(uri), None)) + charset
    except UnsupportedMediaType:
        if _begins_as_html(body):
            return formats.HTML + charset
        is_binary = base != formats.PLAIN and b"\0" in body[:_LOOKED_AT]
        if is_binary or what_it_is(body) != "something else":
            raise UnsupportedMediaType(f"the document is {what_it_is(body)}, for which there is no parser") from None
        return formats.PLAIN + charset


def media_type_shown(body: bytes, named: str | None) -> str | None:
    """Return the media type that the bytes show beyond doubt where ``named``, without parameters, is another one or None:
    PDF and Office by their signature, an HTML page instead of these or of no known format. None if there is none."""
    shown = _by_signature(body)
    is_office = named in _FOLDERS and body.startswith(_ZIP) and _FOLDERS[named] in body
    if shown is None and named in (None, formats.PDF, *_FOLDERS) and _begins_as_html(body):
        shown = formats.HTML
    return None if is_office or shown == named else shown


def _begins_as_html(body: bytes) -> bool:
    return body[:_LOOKED_AT].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_HTML)


def file_name_of(uri: str) -> str:
    """Return the last part of an address's path."""
    return PurePosixPath(unquote(urlsplit(uri).path)).name


def _parsable(media_type: str) -> str:
    if media_type.partition(";")[0] == formats.JSONL:
        raise UnsupportedMediaType("a file of JSON lines is many documents; upload the file itself")
    return media_type


def _by_signature(body: bytes) -> str | None:
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return formats.PDF
    if body.startswith(_ZIP):
        # Names are stored uncompressed in the archive. The parser looks closer.
        if b"word/document.xml" in body:
            return formats.DOCX
        if b"xl/workbook" in body:
            return formats.XLSX
        if b"ppt/presentation.xml" in body:
            return _parsable(formats.media_type_of(None, formats.PPTX))
    return None
