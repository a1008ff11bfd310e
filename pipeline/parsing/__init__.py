"""Parsers: documents of several formats to text with sections. Adding a format: see `formats`."""

from pipeline.documents.clean_text import clean
from pipeline.parsing.detection import codec_of
from pipeline.parsing.encodings import DecodedText, decode, read_text
from pipeline.parsing.formats import (
    CSV,
    DOCX,
    HTML,
    JSON,
    JSONL,
    MARKDOWN,
    PARSERS,
    PDF,
    PLAIN,
    SUFFIXES,
    TSV,
    XLSX,
    Format,
    charset_of,
    media_type_of,
    parse,
    register,
)
from pipeline.parsing.jsonl import JsonLine, split_jsonl

__all__ = [
    "CSV",
    "DOCX",
    "HTML",
    "JSON",
    "JSONL",
    "MARKDOWN",
    "PARSERS",
    "PDF",
    "PLAIN",
    "SUFFIXES",
    "TSV",
    "XLSX",
    "DecodedText",
    "Format",
    "JsonLine",
    "charset_of",
    "clean",
    "codec_of",
    "decode",
    "media_type_of",
    "parse",
    "read_text",
    "register",
    "split_jsonl",
]
