"""The protocol of the two processes: requests and answers in turn, one JSON header and one body each. A document or a book
is answered as JSON of its record. A frame with only a stage, before the answer, reports that the stage, or the next page
of it, has begun."""

import struct
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import orjson

from pipeline.documents.cut_document import CutRequest
from pipeline.errors import CuttingMemory, ParserMemory, Rejected
from pipeline.parsing.pdf.page_images import PageImage
from pipeline.records import Chunking, Scope

_LENGTHS = struct.Struct("!II")  # bytes of the header, bytes of the body
CUTTING = "cutting"  # the stage after parsing
RECOGNISING = "recognising"  # a page of pictures, within parsing
LARGEST_FRAME = 512 * 1024 * 1024  # bytes


class BrokenFrame(Exception):
    """The other side sent an invalid frame."""


def packed(header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    encoded = orjson.dumps(header)
    return b"".join((_LENGTHS.pack(len(encoded), len(body)), encoded, body))


def read_frame(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Return the next frame. ``read`` returns exactly the requested number of bytes, or raises EOFError."""
    header_bytes, body_bytes = _LENGTHS.unpack(read(_LENGTHS.size))
    if header_bytes + body_bytes > LARGEST_FRAME:
        raise BrokenFrame("a frame is too large")
    header = orjson.loads(read(header_bytes))
    if not isinstance(header, dict):
        raise BrokenFrame("a header is no object")
    return header, read(body_bytes)


def question_of(request: CutRequest) -> dict[str, Any]:
    """Return the header of a request to parse and cut a document; the document's bytes are the body."""
    return {"wanted": "pieces", **asdict(request)}


def request_of(header: Mapping[str, Any]) -> CutRequest:
    """Return the request in such a header."""
    scope = header["scope"]
    return CutRequest(
        **{name: header[name] for name in ("media_type", "filename", "title", "most_chunks")},
        chunking=Chunking(**header["chunking"]),
        scope=Scope(**scope) if scope else None,
    )


def frame_of_image(image: PageImage | None) -> tuple[dict[str, Any], bytes]:
    """Return the image of a page as header and body; a header without pages if there is no such page."""
    if image is None:
        return {"pages": 0}, b""
    return {"pages": image.pages, "width": image.width, "height": image.height}, image.png


def image_of(header: dict[str, Any], body: bytes) -> PageImage | None:
    """Return the image in such a frame."""
    if not header["pages"]:
        return None
    return PageImage(pages=header["pages"], width=header["width"], height=header["height"], png=body)


def out_of_memory(stage: str | None) -> Rejected:
    """Return the error for a document that used up the memory in this stage."""
    kind, work = (CuttingMemory, "cutting") if stage == CUTTING else (ParserMemory, "parsing")
    return kind(f"{work} the document takes more memory than is allowed (CHORDWISE_PARSER_MEMORY_BYTES)")
