"""The name of a file in a part of a multipart body, in each of the ways that clients write it."""

import re
import unicodedata
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from urllib.parse import unquote_to_bytes

from pipeline.parsing.detection import codec_of

_PARAMETER = re.compile(rb';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)')
_EXTENDED = re.compile(r"([^']+)'[^']*'((?:[^%]|%[0-9A-Fa-f]{2})*)", re.DOTALL)
_ENCODED_WORDS = re.compile(r"\s*(?:=\?[^?\s]+\?[BbQq]\?[^?]*\?=\s*)+")
_CHARSET_OF_WORD = re.compile(r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?[BbQq]\?")


def file_name_of(disposition: bytes, plain: str | None) -> str | None:
    """Return the file name of a Content-Disposition header: ``filename*`` (RFC 8187), else ``plain``, the decoded
    ``filename``, with its encoded words (RFC 2047) and ``%22``, by which browsers write a quotation mark. None if the
    part is no file."""
    extended = _extended(disposition)
    if extended is not None:
        return extended
    return None if plain is None else _encoded_words(plain).replace("%22", '"')


def has_extended_name(disposition: bytes) -> bool:
    """Return whether the header has a readable ``filename*``."""
    return _extended(disposition) is not None


def _extended(disposition: bytes) -> str | None:
    for name, value in _PARAMETER.findall(disposition):
        if name.lower() != b"filename*":
            continue
        parts = _EXTENDED.fullmatch(value.strip(b' \t"').decode("latin-1"))
        codec = codec_of(parts[1]) if parts else None
        if parts is None or codec is None:
            return None
        try:
            return _printable(unquote_to_bytes(parts[2]).decode(codec)) or None
        except UnicodeError:
            return None
    return None


def _encoded_words(name: str) -> str:
    """Return a name that consists of encoded words decoded, any other name unchanged."""
    if not _ENCODED_WORDS.fullmatch(name) or not all(map(codec_of, _CHARSET_OF_WORD.findall(name))):
        return name
    try:
        return _printable(str(make_header(decode_header(name)))) or name
    except (HeaderParseError, LookupError, UnicodeError, ValueError):
        return name


def _printable(name: str) -> str:
    """Return a name without the control characters and lone surrogates that an encoding can smuggle in."""
    return "".join(character for character in name if unicodedata.category(character) not in ("Cc", "Cs"))
