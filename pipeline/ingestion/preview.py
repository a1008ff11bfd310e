"""Read the text of a stored document, render a page of it, or preview the chunks of a document without storing anything."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from pipeline.answer.passage_json import encoding_as_json, passage_as_json
from pipeline.archives.archive import is_packed
from pipeline.chunking.cut import embedding_text
from pipeline.database.unit_of_work import unit_of_work
from pipeline.documents.cut_document import CutRequest
from pipeline.documents.document_store import Documents, Source
from pipeline.documents.document_view_store import DocumentViews
from pipeline.documents.document_views import ChunkSpan
from pipeline.errors import GenerationNotKept, NotReingestible, UnsupportedMediaType
from pipeline.jobs.computation import Computation, Done
from pipeline.parsing.formats import PDF
from pipeline.records import Chunking, DocumentId, Encoding, Namespace, Parsed, Passage
from pipeline.resources import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The chunks that a document would have. ``embedded``: the text to embed for each."""

    title: str | None
    chunking: Chunking
    passages: Sequence[Passage]
    embedded: Sequence[str]
    parents: Sequence[Passage]
    encoding: Encoding | None = None


def preview(
    body: bytes, *, media_type: str, filename: str | None, title: str | None, chunking: Chunking, use: Resources
) -> Preview:
    """Parse and cut as ingestion would, within the same limits. Raises the errors that would park the document."""
    request = CutRequest(
        media_type=media_type,
        filename=filename,
        title=title,
        chunking=chunking,
        most_chunks=use.settings.max_chunks_per_document,
    )
    cut = use.parser.cut(body, request)
    return Preview(
        title=cut.title,
        chunking=chunking,
        passages=cut.passages,
        embedded=[
            embedding_text(passage, cut.title, text=searched)
            for passage, searched in zip(cut.passages, cut.searched, strict=True)
        ],
        parents=cut.parents,
        encoding=cut.encoding,
    )


def preview_body(computation: Computation, use: Resources) -> Done:
    """Carry out a preview. The body is the document; ``asked`` has the parameters of `preview`."""
    parameters = computation.asked
    result = preview(
        computation.body,
        media_type=parameters["media_type"],
        filename=parameters["filename"],
        title=parameters["title"],
        chunking=Chunking(**parameters["chunking"]),
        use=use,
    )
    return Done(body=orjson.dumps(preview_json(result)))


def preview_json(result: Preview) -> dict[str, Any]:
    """Return a preview as JSON."""
    chunking = asdict(result.chunking)
    options = chunking.pop("options")
    return {
        "title": result.title,
        "encoding": encoding_as_json(result.encoding),
        "pages_warning": result.encoding.pages_warning if result.encoding else None,
        "chunking": {**chunking, **options},
        "chunks": [
            {"ordinal": ordinal, "parent": passage.parent, **passage_as_json(passage), "embedding_text": embedded}
            for ordinal, (passage, embedded) in enumerate(zip(result.passages, result.embedded, strict=True))
        ],
        "parents": [
            {"ordinal": ordinal, "parent": None, **passage_as_json(passage), "embedding_text": None}
            for ordinal, passage in enumerate(result.parents)
        ],
    }


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
