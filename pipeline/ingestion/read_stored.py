"""Read the text of a stored document, render a page of it, or preview other chunks of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from pipeline.archives.archive import is_packed
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.document_store import Documents, Source
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import ChunkSpan
from pipeline.errors import GenerationNotKept, NotReingestible, UnsupportedMediaType
from pipeline.ingestion.preview import preview, preview_json
from pipeline.jobs.computation import Computation, Done
from pipeline.parsing.formats import PDF
from pipeline.records import Chunking, DocumentId, Namespace, Parsed
from pipeline.resources import Resources


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


def _text_json(parsed: Parsed, source: Source, spans: list[ChunkSpan], parents: int) -> dict[str, Any]:
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
    result = preview(
        source.body,
        media_type=source.media_type,
        filename=source.source_uri,
        title=source.fields.title,
        chunking=Chunking(**asked["chunking"]),
        use=use,
    )
    return Done(body=orjson.dumps(preview_json(result)))


_WANTED: Final[Mapping[str, Callable[[Source, Mapping[str, Any], Resources], Done]]] = {
    "text": _text,
    "page": _page,
    "preview": _preview,
}
