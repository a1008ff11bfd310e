"""The protocol of the two processes: requests and answers in turn, one JSON header and one body each. A frame with only
a stage, before the answer, reports that the stage, or the next page of it, has begun."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple
from operator import attrgetter
from typing import Any

import orjson

from pipeline.documents.cut_document import CutDocument, CutRequest
from pipeline.errors import CuttingMemory, ParserMemory, Rejected
from pipeline.examples.workbook_book import Sheet
from pipeline.keyword.indexed_fields import IndexedTokens
from pipeline.parsing.page_images import PageImage
from pipeline.parsing.sheets import Row
from pipeline.records import Chunking, Encoding, FieldTerms, Parsed, Passage, Scope, Section, Segment

_LENGTHS = struct.Struct("!II")  # bytes of the header, bytes of the body
CUTTING = "cutting"  # the stage after parsing
RECOGNISING = "recognising"  # a page of pictures, within parsing
LARGEST_FRAME = 512 * 1024 * 1024  # bytes
_PASSAGE_FIELDS = ("start", "end", "token_count", "page", "page_end", "chunk_type", "parent", "index")
_PASSAGE_VALUES = attrgetter(*_PASSAGE_FIELDS)


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


def frame_of(parsed: Parsed) -> tuple[dict[str, Any], bytes]:
    """Return a parsed document as header and body."""
    sections = [(section.start, section.end, section.heading_path, section.page) for section in parsed.sections]
    return {"title": parsed.title, "sections": sections, "encoding": _fields(parsed.encoding)}, parsed.text.encode()


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


def frame_of_pieces(document: CutDocument, text: str) -> tuple[dict[str, Any], bytes]:
    """Return a cut document as header and body: passage positions in ``text``, the text, and a line of tokens per
    passage."""
    encoded = text.encode()
    paths: dict[tuple[str, ...], int] = {}
    # By identity: passages of one segment share it.
    segments = {id(passage.segment): passage.segment for passage in document.passages if passage.segment is not None}
    segment_numbers = {identity: number for number, identity in enumerate(segments)}

    def row(passage: Passage) -> tuple[Any, ...]:
        path = paths.setdefault(passage.heading_path, len(paths))
        return (*_PASSAGE_VALUES(passage), path, segment_numbers.get(id(passage.segment)))

    header = {
        "title": document.title,
        "encoding": _fields(document.encoding),
        "passages": [row(passage) for passage in document.passages],
        "parents": [row(passage) for passage in document.parents],
        "paths": list(paths),
        "segments": [asdict(segment) for segment in segments.values()],
        "searched": list(document.searched),
        "fields": [astuple(tokens.fields) for tokens in document.indexed],
        "text_bytes": len(encoded),
    }
    terms = "\n".join(" ".join(tokens.terms) for tokens in document.indexed)
    return header, encoded + terms.encode("ascii")


def pieces_of(header: Mapping[str, Any], body: bytes) -> CutDocument:
    """Return the cut document in such a frame."""
    view = memoryview(body)
    text = str(view[: header["text_bytes"]], "utf-8")
    paths = [tuple(path) for path in header["paths"]]
    segments = [
        Segment(**{**segment, "entity_names": tuple(segment["entity_names"])}) for segment in header["segments"]
    ]

    def passage(row: Sequence[Any]) -> Passage:
        *values, path, segment = row
        fields = dict(zip(_PASSAGE_FIELDS, values, strict=True))
        return Passage(
            text=text[fields["start"] : fields["end"]],
            heading_path=paths[path],
            segment=None if segment is None else segments[segment],
            **fields,
        )

    return CutDocument(
        title=header["title"],
        passages=[passage(row) for row in header["passages"]],
        searched=header["searched"],
        indexed=_indexed(header["fields"], str(view[header["text_bytes"] :], "ascii")),
        parents=[passage(row) for row in header["parents"]],
        encoding=_encoding_of(header),
    )


def _fields(encoding: Encoding | None) -> dict[str, Any] | None:
    return asdict(encoding) if encoding else None


def _encoding_of(header: Mapping[str, Any]) -> Encoding | None:
    return Encoding(**header["encoding"]) if header["encoding"] else None


def _indexed(fields: Sequence[Sequence[int]], terms: str) -> list[IndexedTokens]:
    return [
        IndexedTokens(
            terms=tuple(line.split()), fields=FieldTerms(title=title, summary=summary, entity_names=entity_names)
        )
        for line, (title, summary, entity_names) in zip(terms.split("\n"), fields, strict=False)
    ]


def frame_of_sheets(sheets: Sequence[Sheet]) -> tuple[dict[str, Any], bytes]:
    """Return the sheets of a workbook as header and body: the cells, columns and texts of each row, separately."""
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
    """Return the sheets in the body of such a frame."""
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


def parsed_of(header: dict[str, Any], body: bytes) -> Parsed:
    """Return the parsed document in a frame."""
    sections = tuple(
        Section(start=start, end=end, heading_path=tuple(path), page=page)
        for start, end, path, page in header["sections"]
    )
    return Parsed(text=body.decode(), sections=sections, title=header["title"], encoding=_encoding_of(header))


def out_of_memory(stage: str | None) -> Rejected:
    """Return the error for a document that used up the memory in this stage."""
    kind, work = (CuttingMemory, "cutting") if stage == CUTTING else (ParserMemory, "parsing")
    return kind(f"{work} the document takes more memory than is allowed (CHORDWISE_PARSER_MEMORY_BYTES)")
