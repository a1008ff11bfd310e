"""Read the text of a stored document, render a page of it, or preview the chunks of a document without storing anything."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import orjson

from chordwise.contract.chunk import ChunkPosition
from pipeline.answer.passage_json import encoding_as_json, passage_as_json
from pipeline.archives.archive import is_packed
from pipeline.chunking.cut import embedding_text
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.cut_document import CutRequest
from pipeline.documents.document_store import Documents, Source
from pipeline.documents.document_view_store import DocumentViews
from pipeline.errors import GenerationNotKept, NotReingestible, UnsupportedMediaType
from pipeline.jobs.computation import Computation, Done
from pipeline.parsing.formats import PDF
from pipeline.records import Chunking, DocumentId, Namespace, Parsed, Passage
from pipeline.resources import Resources


def preview_body(computation: Computation, use: Resources) -> Done:
    """Carry out a preview. The body is the document; ``asked`` has its media type, file name, title and chunking."""
    about = {name: computation.asked[name] for name in ("media_type", "filename", "title")}
    return preview(computation.body, use, chunking=Chunking(**computation.asked["chunking"]), **about)


def preview(
    body: bytes, use: Resources, *, media_type: str, filename: str | None, title: str | None, chunking: Chunking
) -> Done:
    """Parse and cut as ingestion would, within the same limits, and return the chunks that the document would have, as
    JSON. Raises the errors that would fail the document."""
    request = CutRequest(
        media_type=media_type,
        filename=filename,
        title=title,
        chunking=chunking,
    )
    cut = use.parser.cut(body, request)
    how = asdict(chunking)
    options = how.pop("options")
    answer = {
        "title": cut.title,
        "encoding": encoding_as_json(cut.encoding),
        "pages_warning": cut.encoding.pages_warning if cut.encoding else None,
        "chunking": {**how, **options},
        "chunks": [
            _chunk_json(ordinal, passage, embedding_text(passage, cut.title, text=searched))
            for ordinal, (passage, searched) in enumerate(zip(cut.passages, cut.searched, strict=True))
        ],
        "parents": [_chunk_json(ordinal, passage, None) for ordinal, passage in enumerate(cut.parents)],
    }
    return Done(body=orjson.dumps(answer))


def _chunk_json(ordinal: int, passage: Passage, embedded: str | None) -> dict[str, Any]:
    return {"ordinal": ordinal, "parent": passage.parent, **passage_as_json(passage), "embedding_text": embedded}


def read_stored(computation: Computation, use: Resources) -> Done:
    """Carry out a computation on a stored document, which ``asked`` names; its ``wanted`` is text, page or preview."""
    asked = computation.asked
    namespace, document_id = Namespace(asked["namespace"]), DocumentId(asked["document_id"])
    with unit_of_work(use.mysql) as work:
        source = Documents(work.connection, computation.tenant_id).upload(namespace, document_id)
    if source is None:
        raise GenerationNotKept("the bytes of the document are gone")
    if is_packed(source.media_type):
        detail = "the document was imported with its chunks; its original is not stored"
        raise NotReingestible(detail, code="imported_with_chunks")
    return _WANTED[asked["wanted"]](source, asked, use)


def _text(source: Source, _: Mapping[str, Any], use: Resources) -> Done:
    """Return the parsed text with its sections and the spans of the generation's chunks."""
    parsed = use.parser.parse(source.body, media_type=source.media_type, filename=source.source_uri)
    generation = source.generation
    with unit_of_work(use.mysql) as work:
        views = DocumentViews(work.connection, generation.scope.tenant_id)
        spans, parents = views.spans(generation), views.parent_count(generation)
    return Done(body=orjson.dumps(_text_json(parsed, source, spans, parents)))


def _text_json(parsed: Parsed, source: Source, spans: list[ChunkPosition], parents: int) -> dict[str, Any]:
    return {
        "namespace": source.generation.scope.namespace,
        "document_id": source.generation.document_id,
        "generation": source.generation.number,
        "title": source.fields.title or parsed.title,
        "media_type": source.media_type.partition(";")[0],
        "text": parsed.text,
        "sections": [
            {"start": part.start, "end": part.end, "heading_path": part.heading_path, "page": part.page}
            for part in parsed.sections
        ],
        "parents": parents,
        "chunks": spans,
    }


def _page(source: Source, asked: Mapping[str, Any], use: Resources) -> Done:
    """Return a page as PNG; without a body if there is no such page."""
    if source.media_type.partition(";")[0] != PDF:
        raise UnsupportedMediaType("only PDF files have page images")
    image = use.parser.page(source.body, asked["page"], width=asked["width"])
    return Done(body=image.png, about={"pages": image.pages}) if image else Done(body=b"")


def _preview(source: Source, asked: Mapping[str, Any], use: Resources) -> Done:
    return preview(
        source.body,
        use,
        media_type=source.media_type,
        filename=source.source_uri,
        title=source.fields.title,
        chunking=Chunking(**asked["chunking"]),
    )


_WANTED: Final[Mapping[str, Callable[[Source, Mapping[str, Any], Resources], Done]]] = {
    "text": _text,
    "page": _page,
    "preview": _preview,
}
