"""JSON lines: many documents in one file, each on a line of its own."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipeline.errors import MalformedDocument, UndecodableText
from pipeline.filters import lenient_json
from pipeline.outbound import json_limits
from pipeline.parsing.detection import codec_of
from pipeline.parsing.encodings import decode, is_utf8, unmarked_utf16

_NOT_BLANK = re.compile(rb"\S")  # a file of line feeds alone is skipped without a step of the interpreter for each


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """One line of a file. ``number`` counts all lines from 1; ``value`` is its object, or the error in it."""

    number: int
    value: dict[str, Any] | MalformedDocument


def split_jsonl(body: bytes, *, charset: str | None = None) -> Iterator[JsonLine]:
    """Yield the lines of ``body``, ended by line feeds only, without blank ones; a bad line is reported and the rest
    continues. UTF-8, UTF-16 or ``charset``: lines are too short for detection. Raises UndecodableText for bytes that
    contradict their mark or ``charset``."""
    codec = codec_of(charset) if charset else None
    if codec is not None and not is_utf8(body):
        try:
            body = body.decode(codec).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise UndecodableText(f"the text is not in the charset {charset!a}") from None
    elif body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or unmarked_utf16(body) is not None:
        body = decode(body).encode("utf-8", "surrogatepass")
    body = body.removeprefix(codecs.BOM_UTF8)
    number, start = 1, 0
    while (beginning := _NOT_BLANK.search(body, start)) is not None:
        number += body.count(b"\n", start, beginning.start())
        end = body.find(b"\n", beginning.start())
        end = len(body) if end < 0 else end
        line, start = body[beginning.start() : end].strip(), end
        yield JsonLine(number=number, value=_parsed(line, number))


def _parsed(line: bytes, number: int) -> dict[str, Any] | MalformedDocument:
    try:
        intricate = json_limits.require_few_values(line)
        value = lenient_json.loads(line.decode("utf-8"))
        if intricate:
            json_limits.require_shape(value)
    except json_limits.TooComplex as error:
        return MalformedDocument(f"line {number} {error}")
    except UnicodeDecodeError:
        return MalformedDocument(f"line {number} is not UTF-8; name its encoding in `charset`")
    except json.JSONDecodeError as error:
        return MalformedDocument(f"line {number} is not JSON: {error.msg} at column {error.colno}")
    except RecursionError:
        return MalformedDocument(f"line {number} is not JSON: nested too deeply")
    except ValueError:
        return MalformedDocument(f"line {number} is not JSON: it holds a number that JSON does not allow")
    if not isinstance(value, dict):
        return MalformedDocument(f"line {number} is not a JSON object")
    return value
