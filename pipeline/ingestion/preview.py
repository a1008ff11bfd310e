"""Preview the chunks of a document without storing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from pipeline.answer.passage_json import encoding_as_json, passage_as_json
from pipeline.chunking.cut import embedding_text
from pipeline.documents.cut_document import CutRequest
from pipeline.jobs.computation import Computation, Done
from pipeline.records import Chunking, Encoding, Passage
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
