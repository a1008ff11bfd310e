"""Preview the chunks of a document without storing anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    found = use.parser.cut(body, request)
    return Preview(
        title=found.title,
        chunking=chunking,
        passages=found.passages,
        embedded=[
            embedding_text(passage, found.title, text=searched)
            for passage, searched in zip(found.passages, found.searched, strict=True)
        ],
        parents=found.parents,
        encoding=found.encoding,
    )


def preview_body(computation: Computation, use: Resources) -> Done:
    """Carry out a preview. The body is the document; ``asked`` has the parameters of `preview`."""
    asked = computation.asked
    found = preview(
        computation.body,
        media_type=asked["media_type"],
        filename=asked["filename"],
        title=asked["title"],
        chunking=Chunking(**asked["chunking"]),
        use=use,
    )
    return Done(body=orjson.dumps(_as_json(found)))


def _as_json(found: Preview) -> dict[str, Any]:
    """Return a preview as JSON."""
    chunking = found.chunking
    return {
        "title": found.title,
        "encoding": encoding_as_json(found.encoding),
        "chunking": {
            "strategy": chunking.strategy,
            "max_tokens": chunking.max_tokens,
            "overlap": chunking.overlap,
            **chunking.options,
        },
        "chunks": [
            {"ordinal": ordinal, "parent": passage.parent, **passage_as_json(passage), "embedding_text": embedded}
            for ordinal, (passage, embedded) in enumerate(zip(found.passages, found.embedded, strict=True))
        ],
        "parents": [
            {"ordinal": ordinal, "parent": None, **passage_as_json(passage), "embedding_text": None}
            for ordinal, passage in enumerate(found.parents)
        ],
    }
