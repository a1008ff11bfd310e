"""Documents of several formats to text with sections. Adding a format: see `registry`."""

from pipeline.core.parsing.detection import codec_of
from pipeline.core.parsing.encodings import DecodedText, clean, decode, read_text
from pipeline.core.parsing.jsonl import JsonLine, split_jsonl
from pipeline.core.parsing.registry import (
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
