"""The name of a file in a part of a multipart body, in each of the ways that clients write it."""

import re
import unicodedata
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from urllib.parse import unquote_to_bytes

from pipeline.parsing.detection import codec_of, guess

_PARAMETER = re.compile(rb';\s*([^\s;="]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"]*)')
_EXTENDED = re.compile(rb"filename\*(?:(\d{1,3})(\*?))?", re.IGNORECASE)
_CHARSET = re.compile(rb"([^']*)'[^']*'")
_WORD = r"=\?([^?*\s]+)(?:\*[^?\s]*)?\?[BbQq]\?[^?]*\?="
_ENCODED_WORDS = re.compile(rf"{_WORD}(?:\s*{_WORD})*+")


def file_name_of(disposition: bytes, plain: str | None) -> str | None:
    """Return the file name of a Content-Disposition header: ``filename*``, whole or in numbered pieces (RFC 8187 and
    2231), else ``plain``, the decoded ``filename``, with its encoded words (RFC 2047) and ``%22``, by which browsers write
    a quotation mark. The encoding of a name that is not in the declared one, or not UTF-8, is detected. None if the part
    is no file."""
    charset, written = _extended(disposition)
    codec = codec_of(charset or "utf-8")
    if written and codec:
        try:
            return _printable(written.decode(codec)) or plain
        except UnicodeError:
            pass
    if plain is None:
        return _detected(written) if written else None
    body = plain.encode("latin-1", "ignore")
    name = plain if body.isascii() or body not in disposition else _detected(body)
    return _ENCODED_WORDS.sub(_decoded_words, name).replace("%22", '"')


def has_extended_name_only(disposition: bytes) -> bool:
    """Return whether the header has a ``filename*`` and no ``filename``."""
    is_plain = any(name.lower() == b"filename" for name, _ in _PARAMETER.findall(disposition))
    return not is_plain and bool(_extended(disposition)[1])


def _extended(disposition: bytes) -> tuple[str, bytes]:
    """Return the charset of ``filename*``, and its pieces decoded to bytes and joined."""
    charset, name = "", b""
    parameters = [(_EXTENDED.fullmatch(name), value.strip(b' \t"')) for name, value in _PARAMETER.findall(disposition)]
    pieces = [(int(each[1] or 0), each[1] is None or bool(each[2]), value) for each, value in parameters if each]
    for number, is_encoded, value in sorted(pieces):
        declared = _CHARSET.match(value) if is_encoded and not number else None
        if declared:
            charset, value = declared[1].decode("latin-1"), value[declared.end() :]
        name += unquote_to_bytes(value) if is_encoded else value
    return charset, name


def _detected(name: bytes) -> str:
    found = guess(name)
    return _printable(name.decode(found.codec if found else "latin-1", "replace"))


def _decoded_words(written: re.Match[str]) -> str:
    """Return encoded words decoded, or unchanged if their charset is unknown or they are damaged."""
    if not all(map(codec_of, re.findall(_WORD, written[0]))):
        return written[0]
    try:
        return _printable(str(make_header(decode_header(written[0])))) or written[0]
    except (HeaderParseError, LookupError, UnicodeError, ValueError):
        return written[0]


def _printable(name: str) -> str:
    """Return a name without the control characters and lone surrogates that an encoding can smuggle in."""
    return "".join(character for character in name if unicodedata.category(character) not in ("Cc", "Cs"))
