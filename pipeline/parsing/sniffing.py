"""Detect the format of a fetched document: by its first bytes, the server's declaration, and its name."""

import re
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from pipeline.errors import UnsupportedMediaType
from pipeline.parsing import formats
from pipeline.parsing.containers import SOMETHING_ELSE, what_it_is

_GENERIC = frozenset({"", formats.PLAIN, "application/octet-stream", "binary/octet-stream", "application/zip"})
_ZIP, _OLD_OFFICE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_FOLDERS = {formats.DOCX: b"word/", formats.XLSX: b"xl/", formats.XLSB: b"xl/", formats.PPTX: b"ppt/"}  # of their parts
# Formats that are no text, under whose names pages are saved too.
_BINARY = frozenset({None, formats.PDF, formats.XLS, formats.ODT, formats.ODS, formats.ODP, formats.RTF, *_FOLDERS})
# An archive of OpenDocument and an EPUB book have a part with their media type, as it is.
_NAMED = re.compile(rb"mimetype.{0,64}?(application/(?:vnd\.oasis\.opendocument\.|epub\+)[a-z-]+)", re.DOTALL)
_MAIL = re.compile(
    rb"(?:From [^\n]*\n)?(?:[A-Za-z][A-Za-z0-9-]*:[^\n]*\r?\n(?:[ \t][^\n]*\r?\n)*)*?"
    rb"(?:From|Received|Return-Path|MIME-Version):",
    re.IGNORECASE,
)
_MAIL_TOO = re.compile(rb"^(?:Subject|MIME-Version|Delivered-To|Received|Message-ID):", re.IGNORECASE | re.MULTILINE)
_MAIL_ONLY = re.compile(rb"^(?:To|Cc|Received):", re.IGNORECASE | re.MULTILINE)
# Streams of other old documents, which may hold a workbook.
_OTHER_STREAMS = ("WordDocument", "PowerPoint Document", "__substg1.0_")
_LOOKED_AT = 4096  # bytes
_IN_XML = re.compile(  # a workbook of Excel 2003, and OpenDocument in one file
    rb"\s*(?:<\?[^<>]*>\s*|<!--[^<>]*>\s*){0,9}<(?:\w+:)?(?:Workbook\s[^<>]*urn:schemas-microsoft-com:office:spreadsheet"
    rb"|document\s[^<>]*office:mimetype=\"(application/vnd\.oasis\.opendocument\.[a-z]+)\")"
)
_HTML = (b"<!doctype html", b"<html", b"<head", b"<body", b"<table", b"<meta", b"<style")


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
        if base != formats.PLAIN and (shown := _by_beginning(body)):
            return shown
        is_binary = base != formats.PLAIN and b"\0" in body[:_LOOKED_AT]
        if is_binary or what_it_is(body) != SOMETHING_ELSE:
            raise UnsupportedMediaType(f"the document is {what_it_is(body)}, for which there is no parser") from None
        return formats.PLAIN + charset


def media_type_shown(body: bytes, named: str | None) -> str | None:
    """Return the media type that the bytes show beyond doubt where ``named``, without parameters, is another one or None:
    PDF and Office by their signature, an HTML page instead of these or of no known format, a text of columns named .xls. None
    if there is none."""
    shown = _by_signature(body)
    is_office = named in _FOLDERS and body.startswith(_ZIP) and _FOLDERS[named] in body
    if shown is None and named in _BINARY and _begins_as_html(body):
        shown = formats.HTML
    if shown is None and named is None:
        shown = _by_beginning(body)
    if shown is None and named in (formats.XLS, formats.XLSX) and _is_table_of_text(body):
        shown = formats.CSV
    return None if is_office or shown == named else shown


def _is_table_of_text(body: bytes) -> bool:
    """Return whether a file is text with tabs or commas, as programs export it under the name of a workbook."""
    head = body[:_LOOKED_AT]
    if not head.startswith((b"\xff\xfe", b"\xfe\xff")) and any(byte < 32 and byte not in b"\t\r\n" for byte in head):
        return False
    return not head.lstrip(b"\xef\xbb\xbf").startswith(b"<") and any(mark in head for mark in (b"\t", b",", b";"))


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
    if written := _IN_XML.match(body[:_LOOKED_AT].removeprefix(b"\xef\xbb\xbf")):
        return _parsable(formats.media_type_of(None, (written[1] or formats.XLS.encode()).decode()))
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return formats.PDF
    if body.startswith(b"{\\rtf"):
        return formats.RTF
    if body.startswith(_ZIP):
        # Names are stored uncompressed in the archive. The parser looks closer.
        if b"word/document.xml" in body:
            return formats.DOCX
        if b"xl/workbook.bin" in body:
            return formats.XLSB
        if b"xl/workbook" in body:
            return formats.XLSX
        if b"ppt/presentation.xml" in body:
            return _parsable(formats.media_type_of(None, formats.PPTX))
        if named := _NAMED.search(body):
            return _parsable(formats.media_type_of(None, named[1].decode()))
        if b"META-INF/container.xml" in body:
            return formats.EPUB
    is_workbook = _stream("Workbook") in body or _stream("Book") in body
    if body.startswith(_OLD_OFFICE) and is_workbook and not any(_stream(name) in body for name in _OTHER_STREAMS):
        return formats.XLS
    return None


def _stream(name: str) -> bytes:
    """Return the name of a stream as the directory of an old Office file has it."""
    return name.encode("utf-16-le")


def _by_beginning(body: bytes) -> str | None:
    """Return the format of a text that begins as a mail, a saved page or a notebook does."""
    head = body[:_LOOKED_AT]
    if head.lstrip().startswith(b"{") and b'"nbformat"' in body and b'"cell' in body:
        return formats.NOTEBOOK
    if _MAIL.match(head) is None or not _MAIL_TOO.search(head):
        return None
    is_page = b"multipart/related" in head and not _MAIL_ONLY.search(head)
    return formats.MHTML if is_page else formats.EML
