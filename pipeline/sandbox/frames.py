"""How the two processes talk: a request and an answer in turn, each one header of JSON and one body."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from pipeline.core.examples.workbook_form import Sheet
from pipeline.core.parsing.sheets import Row
from pipeline.records import Parsed, Section

_LENGTHS = struct.Struct("!II")  # bytes of the header, bytes of the body
LARGEST_FRAME = 512 * 1024 * 1024  # bytes


class BrokenFrame(Exception):
    """The other side said something that is no frame."""


def packed(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A frame as bytes."""
    encoded = orjson.dumps(header)
    return b"".join((_LENGTHS.pack(len(encoded), len(body)), encoded, body))


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """The next frame. ``read`` gives exactly as many bytes as it is asked for, or raises EOFError."""
    header_bytes, body_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    if header_bytes + body_bytes > LARGEST_FRAME:
        raise BrokenFrame("a frame is too large")
    header = orjson.loads(read(header_bytes))
    if not isinstance(header, dict):
        raise BrokenFrame("a header is no object")
    return header, read(body_bytes)


def frame_of(parsed: Parsed) -> tuple[dict[str, Any], bytes]:
    """A parsed document as header and body."""
    sections = [(each.start, each.end, each.heading_path, each.page) for each in parsed.sections]
    return {"title": parsed.title, "sections": sections}, parsed.text.encode()


def frame_of_sheets(sheets: Sequence[Sheet]) -> tuple[dict[str, Any], bytes]:
    """The sheets of a workbook as header and body: of each row its cells, columns and texts apart."""
    body = [
        {
            "name": sheet.name,
            "hidden": sheet.is_hidden,
            "merged": sheet.merged,
            "rows": [
                (row.number, [*row.cells], [*row.cells.values()], row.is_hidden, row.without_value, row.errors)
                for row in sheet.rows
            ],
        }
        for sheet in sheets
    ]
    return {"sheets": len(sheets)}, orjson.dumps(body)


def sheets_of(body: bytes) -> list[Sheet]:
    """The sheets in the body of such a frame."""
    return [
        Sheet(
            name=sheet["name"],
            is_hidden=sheet["hidden"],
            merged=sheet["merged"],
            rows=[
                Row(
                    number=number,
                    cells=dict(zip(columns, texts, strict=True)),
                    is_hidden=hidden,
                    without_value=tuple(without_value),
                    errors=tuple(errors),
                )
                for number, columns, texts, hidden, without_value, errors in sheet["rows"]
            ],
        )
        for sheet in orjson.loads(body)
    ]


def parsed_of(header: dict[str, Any], body: bytes) -> Parsed:
    """The parsed document in a frame."""
    sections = tuple(
        Section(start=start, end=end, heading_path=tuple(path), page=page)
        for start, end, path, page in header["sections"]
    )
    return Parsed(text=body.decode(), sections=sections, title=header["title"])
