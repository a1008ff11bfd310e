"""A JSON file to text, as one document. Files of many documents are JSON lines (see `jsonl`)."""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.errors import DocumentTooLarge, MalformedDocument, UndecodableText
from pipeline.filters import lenient_json
from pipeline.outbound import json_limits
from pipeline.parsing.assembly import Block, assemble
from pipeline.parsing.detection import codec_of
from pipeline.parsing.encodings import decode, is_utf8, read_text, unmarked_utf16
from pipeline.parsing.tables import key_length
from pipeline.records import Parsed

_DEEPEST = 100  # levels of objects and arrays
_MOST_VALUES = 500_000
_HEADING_LEVELS = 3  # of nested objects whose names become headings; deeper names are joined: `a.b: value`
_NEXT_VALUE = re.compile(r"[\s\x1e]*")
_WRITTEN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?\Z|True\Z|False\Z")
_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")  # a picture or another file within a value
_TITLES = ("title", "name", "headline", "subject")


def parse_json(body: bytes, charset: str | None) -> Parsed:
    """Return `name: value` lines: nested objects get headings, objects of a list paragraphs; null, empty values and
    embedded files are left out. Values of one name repeated in an object stand together. JSON lines are read as a list.
    Title: the top object's ``title``, ``name``, ``headline`` or ``subject``. Raises MalformedDocument, also beyond 100
    levels."""
    decoded = read_text(body, declared=charset)
    warnings: list[str] = []
    value = value_of(decoded.text, warnings) if decoded.text.strip() else None
    title = None
    if isinstance(value, dict):
        title = next(
            (value[name] for name in _TITLES if isinstance(value.get(name), str) and value[name].strip()), None
        )
    parsed = assemble(
        _Writer().blocks(value, level=1, depth=0), title=title, encoding=decoded.encoding, warnings=warnings
    )
    return parsed if title else replace(parsed, title=None)  # the name of a member is no title


def value_of(text: str, warnings: list[str]) -> Any:
    """Return the value of a text of JSON, with numbers as words. Raises MalformedDocument."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise MalformedDocument(f"the JSON is nested more than {_DEEPEST} deep") from None
    except json.JSONDecodeError as error:
        if error.msg == "Extra data" and (values := _values_of(text, warnings)) is not None:
            return values
        raise MalformedDocument(f"the file is not JSON: {error.msg} in line {error.lineno}") from None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated: dict[str, list[Any]] = {}
        for name, value in pairs:
            repeated.setdefault(name, []).append(value)
        return {name: several if len(several) > 1 else several[0] for name, several in repeated.items()}
    return values


# NaN and Infinity, as Python and others write them, stay words; numbers keep their digits.
_DECODER = json.JSONDecoder(
    strict=False, parse_constant=str, parse_int=str, parse_float=str, object_pairs_hook=_object_of
)


def _values_of(text: str, warnings: list[str]) -> list[Any] | None:
    """Return the objects and lists that follow each other, as in JSON lines. Lines of anything else, if they are fewer,
    are left out, with a warning. None for any other text."""
    values, wrong, position = [], list[int](), 0
    while (position := _NEXT_VALUE.match(text, position).end()) < len(text):  # type: ignore[union-attr]  # always matches
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError):
            value, end = None, text.find("\n", position)
        if isinstance(value, dict | list):
            values.append(value)
        else:
            wrong.append(position)
            if len(wrong) > len(values) or text[position - 1] != "\n":
                return None
        position = end if end >= 0 else len(text)
    if wrong:
        line = text.count("\n", 0, wrong[0]) + 1
        warnings.append(f"{len(wrong)} lines are not JSON and were left out, the first in line {line}")
    return values


class _Writer:
    """Walks a value, with recursion at most ``_DEEPEST`` deep."""

    def __init__(self) -> None:
        self._values = 0

    def blocks(self, value: Any, *, level: int, depth: int) -> Iterator[Block]:
        """Yield a value that may have paragraphs and headings of its own."""
        if (table := _table_of(value)) is not None:
            names, rows = table
            for row in rows:
                yield _fields(self._lines(dict(zip(names, row, strict=True)), "", depth + 1))
        elif isinstance(value, dict):
            yield from self._object(value, level=level, depth=depth)
        elif _is_flat(value):
            yield Block(text="\n".join(self._lines(value, "", depth)))
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, dict | list):
                    yield _fields(self._lines(item, "", depth + 1))
                elif text := self._scalar(item):
                    yield Block(text=f"- {text}", tight=True)
        elif text := self._scalar(value):
            yield Block(text=text)

    def _object(self, value: Mapping[str, Any], *, level: int, depth: int) -> Iterator[Block]:
        self._count(depth)
        nested = {name: item for name, item in value.items() if isinstance(item, dict | list) and item}
        lines = [
            f"{name}: {text}" for name, item in value.items() if name not in nested and (text := self._scalar(item))
        ]
        if lines:
            yield _fields(lines)
        for name, item in nested.items():
            if level <= _HEADING_LEVELS and not _is_flat(item):
                yield Block(text=name, level=level)
                yield from self.blocks(item, level=level + 1, depth=depth + 1)
            else:
                yield _fields(self._lines(item, name, depth + 1))

    def _lines(self, value: Any, name: str, depth: int) -> Iterator[str]:
        self._count(depth)
        if isinstance(value, dict):
            for key, item in value.items():
                yield from self._lines(item, f"{name}.{key}" if name else key, depth + 1)
        elif isinstance(value, list) and _is_flat(value):
            if text := ", ".join(filter(None, map(self._scalar, value))):
                yield f"{name}: {text}" if name else text
        elif isinstance(value, list):
            for item in value:
                yield from self._lines(item, name, depth + 1)
        elif text := self._scalar(value):
            yield f"{name}: {text}" if name else text

    def _scalar(self, value: Any) -> str:
        self._count(0)
        if value is None or isinstance(value, dict | list):
            return ""
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        return "" if _DATA.match(text) else text

    def _count(self, depth: int) -> None:
        if depth > _DEEPEST:
            raise MalformedDocument(f"the JSON is nested more than {_DEEPEST} deep")
        self._values += 1
        if self._values > _MOST_VALUES:
            raise DocumentTooLarge(f"the JSON holds more than {_MOST_VALUES} values")


def _fields(lines: Iterable[str]) -> Block:
    """Return the fields of an object; those above a long value are repeated above its later parts."""
    text = "\n".join(lines)
    return Block(text=text, lead=key_length(text))


def _table_of(value: Any) -> tuple[list[str], list[list[Any]]] | None:
    """Return names and rows of a table: an object of the names and the rows, as pandas writes it, or a list whose first
    row holds the names. None for anything else."""
    if isinstance(value, dict):
        names = next((value[key] for key in ("columns", "header", "headers", "fields") if key in value), None)
        rows = next((value[key] for key in ("data", "rows", "values") if key in value), None)
        if not set(value) <= {"columns", "header", "headers", "fields", "data", "rows", "values", "index"}:
            return None
    elif isinstance(value, list) and len(value) > 1:
        names, rows = value[0], value[1:]
        if not _has_numbers(rows):
            return None
    else:
        return None
    if not isinstance(names, list) or not isinstance(rows, list) or not names or not rows:
        return None
    if not all(isinstance(name, str) and name.strip() and not _WRITTEN.match(name) for name in names) or len(
        set(names)
    ) < len(names):
        return None
    if not all(isinstance(row, list) and len(row) == len(names) for row in rows):
        return None
    return names, rows


def _has_numbers(rows: list[Any]) -> bool:
    """Return whether some value of the rows is no text, so that a row of texts above them names the columns."""
    return any(isinstance(row, list) and any(_WRITTEN.match(str(cell)) for cell in row) for row in rows[:20])


def _is_flat(value: Any) -> bool:
    """Return whether it is a list of short plain values that fit in one line."""
    return isinstance(value, list) and not any(
        isinstance(item, dict | list) or (isinstance(item, str) and len(item) > 80) for item in value
    )


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
        value = lenient_json.loads(line.decode("utf-8"), constant=lambda _name: None)  # NaN, as pandas writes no value
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
