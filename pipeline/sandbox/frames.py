"""Requests to the parser process and its answers, as headers and bodies of frames (`pipes`). A document or a book is
answered as JSON of its record. A frame with only a stage, before the answer, reports that the stage, or the next page of
it, has begun."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pipeline.documents.cut_document import CutRequest
from pipeline.errors import CuttingMemory, ParserMemory, Rejected
from pipeline.parsing.pdf.page_images import PageImage
from pipeline.records import Chunking, Scope

CUTTING = "cutting"  # the stage after parsing
RECOGNISING = "recognising"  # a page of pictures, within parsing


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
