"""The protocol of the two processes: requests and answers in turn, one JSON header and one body each. A frame with only
a stage, before the answer, reports that the stage has begun."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from pipeline.documents.cut_document import CutDocument, CutRequest
from pipeline.errors import CuttingMemory, ParserMemory, Rejected
from pipeline.examples.workbook_book import Sheet
from pipeline.keyword.indexed_fields import IndexedTokens
from pipeline.parsing.sheets import Row
from pipeline.records import Chunking, Encoding, FieldTerms, Parsed, Passage, Scope, Section, Segment

_LENGTHS = struct.Struct("!II")  # bytes of the header, bytes of the body
CUTTING = "cutting"  # the stage after parsing
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


def frame_of(parsed: Parsed) -> tuple[dict[str, Any], bytes]:
    """Return a parsed document as header and body."""
    sections = [(each.start, each.end, each.heading_path, each.page) for each in parsed.sections]
    return {
        "title": parsed.title,
        "sections": sections,
        "encoding": _packed_encoding(parsed.encoding),
    }, parsed.text.encode()


def question_of(request: CutRequest) -> dict[str, Any]:
    """Return the header of a request to parse and cut a document; the document's bytes are the body."""
    chunking, scope = request.chunking, request.scope
    return {
        "wanted": "pieces",
        "media_type": request.media_type,
        "filename": request.filename,
        "title": request.title,
        "chunking": (chunking.strategy, chunking.max_tokens, chunking.overlap, dict(chunking.options)),
        "most_chunks": request.most_chunks,
        "scope": (scope.tenant_id, scope.namespace) if scope else None,
    }


def request_of(header: Mapping[str, Any]) -> CutRequest:
    """Return the request in such a header."""
    strategy, max_tokens, overlap, options = header["chunking"]
    scope = header["scope"]
    return CutRequest(
        media_type=header["media_type"],
        filename=header["filename"],
        title=header["title"],
        chunking=Chunking(strategy=strategy, max_tokens=max_tokens, overlap=overlap, options=options),
        most_chunks=header["most_chunks"],
        scope=Scope(tenant_id=scope[0], namespace=scope[1]) if scope else None,
    )


def frame_of_pieces(document: CutDocument, text: str) -> tuple[dict[str, Any], bytes]:
    """Return a cut document as header and body: passage positions in ``text``, the text, and a line of tokens per
    passage."""
    encoded = text.encode()
    paths: dict[tuple[str, ...], int] = {}
    segments: dict[int, int] = {}  # by identity: passages of one segment share it
    told: list[Segment] = []
    for passage in document.passages:
        if passage.segment is not None and id(passage.segment) not in segments:
            segments[id(passage.segment)] = len(told)
            told.append(passage.segment)

    def row(passage: Passage) -> tuple[Any, ...]:
        return (
            passage.start,
            passage.end,
            passage.token_count,
            paths.setdefault(passage.heading_path, len(paths)),
            passage.page,
            passage.page_end,
            passage.chunk_type,
            passage.parent,
            passage.index,
            None if passage.segment is None else segments[id(passage.segment)],
        )

    header = {
        "title": document.title,
        "encoding": _packed_encoding(document.encoding),
        "passages": [row(passage) for passage in document.passages],
        "parents": [row(passage) for passage in document.parents],
        "paths": list(paths),
        "segments": [
            (each.chapter_id, each.story_time, each.entity_names, each.summary, dict(each.attributes)) for each in told
        ],
        "searched": list(document.searched),
        "fields": [(each.fields.title, each.fields.summary, each.fields.entity_names) for each in document.indexed],
        "text_bytes": len(encoded),
    }
    tokens = "\n".join([" ".join(each.terms) for each in document.indexed])
    return header, encoded + tokens.encode("ascii")


def pieces_of(header: Mapping[str, Any], body: bytes) -> CutDocument:
    """Return the cut document in such a frame."""
    view = memoryview(body)
    text = str(view[: header["text_bytes"]], "utf-8")
    paths = [tuple(path) for path in header["paths"]]
    segments = [
        Segment(chapter_id=chapter, story_time=time, entity_names=tuple(names), summary=summary, attributes=attributes)
        for chapter, time, names, summary, attributes in header["segments"]
    ]

    def passage(row: Sequence[Any]) -> Passage:
        start, end, token_count, path, page, page_end, chunk_type, parent, index, segment = row
        return Passage(
            text=text[start:end],
            start=start,
            end=end,
            token_count=token_count,
            heading_path=paths[path],
            page=page,
            page_end=page_end,
            chunk_type=chunk_type,
            parent=parent,
            index=index,
            segment=None if segment is None else segments[segment],
        )

    return CutDocument(
        title=header["title"],
        passages=[passage(row) for row in header["passages"]],
        searched=header["searched"],
        indexed=_indexed(header["fields"], str(view[header["text_bytes"] :], "ascii")),
        parents=[passage(row) for row in header["parents"]],
        encoding=_encoding_of(header),
    )


def _packed_encoding(encoding: Encoding | None) -> tuple[str, float, str | None] | None:
    return (encoding.name, encoding.probability, encoding.warning) if encoding else None


def _encoding_of(header: Mapping[str, Any]) -> Encoding | None:
    if (packed_encoding := header["encoding"]) is None:
        return None
    name, probability, warning = packed_encoding
    return Encoding(name=name, probability=probability, warning=warning)


def _indexed(fields: Sequence[Sequence[int]], tokens: str) -> list[IndexedTokens]:
    return [
        IndexedTokens(
            terms=tuple(line.split()), fields=FieldTerms(title=title, summary=summary, entity_names=entity_names)
        )
        for line, (title, summary, entity_names) in zip(tokens.split("\n"), fields, strict=False)
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


def parsed_of(header: dict[str, Any], body: bytes) -> Parsed:
    """Return the parsed document in a frame."""
    sections = tuple(
        Section(start=start, end=end, heading_path=tuple(path), page=page)
        for start, end, path, page in header["sections"]
    )
    return Parsed(text=body.decode(), sections=sections, title=header["title"], encoding=_encoding_of(header))


def out_of_memory(stage: str | None) -> Rejected:
    """Return the error for a document that used up the memory in this stage."""
    if stage == CUTTING:
        return CuttingMemory("cutting the document takes more memory than is allowed (CHORDWISE_PARSER_MEMORY_BYTES)")
    return ParserMemory("parsing the document takes more memory than is allowed (CHORDWISE_PARSER_MEMORY_BYTES)")
